"""Suppression of overlapping axis-aligned boxes: ``nms``, ``softnms`` and ``nms_match``.

Semantics after ``csrc/pytorch/cpu/nms.cpp`` of mmcv (Apache-2.0). A box is (x1, y1, x2, y2) in pixels; its width is
``x2 - x1 + offset``, with offset 1 for boxes that name their last pixel and 0 otherwise. Soft-NMS: Bodla et al. 2017.
"""

import numpy as np
import torch
import torchvision
from torch import Tensor

from mmvisattn.hosts.mmcv_ops.float_width import at_least_float32

_NAIVE, _LINEAR, _GAUSSIAN = 0, 1, 2


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float, offset: int) -> Tensor:
    """Drop each box whose overlap with a kept box of higher score exceeds the threshold.

    Args:
        boxes: (N, 4).
        scores: (N,); of equal scores the earlier box wins.
        iou_threshold: a box at exactly the threshold, in float32, is kept.
        offset: 0 or 1, added to widths and heights.

    Returns:
        (K,) int64 indices of the kept boxes, by falling score.

    Example:
        >>> boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 3.0], [8.0, 8.0, 9.0, 9.0]])
        >>> nms(boxes, torch.tensor([0.6, 0.9, 0.5]), iou_threshold=0.5, offset=0)
        tensor([1, 2])
    """
    boxes, scores = at_least_float32(boxes, scores)
    shifted = torch.cat((boxes[:, :2], boxes[:, 2:] + offset), dim=1)
    return torchvision.ops.nms(shifted, scores, float(np.float32(iou_threshold)))


def softnms(
    boxes: Tensor,
    scores: Tensor,
    dets: Tensor,
    iou_threshold: float,
    sigma: float,
    min_score: float,
    method: int,
    offset: int,
) -> Tensor:
    """Lower the scores of overlapping boxes instead of dropping them; on CPU tensors.

    Args:
        boxes: (N, 4).
        scores: (N,).
        dets: (N, 5), written: rows (x1, y1, x2, y2, new score) of the kept boxes, by falling score, come first.
        iou_threshold: overlap from which methods 0 and 1 act.
        sigma: width of the Gaussian of method 2.
        min_score: a box is dropped once its score falls below this.
        method: factor for an overlap u: 0 naive, 0; 1 linear, 1 - u; 2 Gaussian, exp(-u^2 / sigma).
        offset: 0 or 1, added to widths and heights.

    Returns:
        (K,) int64 indices of the kept boxes, in the order of ``dets``.
    """
    wide_boxes, wide_scores = at_least_float32(boxes, scores)
    box, score = np.ascontiguousarray(wide_boxes.numpy().T), wide_scores.numpy().copy()
    index = np.arange(len(score))
    end = len(score)  # boxes from here on are dropped
    first = 0
    while first < end:
        best = first + int(np.argmax(np.where(np.isnan(score[first:end]), -np.inf, score[first:end])))
        for rows in (box, score, index):
            rows[..., [first, best]] = rows[..., [best, first]]
        rest = slice(first + 1, end)
        score[rest] *= _decay(_iou(box[:, first], box[:, rest], offset), iou_threshold, sigma, method)
        dropped = score[rest] < min_score
        if dropped.any():
            order = _order_after_drops(~dropped)
            end = first + 1 + len(order)
            for rows in (box, score, index):
                rows[..., first + 1 : end] = rows[..., rest][..., order]
        first += 1
    dets[:end, :4] = torch.from_numpy(box[:, :end].T).to(dets)
    dets[:end, 4] = torch.from_numpy(score[:end]).to(dets)
    return torch.from_numpy(index[:end])


def nms_match(dets: Tensor, iou_threshold: float) -> list[list[int]]:
    """Group boxes by the kept box that suppresses them; on CPU tensors.

    Args:
        dets: (N, 5), rows (x1, y1, x2, y2, score).
        iou_threshold: a box at or above the threshold joins the group.

    Returns:
        One list of indices per kept box, itself first, all by falling score.

    Example:
        >>> dets = torch.tensor([[0.0, 0.0, 4.0, 4.0, 0.6], [0.0, 0.0, 4.0, 3.0, 0.9], [8.0, 8.0, 9.0, 9.0, 0.5]])
        >>> nms_match(dets, iou_threshold=0.5)
        [[1, 0], [2]]
    """
    (wide,) = at_least_float32(dets)
    box = np.ascontiguousarray(wide[:, :4].numpy().T)
    rest = np.argsort(-wide[:, 4].numpy(), kind="stable")
    groups = []
    while rest.size:
        first, rest = rest[0], rest[1:]
        matched = _iou(box[:, first], box[:, rest], offset=0) >= np.float32(iou_threshold)
        groups.append([int(first), *rest[matched].tolist()])
        rest = rest[~matched]
    return groups


def _iou(box: np.ndarray, others: np.ndarray, offset: int) -> np.ndarray:
    """Overlaps (M,) of one box (4,) with boxes (4, M); NaN between two boxes without area."""
    width = np.minimum(box[2], others[2]) - np.maximum(box[0], others[0]) + offset
    height = np.minimum(box[3], others[3]) - np.maximum(box[1], others[1]) + offset
    intersection = np.maximum(width, 0) * np.maximum(height, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return intersection / (_area(box, offset) + _area(others, offset) - intersection)


def _area(box: np.ndarray, offset: int) -> np.ndarray:
    return (box[2] - box[0] + offset) * (box[3] - box[1] + offset)


def _decay(overlap: np.ndarray, iou_threshold: float, sigma: float, method: int) -> np.ndarray:
    if method == _GAUSSIAN:
        return np.exp(-(overlap * overlap) / sigma)
    if method not in (_NAIVE, _LINEAR):
        raise ValueError(f"softnms method must be 0 (naive), 1 (linear) or 2 (gaussian), got {method!r}.")
    lowered = np.zeros_like(overlap) if method == _NAIVE else 1 - overlap
    return np.where(overlap >= np.float32(iou_threshold), lowered, np.ones_like(overlap))


def _order_after_drops(kept: np.ndarray) -> np.ndarray:
    """Order (K,) of the survivors: each gap takes the last one left, so that later ties end as in the compiled op."""
    count = int(kept.sum())
    order = np.arange(count)
    order[~kept[:count]] = np.flatnonzero(kept[count:])[::-1] + count
    return order
