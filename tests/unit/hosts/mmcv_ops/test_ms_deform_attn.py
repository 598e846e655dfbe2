import pytest
import torch
from torch.testing import assert_close

SHAPES, STARTS = torch.tensor([[3, 4], [2, 2]]), torch.tensor([0, 12])


def draw(random, queries=3, heads=2, width=2, points=2):
    value = random(2, 16, heads, width)
    locations = random(2, queries, heads, 2, points, 2) * 0.4 + 0.5  # some outside
    weights = random(2, queries, heads, 2, points).abs()
    return value, locations, weights


def test_equals_the_plain_version_that_mmcv_uses_on_the_cpu(random):
    from mmcv.ops.multi_scale_deform_attn import MultiScaleDeformableAttnFunction, multi_scale_deformable_attn_pytorch

    value, locations, weights = draw(random)
    out = MultiScaleDeformableAttnFunction.apply(value, SHAPES, STARTS, locations, weights, 64)
    assert_close(out, multi_scale_deformable_attn_pytorch(value, SHAPES, locations, weights), rtol=1e-12, atol=1e-12)


def test_a_point_on_a_pixel_centre_reads_that_pixel(random):
    from mmcv.ops.multi_scale_deform_attn import MultiScaleDeformableAttnFunction

    value = random(1, 16, 1, 3)
    # (x, y) of row 1, column 2 in the 3 x 4 level, and of row 0, column 1 in the 2 x 2 level
    locations = torch.tensor([[2.5 / 4, 1.5 / 3], [1.5 / 2, 0.5 / 2]], dtype=torch.float64).view(1, 1, 1, 2, 1, 2)
    weights = torch.tensor([0.3, 0.7], dtype=torch.float64).view(1, 1, 1, 2, 1)
    out = MultiScaleDeformableAttnFunction.apply(value, SHAPES, STARTS, locations, weights, 64)
    assert_close(out[0, 0], 0.3 * value[0, 1 * 4 + 2, 0] + 0.7 * value[0, 12 + 1, 0], rtol=1e-12, atol=1e-12)


def test_gradients_are_the_derivatives(random):
    from mmcv.ops.multi_scale_deform_attn import MultiScaleDeformableAttnFunction

    inputs = [tensor.requires_grad_() for tensor in draw(random, queries=2)]
    assert torch.autograd.gradcheck(
        lambda value, locations, weights: MultiScaleDeformableAttnFunction.apply(
            value, SHAPES, STARTS, locations, weights, 64
        ),
        inputs,
    )


def test_half_values_are_sampled_in_float32(random):
    from mmcv.ops.multi_scale_deform_attn import MultiScaleDeformableAttnFunction

    value, locations, weights = (tensor.half() for tensor in draw(random))
    out = MultiScaleDeformableAttnFunction.apply(value, SHAPES, STARTS, locations, weights, 64)
    wide = MultiScaleDeformableAttnFunction.apply(value.float(), SHAPES, STARTS, locations.float(), weights.float(), 64)
    assert torch.equal(out, wide.half())


def test_a_level_beyond_the_values(random):
    from mmcv.ops.multi_scale_deform_attn import MultiScaleDeformableAttnFunction

    value, locations, weights = draw(random)
    with pytest.raises(ValueError, match="level 1 of size 2 x 2 ends at 16, but value has only 15 positions"):
        MultiScaleDeformableAttnFunction.apply(value[:, :15], SHAPES, STARTS, locations, weights, 64)
