import math

import pytest
import torch
from torch.testing import assert_close

BOX = (1, 20.0, 17.0, 22.0, 14.0)  # image, centre, width, height


def rotated(*angles):
    return torch.tensor([[*BOX, angle] for angle in angles], dtype=torch.float64)


@pytest.mark.parametrize("sampling_ratio", [0, 2])
@pytest.mark.parametrize("aligned", [False, True])
def test_without_a_turn_it_is_roi_align(random, aligned, sampling_ratio):
    from mmcv.ops import RoIAlignRotated, roi_align

    x = random(2, 3, 9, 11)
    image, cx, cy, width, height = BOX
    box = [image, cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2]
    expected = roi_align(x, torch.tensor([box], dtype=torch.float64), (3, 2), 0.25, sampling_ratio, "avg", aligned)
    out = RoIAlignRotated((3, 2), 0.25, sampling_ratio, aligned)(x, rotated(0.0))
    assert_close(out, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("clockwise", [False, True])
def test_turning_region_and_map_changes_nothing(random, clockwise):
    from mmcv.ops import roi_align_rotated

    # A quarter turn of a square map about its centre takes (x, y) to (side - y, x) clockwise, (y, side - x) otherwise.
    x, side = random(2, 3, 10, 10), 40.0
    image, cx, cy, width, height = BOX
    turned_map = x.rot90(-1 if clockwise else 1, dims=(2, 3))
    centre = (side - cy, cx) if clockwise else (cy, side - cx)
    turned_box = torch.tensor([[image, *centre, width, height, math.pi / 2 + 0.4]], dtype=torch.float64)
    expected = roi_align_rotated(x, rotated(0.4), (3, 2), 0.25, 2, True, clockwise)
    out = roi_align_rotated(turned_map, turned_box, (3, 2), 0.25, 2, True, clockwise)
    assert_close(out, expected, rtol=1e-10, atol=1e-10)


def test_clockwise_is_the_negative_angle(random):
    from mmcv.ops import roi_align_rotated

    x = random(2, 3, 9, 11)
    out = roi_align_rotated(x, rotated(0.7), (3, 2), 0.25, 2, True, True)
    assert torch.equal(out, roi_align_rotated(x, rotated(-0.7), (3, 2), 0.25, 2, True, False))


@pytest.mark.parametrize("sampling_ratio", [0, 2])
def test_gradient_is_the_derivative(random, sampling_ratio):
    from mmcv.ops import roi_align_rotated

    x = random(2, 2, 5, 6).requires_grad_()
    rois = rotated(0.3, -1.1, 2.5)
    assert torch.autograd.gradcheck(lambda x: roi_align_rotated(x, rois, (2, 3), 0.25, sampling_ratio), (x,))


def test_no_regions(random):
    from mmcv.ops import roi_align_rotated

    x = random(2, 3, 6, 5).requires_grad_()
    out = roi_align_rotated(x, torch.zeros(0, 6, dtype=torch.float64), (3, 2), 0.25)
    out.sum().backward()
    assert out.shape == (0, 3, 3, 2) and not x.grad.any()


def test_regions_must_have_an_angle(random):
    from mmcv.ops import roi_align_rotated

    with pytest.raises(ValueError, match=r"roi_align_rotated: rois must have shape \(count, 6\)"):
        roi_align_rotated(random(2, 3, 6, 5), rotated(0.1)[:, :5], (3, 2), 0.25)
