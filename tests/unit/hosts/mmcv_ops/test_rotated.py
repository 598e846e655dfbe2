import math

import pytest
import torch
from torch.testing import assert_close


def corners(box):
    x, y, width, height, angle = box
    cos, sin = math.cos(angle), math.sin(angle)
    signs = ((-1, -1), (1, -1), (1, 1), (-1, 1))
    return [
        (x + cos * i * width / 2 - sin * j * height / 2, y + sin * i * width / 2 + cos * j * height / 2)
        for i, j in signs
    ]


def clipped(polygon, start, end):
    """Sutherland-Hodgman: the part of a polygon to the left of a line."""

    def side(point):
        return (end[0] - start[0]) * (point[1] - start[1]) - (end[1] - start[1]) * (point[0] - start[0])

    result = []
    for here, there in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        a, b = side(here), side(there)
        if a >= 0:
            result.append(here)
        if a * b < 0:
            share = a / (a - b)
            result.append((here[0] + share * (there[0] - here[0]), here[1] + share * (there[1] - here[1])))
    return result


def intersection_area(first, second):
    polygon, other = corners(first), corners(second)
    for start, end in zip(other, other[1:] + other[:1], strict=True):
        polygon = clipped(polygon, start, end)
    return abs(sum(p[0] * q[1] - p[1] * q[0] for p, q in zip(polygon, polygon[1:] + polygon[:1], strict=True))) / 2


def random_boxes(random, count):
    centre_and_sides = random(count, 4) * torch.tensor([3.0, 3.0, 2.0, 2.0]) + torch.tensor([0.0, 0.0, 5.0, 4.0])
    return torch.cat((centre_and_sides[:, :2], centre_and_sides[:, 2:].abs() + 0.5, random(count, 1) * 3), dim=1)


@pytest.mark.parametrize("mode", ["iou", "iof"])
def test_against_polygon_clipping(random, mode):
    from mmcv.ops import box_iou_rotated

    first, second = random_boxes(random, 30), random_boxes(random, 20)
    expected = torch.zeros(30, 20, dtype=torch.float64)
    for i, a in enumerate(first.tolist()):
        for j, b in enumerate(second.tolist()):
            shared = intersection_area(a, b)
            expected[i, j] = shared / (a[2] * a[3] + (b[2] * b[3] - shared if mode == "iou" else 0))
    assert ((expected > 0.05) & (expected < 0.95)).sum() > 100
    assert_close(box_iou_rotated(first, second, mode=mode), expected, rtol=1e-12, atol=1e-12)
    aligned = box_iou_rotated(first[:20], second, mode=mode, aligned=True)
    assert_close(aligned, expected[:20].diagonal(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ([0.0, 0.0, 4.0, 2.0, 0.0], 1.0),  # the same box
        ([0.0, 0.0, 4.0, 2.0, math.pi], 1.0),  # upside down
        ([0.0, 0.0, 2.0, 4.0, math.pi / 2], 1.0),  # on its side, sides exchanged
        ([0.0, 0.0, 4.0, 2.0, math.pi / 2], 4 / 12),
        ([4.0, 0.0, 4.0, 2.0, 0.0], 0.0),  # a shared side
        ([1.0, 0.0, 2.0, 2.0, 0.0], 4 / 8),  # inside, on three sides
        ([9.0, 9.0, 1.0, 1.0, 0.3], 0.0),
        ([0.0, 0.0, 0.0, 2.0, 0.3], 0.0),  # no area
    ],
)
@pytest.mark.parametrize("turn", [0.0, 0.1, math.pi / 4, 2.0])
def test_special_positions_turned_together(second, expected, turn):
    from mmcv.ops import box_iou_rotated

    first = [0.0, 0.0, 4.0, 2.0, 0.0]
    turned = torch.tensor([first, second], dtype=torch.float64)
    x, y = turned[:, 0].clone(), turned[:, 1].clone()
    turned[:, 0] = math.cos(turn) * x - math.sin(turn) * y + 50
    turned[:, 1] = math.sin(turn) * x + math.cos(turn) * y - 30
    turned[:, 4] += turn
    assert box_iou_rotated(turned[:1], turned[1:]).item() == pytest.approx(expected, abs=1e-12)


def test_direction_of_the_angle():
    from mmcv.ops import box_iou_rotated

    # Clockwise with y down, a long flat box turned by 45 degrees points down to the right.
    bar = torch.tensor([[0.0, 0.0, 10.0, 1.0, math.pi / 4]])
    target = torch.tensor([[3.0, 3.0, 1.0, 1.0, 0.0]])
    assert box_iou_rotated(bar, target).item() > 0.05
    assert box_iou_rotated(bar, target, clockwise=False).item() == 0


def test_many_pairs_are_cut_into_chunks(random, monkeypatch):
    from mmcv.ops import box_iou_rotated

    from mmvisattn.hosts.mmcv_ops import rotated

    first, second = random_boxes(random, 7), random_boxes(random, 5)
    whole = box_iou_rotated(first, second)
    monkeypatch.setattr(rotated, "_PAIRS_AT_ONCE", 11)
    assert torch.equal(box_iou_rotated(first, second), whole)


def test_nms_rotated_is_greedy(random):
    from mmcv.ops import box_iou_rotated, nms_rotated

    boxes, scores = random_boxes(random, 60).float(), random(60).float()
    overlap = box_iou_rotated(boxes, boxes)
    expected = []
    for index in scores.argsort(descending=True).tolist():
        if all(overlap[index, other] < 0.3 for other in expected):
            expected.append(index)
    assert 5 < len(expected) < 55
    dets, keep = nms_rotated(boxes, scores, 0.3)
    assert keep.tolist() == expected
    assert torch.equal(dets, torch.cat((boxes[keep], scores[keep, None]), dim=1))


def test_nms_rotated_with_labels_does_not_look_at_them():
    from mmcv.ops import nms_rotated

    boxes = torch.tensor([[0.0, 0.0, 4.0, 2.0, 0.0], [0.0, 0.0, 4.0, 2.0, 0.1]])
    _, keep = nms_rotated(boxes, torch.tensor([0.5, 0.6]), 0.5, labels=torch.tensor([0, 1]))
    assert keep.tolist() == [1]
