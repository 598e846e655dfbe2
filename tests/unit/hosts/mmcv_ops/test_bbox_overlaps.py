import pytest
import torch

FIRST = torch.tensor([[0.0, 0.0, 2.0, 2.0], [5.0, 5.0, 7.0, 6.0]])
SECOND = torch.tensor([[1.0, 0.0, 3.0, 2.0], [5.0, 5.0, 7.0, 6.0], [2.0, 2.0, 4.0, 4.0]])


@pytest.mark.parametrize(
    ("mode", "offset", "first_row"),
    [
        ("iou", 0, [2 / 6, 0, 0]),
        ("iof", 0, [2 / 4, 0, 0]),
        ("iou", 1, [6 / 12, 0, 1 / 17]),  # with offset 1 the boxes that touch in a corner share a pixel
        ("iof", 1, [6 / 9, 0, 1 / 9]),
    ],
)
def test_overlaps_by_hand(mode, offset, first_row):
    from mmcv.ops import bbox_overlaps

    out = bbox_overlaps(FIRST, SECOND, mode=mode, offset=offset)
    assert out[0].tolist() == pytest.approx(first_row)
    assert out[1].tolist() == pytest.approx([0, 1, 0])


def test_aligned_is_the_diagonal():
    from mmcv.ops import bbox_overlaps

    pairs = bbox_overlaps(FIRST, SECOND[:2], aligned=True)
    assert torch.equal(pairs, bbox_overlaps(FIRST, SECOND[:2]).diagonal())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_areas_beyond_the_range_of_half(dtype):
    from mmcv.ops import bbox_overlaps

    box = torch.tensor([[0.0, 0.0, 1000.0, 1000.0]], dtype=dtype)
    out = bbox_overlaps(box, box)
    assert out.dtype == dtype and out.item() == 1


def test_no_boxes():
    from mmcv.ops import bbox_overlaps

    assert bbox_overlaps(torch.zeros(0, 4), SECOND).shape == (0, 3)


def test_unknown_mode():
    from mmcv import _ext

    with pytest.raises(ValueError, match="mode must be 0 .* got 2"):
        _ext.bbox_overlaps(FIRST, SECOND, torch.zeros(2, 3), mode=2, aligned=False, offset=0)
