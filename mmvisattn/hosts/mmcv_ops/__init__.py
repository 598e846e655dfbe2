"""A stand-in for ``mmcv._ext``, the compiled ops of mmcv, in PyTorch and torchvision.

``mmcv.ops`` reads every compiled function from one extension module, ``mmcv._ext``. Where that module does not exist
(mmcv-lite, or an mmcv built without ops), :func:`install` makes ``import mmcv._ext`` find ours, so that ``mmcv.ops``,
MMDetection and MMSegmentation import and run. One file per op family; ``provided.py`` is the table of all of them.
"""

from mmvisattn.hosts.mmcv_ops.stand_in import install, is_active, provided_ops

__all__ = ["install", "is_active", "provided_ops"]
