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
    box, score = wide_boxes.numpy().copy(), wide_scores.numpy().copy()
    index = np.arange(len(score))
    end = len(score)  # boxes from here on are dropped
    first = 0
    while first < end:
        best = first + int(np.argmax(np.nan_to_num(score[first:end], nan=-np.inf)))
        for column in (box, score, index):
            column[[first, best]] = column[[best, first]]
        rest = slice(first + 1, end)
        score[rest] *= _decay(_iou(box[first], box[rest], offset), iou_threshold, sigma, method)
        order = _order_after_drops(~(score[rest] < min_score))
        for column in (box, score, index):
            column[first + 1 : first + 1 + len(order)] = column[rest][order]
        first += 1
        end = first + len(order)
    dets[:end, :4] = torch.from_numpy(box[:end]).to(dets)
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
    box = wide[:, :4].numpy()
    rest = np.argsort(-wide[:, 4].numpy(), kind="stable")
    groups = []
    while rest.size:
        first, rest = rest[0], rest[1:]
        matched = _iou(box[first], box[rest], offset=0) >= np.float32(iou_threshold)
        groups.append([int(first), *rest[matched].tolist()])
        rest = rest[~matched]
    return groups


def _iou(box: np.ndarray, others: np.ndarray, offset: int) -> np.ndarray:
    """Overlaps (M,) of one box (4,) with boxes (M, 4); NaN between two boxes without area."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2]) + offset
    intersection = _area(np.maximum(sides, 0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return intersection / (
            _area(box[2:] - box[:2] + offset) + _area(others[:, 2:] - others[:, :2] + offset) - intersection
        )


def _area(sides: np.ndarray) -> np.ndarray:
    return sides[..., 0] * sides[..., 1]


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
