"""A model that diverges hands NaN to the ops. They must not read memory that is not theirs, and must not hide it."""

import pytest
import torch

NAN, INF = torch.nan, torch.inf
GOOD = [0.0, 1.0, 1.0, 9.0, 9.0]


def feature():
    return torch.rand(1, 4, 16, 16, generator=torch.Generator().manual_seed(0)).requires_grad_()


@pytest.mark.parametrize("bad", [[0, NAN, NAN, 8, 8], [0, 2, 2, NAN, 8], [0, NAN, 2, 8, 8]])
@pytest.mark.parametrize("sampling_ratio", [0, 2])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_only_the_regions_at_nan_are_lost(bad, mode, sampling_ratio):
    from mmcv.ops import roi_align

    x = feature()
    pooled = roi_align(x, torch.tensor([bad, GOOD]), (7, 7), 1.0, sampling_ratio, mode, True)
    alone = roi_align(x, torch.tensor([GOOD]), (7, 7), 1.0, sampling_ratio, mode, True)
    assert torch.equal(pooled[1], alone[0]) and pooled[1].isfinite().all()
    if sampling_ratio:
        assert pooled[0].isnan().any()
        pooled.sum().backward()
        assert x.grad.isnan().any()


@pytest.mark.parametrize("bad", [[0, -INF, 2, INF, 8], [0, 2, 2, INF, 8]])
def test_infinite_regions_are_lost_in_average_pooling(bad):
    from mmcv.ops import roi_align

    pooled = roi_align(feature(), torch.tensor([bad, GOOD]), (7, 7), 1.0, 2, "avg", True)
    assert pooled[0].isnan().all() and pooled[1].isfinite().all()


def test_deterministic_gradient_of_a_lost_region():
    from mmcv.ops import roi_align

    x = feature()
    torch.use_deterministic_algorithms(True)
    try:
        roi_align(x, torch.tensor([[0, NAN, 2, 8, 8]]), (7, 7), 1.0, 2, "avg", True).sum().backward()
    finally:
        torch.use_deterministic_algorithms(False)
    assert x.grad.isnan().any()


@pytest.mark.parametrize("bad", [[0, NAN, 4, 8, 8, 0.3], [0, 4, 4, 8, 8, NAN]])
def test_rotated_regions(bad):
    from mmcv.ops import roi_align_rotated

    pooled = roi_align_rotated(feature(), torch.tensor([bad, [0, 6, 6, 8, 8, 0.3]]), (7, 7), 1.0, 2)
    assert pooled[0].isnan().all() and pooled[1].isfinite().all()


def test_offsets_of_bins():
    from mmcv.ops import deform_roi_pool

    pooled = deform_roi_pool(feature(), torch.tensor([GOOD]), torch.full((1, 2, 7, 7), NAN), (7, 7), 1.0, 2, 0.1)
    assert pooled.isnan().all()


@pytest.mark.parametrize("lost", [NAN, INF, -INF])
@pytest.mark.parametrize("modulated", [False, True])
def test_taps_that_are_nowhere_read_zero_as_in_the_compiled_op(lost, modulated):
    from mmcv.ops import deform_conv2d, modulated_deform_conv2d

    x = feature()
    weight = torch.rand(4, 4, 3, 3)
    offset = torch.zeros(1, 18, 16, 16)
    offset[:, :2] = lost  # both coordinates of the first tap
    offset.requires_grad_()
    without_tap = weight.clone()
    without_tap[:, :, 0, 0] = 0
    mask = torch.ones(1, 9, 16, 16)
    if modulated:
        y = modulated_deform_conv2d(x, offset, mask, weight, None, 1, 1)
    else:
        y = deform_conv2d(x, offset, weight, 1, 1)
    expected = torch.nn.functional.conv2d(x, without_tap, padding=1)
    torch.testing.assert_close(y, expected)  # float32, sums of 36 products
    y.sum().backward()
    assert x.grad.isfinite().all() and offset.grad[:, :2].eq(0).all()
