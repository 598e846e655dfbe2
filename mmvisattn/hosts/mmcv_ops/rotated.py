"""Overlaps and suppression of rotated boxes: ``box_iou_rotated`` and ``nms_rotated``.

A box is (x, y, width, height, angle): centre and sides in pixels, angle in radians, clockwise in an image whose y axis
points down. Semantics after ``csrc/common/box_iou_rotated_utils.hpp`` of mmcv (Apache-2.0); the intersection is found
in another way, without a convex hull, and in float64.
"""

import numpy as np
import torch
from torch import Tensor

_SMALLEST_AREA = 1e-14  # below it a box overlaps nothing
_PAIRS_AT_ONCE = 1 << 17  # about 200 MB of intermediate points


def box_iou_rotated(bboxes1: Tensor, bboxes2: Tensor, ious: Tensor, mode_flag: int, aligned: bool) -> None:
    """Write intersection over union, or over the first box, of each pair of rotated boxes.

    Args:
        bboxes1: (M, 5).
        bboxes2: (N, 5); N equals M when aligned.
        ious: (M * N,), row after row, or (M,) when aligned; written.
        mode_flag: 0 divides by the union, 1 by the area of the first box.
        aligned: pair row i with row i instead of every row with every row.

    Example:
        >>> ious = torch.zeros(1)
        >>> box = torch.tensor([[0.0, 0.0, 2.0, 2.0, 0.0]])
        >>> turned = torch.tensor([[0.0, 0.0, 2.0, 2.0, torch.pi / 4]])
        >>> box_iou_rotated(box, turned, ious, mode_flag=0, aligned=False)
        >>> ious
        tensor([0.7071])
    """
    if mode_flag not in (0, 1):
        raise ValueError(f"box_iou_rotated mode_flag must be 0 (iou) or 1 (iof), got {mode_flag!r}.")
    if aligned:
        ious.copy_(_overlap(bboxes1.double(), bboxes2.double(), mode_flag))
        return
    rows = ious.view(len(bboxes1), len(bboxes2))
    step = max(1, _PAIRS_AT_ONCE // max(1, len(bboxes2)))
    for start in range(0, len(bboxes1), step):
        part = bboxes1[start : start + step, None].double()
        rows[start : start + step] = _overlap(part, bboxes2.double(), mode_flag).to(ious)


def nms_rotated(
    dets: Tensor,
    scores: Tensor,
    order: Tensor,
    dets_sorted: Tensor,
    labels: Tensor,
    iou_threshold: float,
    multi_label: bool,
) -> Tensor:
    """Drop each rotated box whose overlap with a kept box of higher score reaches the threshold.

    Args:
        dets: (N, 5), or (N, 6) with a label last.
        scores: (N,).
        order: (N,), indices by falling score.
        dets_sorted: ``dets`` in that order; not needed here.
        labels: (N,) or empty; boxes of different labels suppress each other, as in the compiled op.
        iou_threshold: overlap at which a box is dropped.
        multi_label: whether labels are given; not needed here.

    Returns:
        (K,) int64 indices of the kept boxes, by falling score.
    """
    boxes = dets[:, :5].double()
    reach = boxes[:, 2:4].norm(dim=1) / 2  # boxes further apart than both reaches do not meet
    threshold = float(np.float32(iou_threshold))
    kept = []
    rest = order
    while rest.numel():
        first, rest = rest[:1], rest[1:]
        kept.append(first)
        near = (boxes[rest, :2] - boxes[first, :2]).norm(dim=1) <= reach[rest] + reach[first]
        overlap = torch.zeros(len(rest), device=dets.device)
        overlap[near] = _overlap(boxes[first], boxes[rest[near]], mode_flag=0).float()
        rest = rest[~(overlap >= threshold)]
    return torch.cat(kept) if kept else order


def _overlap(first: Tensor, second: Tensor, mode_flag: int) -> Tensor:
    """Overlap (...) of float64 boxes (..., 5) that broadcast against each other."""
    area1, area2 = first[..., 2] * first[..., 3], second[..., 2] * second[..., 3]
    intersection = _intersection_area(first, second)
    base = area1 if mode_flag == 1 else area1 + area2 - intersection
    return torch.where((area1 < _SMALLEST_AREA) | (area2 < _SMALLEST_AREA), 0.0, intersection / base)


def _intersection_area(first: Tensor, second: Tensor) -> Tensor:
    """Area (...) of the intersection of rotated boxes (..., 5).

    In the frame of the second box, the outline of the first is cut where it crosses the sides of the second and then
    clamped to it. Clamping keeps the number of turns around every inner point of the second box, so the outline so
    bent encloses the intersection. A cut too many is harmless, so equal and parallel sides need no special case.
    """
    corners = _corners_in_frame_of(first, second)  # (..., 4, 2), around the outline
    edges = corners.roll(-1, dims=-2) - corners
    limit = second[..., None, 2:4] / 2  # (..., 1, 2)
    cuts = torch.cat(
        ((-limit - corners) / edges, (limit - corners) / edges, torch.zeros_like(corners[..., :1])), dim=-1
    )
    cuts = cuts.nan_to_num(nan=0.0).clamp(0, 1).sort(dim=-1).values  # (..., 4, 5), fractions of each edge
    points = corners[..., None, :] + cuts[..., None] * edges[..., None, :]
    outline = torch.maximum(torch.minimum(points, limit[..., None, :]), -limit[..., None, :]).flatten(-3, -2)
    following = outline.roll(-1, dims=-2)
    cross = outline[..., 0] * following[..., 1] - outline[..., 1] * following[..., 0]
    return cross.sum(dim=-1).abs() / 2


def _corners_in_frame_of(first: Tensor, second: Tensor) -> Tensor:
    signs = first.new_tensor([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    local = signs * first[..., None, 2:4] / 2  # (..., 4, 2)
    centre = _rotate(first[..., :2] - second[..., :2], -second[..., 4])
    return _rotate(local, (first[..., 4] - second[..., 4])[..., None]) + centre[..., None, :]


def _rotate(points: Tensor, angle: Tensor) -> Tensor:
    """Points (..., 2) turned around the origin by angles (...), clockwise with y down."""
    cos, sin = angle.cos(), angle.sin()
    x, y = points.unbind(dim=-1)
    return torch.stack((cos * x - sin * y, sin * x + cos * y), dim=-1)
