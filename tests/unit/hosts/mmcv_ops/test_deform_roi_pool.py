import pytest
import torch
from torch.testing import assert_close

ROIS = torch.tensor([[0, 6.0, 9.0, 25.0, 20.0], [1, 3.3, 2.1, 18.2, 17.4]], dtype=torch.float64)
BINS = (2, 3)


@pytest.mark.parametrize("sampling_ratio", [0, 2])
@pytest.mark.parametrize("offset", [None, torch.zeros(2, 2, *BINS, dtype=torch.float64)], ids=["none", "zero"])
def test_without_offsets_it_is_roi_align(random, offset, sampling_ratio):
    from mmcv.ops import deform_roi_pool, roi_align

    x = random(2, 3, 9, 11)
    out = deform_roi_pool(x, ROIS, offset, BINS, 0.25, sampling_ratio)
    assert_close(out, roi_align(x, ROIS, BINS, 0.25, sampling_ratio, "avg", True), rtol=1e-12, atol=1e-12)


def test_equal_offsets_move_the_region(random):
    from mmcv.ops import deform_roi_pool, roi_align

    x, gamma = random(2, 3, 9, 11), 0.1
    offset = torch.tensor([0.7, -1.3], dtype=torch.float64)  # x, then y
    shift = gamma * (ROIS[:, 3:] - ROIS[:, 1:3]) * offset
    moved = torch.cat((ROIS[:, :1], ROIS[:, 1:3] + shift, ROIS[:, 3:] + shift), dim=1)
    everywhere = offset.view(1, 2, 1, 1).expand(2, 2, *BINS).contiguous()
    out = deform_roi_pool(x, ROIS, everywhere, BINS, 0.25, 2, gamma)
    assert_close(out, roi_align(x, moved, BINS, 0.25, 2, "avg", True), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sampling_ratio", [0, 2])
def test_gradients_are_the_derivatives(random, sampling_ratio):
    from mmcv.ops import deform_roi_pool

    inputs = random(2, 2, 7, 8).requires_grad_(), random(2, 2, *BINS).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, offset: deform_roi_pool(x, ROIS, offset, BINS, 0.25, sampling_ratio), inputs
    )


@pytest.mark.parametrize("name", ["DeformRoIPoolPack", "ModulatedDeformRoIPoolPack"])
def test_the_layers_of_stock_configs_train(random, name):
    import mmcv.ops

    layer = getattr(mmcv.ops, name)(output_size=2, output_channels=3, deform_fc_channels=8, spatial_scale=0.25).double()
    x = random(2, 3, 9, 11).requires_grad_()
    layer(x, ROIS).sum().backward()
    assert x.grad.any()
    assert all(parameter.grad is not None for parameter in layer.parameters())


def test_offsets_of_another_shape(random):
    from mmcv.ops import deform_roi_pool

    with pytest.raises(ValueError, match=r"offset must have shape \(2, 2, 2, 3\) or be empty, got \(2, 2, 3, 3\)"):
        deform_roi_pool(random(2, 3, 9, 11), ROIS, random(2, 2, 3, 3), BINS, 0.25)
