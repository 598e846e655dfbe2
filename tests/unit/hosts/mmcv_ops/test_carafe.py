import pytest
import torch
from torch.testing import assert_close


def oracle(x, masks, kernel, group, scale):
    batch, channels, height, width = x.shape
    out = x.new_zeros(batch, channels, height * scale, width * scale)
    half = kernel // 2
    for channel in range(channels):
        first = (channel // (channels // group)) * kernel * kernel
        for i in range(height * scale):
            for j in range(width * scale):
                for a in range(kernel):
                    for b in range(kernel):
                        row, column = i // scale + a - half, j // scale + b - half
                        if 0 <= row < height and 0 <= column < width:
                            weight = masks[:, first + a * kernel + b, i, j]
                            out[:, channel, i, j] += x[:, channel, row, column] * weight
    return out


@pytest.mark.parametrize(("kernel", "group", "scale"), [(3, 1, 2), (3, 2, 3), (1, 4, 1), (5, 1, 2)])
def test_against_a_loop(random, kernel, group, scale):
    from mmcv.ops import carafe

    x, masks = random(2, 4, 3, 2), random(2, kernel * kernel * group, 3 * scale, 2 * scale)
    out = carafe(x, masks, kernel, group, scale)
    assert_close(out, oracle(x, masks, kernel, group, scale), rtol=1e-12, atol=1e-12)


def test_gradients_are_the_derivatives(random):
    from mmcv.ops import carafe

    inputs = random(1, 4, 3, 2).requires_grad_(), random(1, 18, 6, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, masks: carafe(x, masks, 3, 2, 2), inputs)


def test_the_layer_of_stock_configs_trains(random):
    from mmcv.ops import CARAFEPack

    layer = CARAFEPack(channels=6, scale_factor=2, compressed_channels=4).double()
    x = random(2, 6, 5, 4).requires_grad_()
    out = layer(x)
    out.square().sum().backward()
    assert out.shape == (2, 6, 10, 8) and x.grad.any()
    assert all(parameter.grad is not None for parameter in layer.parameters())


def test_noncontiguous_gradient(random):
    from mmcv.ops import carafe

    x, masks = random(1, 4, 3, 2).requires_grad_(), random(1, 9, 6, 4)
    grad = random(1, 6, 4, 4)
    gradients = [
        torch.autograd.grad(carafe(x, masks, 3, 1, 2), x, given)[0]
        for given in (grad.permute(0, 3, 1, 2), grad.permute(0, 3, 1, 2).contiguous())
    ]
    assert torch.equal(*gradients)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_floats_are_rounded_once(random, dtype):
    from mmcv.ops import carafe

    narrow = random(1, 4, 3, 2).to(dtype), random(1, 25, 6, 4).to(dtype)
    out, expected = (carafe(*tensors, 5, 1, 2) for tensors in (narrow, [tensor.float() for tensor in narrow]))
    assert torch.equal(out, expected.to(dtype))
