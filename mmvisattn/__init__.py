"""Vision-attention backbones for MMDetection and MMSegmentation.

Importing this package costs nothing and needs nothing: a config switches everything on with
``custom_imports = dict(imports=['mmvisattn.registry'], allow_failed_imports=False)``.
"""

__version__ = "0.1.0"
