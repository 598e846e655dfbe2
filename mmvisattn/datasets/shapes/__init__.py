"""Generated pictures of shapes with instance masks, in COCO and ADE20K layout.

The files follow the path of the data: ``outlines`` (classes), ``textures`` and ``palette``, ``painting`` (one object),
``scene`` (one picture), ``layouts`` (annotations), ``generate`` (the folder on disk).
"""

from mmvisattn.datasets.shapes.generate import ensure_shapes, make_shapes
from mmvisattn.datasets.shapes.layouts import SEGMENTATION_CLASSES
from mmvisattn.datasets.shapes.outlines import SHAPE_CLASSES

__all__ = ["SEGMENTATION_CLASSES", "SHAPE_CLASSES", "ensure_shapes", "make_shapes"]
