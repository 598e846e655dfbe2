import numpy as np
import pytest
import torch

# Overlap of the first two: 4 / (6 + 4 - 4) = 4 / 6 at offset 0, 9 / (12 + 9 - 9) = 3 / 4 at offset 1.
BOXES = torch.tensor([[0.0, 0.0, 3.0, 2.0], [0.0, 0.0, 2.0, 2.0], [10.0, 10.0, 12.0, 12.0]])
SCORES = torch.tensor([0.6, 0.9, 0.7])


@pytest.mark.parametrize(
    ("offset", "threshold", "kept"),
    [
        (0, 0.66, [1, 2]),
        (0, 0.67, [1, 2, 0]),
        (1, 0.74, [1, 2]),
        (1, 0.75, [1, 2, 0]),  # at the threshold a box stays
        (1, 0.76, [1, 2, 0]),
    ],
)
def test_nms_of_boxes_by_hand(offset, threshold, kept):
    from mmcv.ops import nms

    dets, keep = nms(BOXES, SCORES, threshold, offset=offset)
    assert keep.tolist() == kept
    assert torch.equal(dets, torch.cat((BOXES[kept], SCORES[kept, None]), dim=1))


def test_the_threshold_is_compared_in_float32():
    from mmcv.ops import nms

    # Overlap 1/10, which in float32 is more than the double 0.1: only a float32 threshold equals it.
    boxes = torch.tensor([[0.0, 0.0, 10.0, 1.0], [0.0, 0.0, 1.0, 1.0]])
    assert nms(boxes, torch.tensor([0.9, 0.8]), 0.1)[1].tolist() == [0, 1]


def test_nms_takes_numpy_score_threshold_and_limit():
    from mmcv.ops import nms

    dets, keep = nms(BOXES.numpy(), SCORES.numpy(), 0.5, score_threshold=0.65, max_num=1)
    assert isinstance(dets, np.ndarray) and keep.tolist() == [1]


def test_nms_without_boxes():
    from mmcv.ops import nms, soft_nms

    assert nms(torch.zeros(0, 4), torch.zeros(0), 0.5)[1].shape == (0,)
    assert soft_nms(torch.zeros(0, 4), torch.zeros(0), 0.5)[1].shape == (0,)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_nms_of_other_floats(dtype):
    from mmcv.ops import nms

    assert nms(BOXES.to(dtype), SCORES.to(dtype), 0.5)[1].tolist() == [1, 2]


def test_batched_nms_keeps_classes_apart():
    from mmcv.ops import batched_nms

    _, keep = batched_nms(BOXES, SCORES, torch.tensor([0, 1, 0]), dict(type="nms", iou_threshold=0.5))
    assert keep.tolist() == [1, 2, 0]
    _, keep = batched_nms(BOXES, SCORES, torch.tensor([0, 1, 0]), dict(type="soft_nms", iou_threshold=0.5), True)
    assert keep.tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("method", "score"),
    [
        ("linear", 0.6 * (1 - 4 / 6)),
        ("gaussian", 0.6 * np.exp(-((4 / 6) ** 2) / 0.5)),
    ],
)
def test_soft_nms_lowers_the_score_of_the_overlapping_box(method, score):
    from mmcv.ops import soft_nms

    dets, keep = soft_nms(BOXES, SCORES, 0.5, sigma=0.5, method=method)
    assert keep.tolist() == [1, 2, 0]
    assert dets[:, 4].tolist() == pytest.approx([0.9, 0.7, score], rel=1e-6)


def test_naive_soft_nms_drops_at_the_threshold_where_nms_keeps():
    from mmcv.ops import soft_nms

    assert soft_nms(BOXES, SCORES, 0.75, method="naive", offset=1)[1].tolist() == [1, 2]
    assert soft_nms(BOXES, SCORES, 0.76, method="naive", offset=1)[1].tolist() == [1, 2, 0]


def test_soft_nms_drops_below_the_least_score():
    from mmcv.ops import soft_nms

    assert soft_nms(BOXES, SCORES, 0.5, method="linear", min_score=0.19)[1].tolist() == [1, 2, 0]
    assert soft_nms(BOXES, SCORES, 0.5, method="linear", min_score=0.21)[1].tolist() == [1, 2]


def test_a_dropped_box_leaves_its_place_to_the_last():
    from mmcv.ops import soft_nms

    # Boxes 1 to 4 have equal scores; box 1 is dropped by box 0, and its place, first among equals, goes to box 4.
    boxes = torch.tensor([[0.0, 0.0, 4.0, 4.0]] * 2 + [[9.0, 9.0, 10.0, 10.0], [20.0, 0, 21, 1], [30.0, 0, 31, 1]])
    scores = torch.tensor([0.9, 0.5, 0.5, 0.5, 0.5])
    assert soft_nms(boxes, scores, 0.5, method="naive")[1].tolist() == [0, 4, 2, 3]


def test_soft_nms_of_boxes_without_area_does_not_crash():
    from mmcv.ops import soft_nms

    points = torch.zeros(3, 4)
    assert sorted(soft_nms(points, torch.tensor([0.3, 0.5, 0.4]), 0.5)[1].tolist()) == [0, 1, 2]
    assert soft_nms(points, torch.tensor([0.3, 0.5, 0.4]), 0.5, method="gaussian")[1][0] == 1


def test_nms_match_groups_at_the_threshold():
    from mmcv.ops import nms_match

    dets = torch.cat((BOXES, SCORES[:, None]), dim=1)
    dets[0, 2] = 4.0  # overlap 4 / 8 with box 1
    assert [group.tolist() for group in nms_match(dets, 0.5)] == [[1, 0], [2]]
    assert [group.tolist() for group in nms_match(dets.numpy(), 0.51)] == [[1], [2], [0]]
    assert nms_match(torch.zeros(0, 5), 0.5) == []


def test_unknown_soft_nms_method():
    from mmvisattn.hosts.mmcv_ops.nms import softnms

    with pytest.raises(ValueError, match="method must be 0 .* got 3"):
        softnms(BOXES, SCORES, torch.zeros(3, 5), 0.5, 0.5, 0.1, method=3, offset=0)
