"""Overlaps of axis-aligned boxes, after ``csrc/pytorch/cpu/bbox_overlaps_cpu.cpp`` of mmcv (Apache-2.0)."""

import torch
from torch import Tensor

from mmvisattn.hosts.mmcv_ops.float_width import at_least_float32

_IOU, _IOF = 0, 1


def bbox_overlaps(bboxes1: Tensor, bboxes2: Tensor, ious: Tensor, mode: int, aligned: bool, offset: int) -> None:
    """Write intersection over union, or over the first box, of each pair.

    Two boxes without area give NaN at offset 0, as the compiled op does.

    Args:
        bboxes1: (M, 4), rows (x1, y1, x2, y2) in pixels.
        bboxes2: (N, 4); N equals M when aligned.
        ious: (M, N), or (M,) when aligned; written.
        mode: 0 divides by the union, 1 by the area of the first box.
        aligned: pair row i with row i instead of every row with every row.
        offset: 0 or 1, added to widths and heights.

    Example:
        >>> first = torch.tensor([[0.0, 0.0, 2.0, 2.0]])
        >>> second = torch.tensor([[0.0, 0.0, 1.0, 2.0], [3.0, 3.0, 4.0, 4.0]])
        >>> ious = torch.zeros(1, 2)
        >>> bbox_overlaps(first, second, ious, mode=0, aligned=False, offset=0)
        >>> ious
        tensor([[0.5000, 0.0000]])
    """
    if mode not in (_IOU, _IOF):
        raise ValueError(f"bbox_overlaps mode must be 0 (iou) or 1 (iof), got {mode!r}.")
    first, second = at_least_float32(bboxes1, bboxes2)
    if not aligned:
        first = first[:, None]  # (M, 1, 4) against (N, 4)
    sides = torch.minimum(first[..., 2:], second[..., 2:]) - torch.maximum(first[..., :2], second[..., :2]) + offset
    intersection = _area(sides.clamp(min=0))
    base = _area(first[..., 2:] - first[..., :2] + offset)
    if mode == _IOU:
        base = base + _area(second[..., 2:] - second[..., :2] + offset) - intersection
    ious.copy_(intersection / base)


def _area(sides: Tensor) -> Tensor:
    return sides[..., 0] * sides[..., 1]
