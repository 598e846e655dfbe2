"""The two file formats of the dataset: COCO instances and ADE20K label maps."""

from typing import Any

import numpy as np

from mmvisattn.datasets.shapes.outlines import SHAPE_CLASSES
from mmvisattn.datasets.shapes.scene import Scene

SEGMENTATION_CLASSES: tuple[str, ...] = ("background", *SHAPE_CLASSES)
"""Classes of the label maps; value ``i + 1`` in a label map is class ``i``, and 0 means unlabelled, as in ADE20K."""


def run_lengths(mask: np.ndarray) -> dict[str, Any]:
    """Encode a mask in COCO's uncompressed run-length form.

    Run lengths, unlike polygons, can say that a ring has a hole.

    Args:
        mask: (H, W) bool.

    Returns:
        ``size`` as [H, W], and ``counts``: lengths of alternating runs of zeros and ones in column-major order, the
        first of zeros.

    Example:
        >>> run_lengths(np.array([[False, True], [True, True]]))
        {'size': [2, 2], 'counts': [1, 3]}
    """
    pixels = mask.ravel(order="F").astype(np.int8)
    changes = np.flatnonzero(np.diff(pixels, prepend=0)) if pixels.size else np.zeros(0, np.intp)
    counts = np.diff(changes, prepend=0, append=pixels.size)
    return {"size": list(mask.shape), "counts": counts.tolist()}


def coco_annotations(scene: Scene, image_id: int, first_id: int) -> list[dict[str, Any]]:
    """Return one COCO annotation per object, from its visible mask.

    Args:
        scene: The scene.
        image_id: Identifier of its image in the COCO file.
        first_id: Identifier of its first annotation; the others follow.

    Returns:
        Dicts with ``bbox`` as [x, y, width, height] in pixels and ``area`` in pixels.
    """
    annotations = []
    for index, label in enumerate(scene.labels):
        mask = scene.instances == index + 1
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        x, y = int(columns[0]), int(rows[0])
        annotations.append(
            {
                "id": first_id + index,
                "image_id": image_id,
                "category_id": label + 1,
                "bbox": [x, y, int(columns[-1]) + 1 - x, int(rows[-1]) + 1 - y],
                "area": int(mask.sum()),
                "segmentation": run_lengths(mask),
                "iscrowd": 0,
            }
        )
    return annotations


def coco_categories() -> list[dict[str, Any]]:
    """Return COCO's list of categories; identifiers start at 1."""
    return [{"id": index + 1, "name": name, "supercategory": "shape"} for index, name in enumerate(SHAPE_CLASSES)]


def label_map(scene: Scene) -> np.ndarray:
    """Return the ADE20K label map of a scene.

    Args:
        scene: The scene.

    Returns:
        (H, W) uint8 holding 1 for the background and ``label + 2`` for an object, so that ``reduce_zero_label=True``
        yields indices into ``SEGMENTATION_CLASSES``.
    """
    values = np.array([1, *(label + 2 for label in scene.labels)], np.uint8)
    return values[scene.instances]
