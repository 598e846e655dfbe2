import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

TAPS = 9


def offsets(random, deform_groups=1, size=(5, 6)):
    return random(2, 2 * TAPS * deform_groups, *size)


@pytest.mark.parametrize(("stride", "padding", "dilation", "groups"), [(1, 1, 1, 1), ((2, 1), (0, 2), (1, 2), 2)])
def test_zero_offsets_are_a_convolution(random, stride, padding, dilation, groups):
    from mmcv.ops import deform_conv2d, modulated_deform_conv2d

    x, weight, bias = random(2, 4, 7, 8), random(6, 4 // groups, 3, 3), random(6)
    expected = F.conv2d(x, weight, None, stride, padding, dilation, groups)
    offset = torch.zeros(2, 2 * TAPS, *expected.shape[2:], dtype=torch.float64)
    mask = torch.full((2, TAPS, *expected.shape[2:]), 0.5, dtype=torch.float64)
    out = deform_conv2d(x, offset, weight, stride, padding, dilation, groups)
    assert_close(out, expected, rtol=1e-12, atol=1e-12)
    out = modulated_deform_conv2d(x, offset, mask, weight, bias, stride, padding, dilation, groups)
    assert_close(out, expected / 2 + bias[:, None, None], rtol=1e-12, atol=1e-12)


def test_an_offset_is_in_pixels_y_before_x(random):
    from mmcv.ops import deform_conv2d

    x, weight = random(1, 2, 5, 6), random(3, 2, 3, 3)
    offset = torch.tensor([2.0, -1.0], dtype=torch.float64).repeat(TAPS).view(1, -1, 1, 1).expand(1, -1, 5, 6)
    moved = F.pad(x, (1, -1, -2, 2))  # row y of it is row y + 2 of x, column c is column c - 1
    padded = F.pad(x, (9, 9, 9, 9))[:, :, 9 + 2 - 1 : 9 + 2 + 6, 9 - 1 - 1 : 9 - 1 + 7]
    assert torch.equal(padded[:, :, 1:-1, 1:-1], moved)
    assert_close(deform_conv2d(x, offset.contiguous(), weight, 1, 1), F.conv2d(padded, weight), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("groups", "deform_groups"), [(1, 1), (2, 2)])
def test_gradients_are_the_derivatives(random, groups, deform_groups):
    from mmcv.ops import deform_conv2d, modulated_deform_conv2d

    x, weight = random(2, 4, 3, 2).requires_grad_(), random(2, 4 // groups, 3, 3).requires_grad_()
    offset = offsets(random, deform_groups, (3, 2)).requires_grad_()
    mask = random(2, TAPS * deform_groups, 3, 2).requires_grad_()
    bias = random(2).requires_grad_()
    settings = (1, 1, 1, groups, deform_groups)
    assert torch.autograd.gradcheck(lambda *leaves: deform_conv2d(*leaves, *settings), (x, offset, weight))
    assert torch.autograd.gradcheck(
        lambda *leaves: modulated_deform_conv2d(*leaves, *settings), (x, offset, mask, weight, bias)
    )


@pytest.mark.parametrize("wanted", [("weight",), ("x",), ("offset",), ("x", "weight")])
def test_gradients_do_not_depend_on_which_are_wanted(random, wanted):
    from mmcv.ops import deform_conv2d

    tensors = {"x": random(2, 4, 5, 6), "offset": offsets(random), "weight": random(3, 4, 3, 3)}
    every = {name: tensor.clone().requires_grad_() for name, tensor in tensors.items()}
    some = {name: tensor.clone().requires_grad_(name in wanted) for name, tensor in tensors.items()}
    for leaves in (every, some):
        deform_conv2d(*leaves.values(), 1, 1).square().sum().backward()
    for name in wanted:
        assert torch.equal(some[name].grad, every[name].grad)


def test_backward_twice_doubles_the_gradients(random):
    from mmcv.ops import deform_conv2d

    leaves = [tensor.requires_grad_() for tensor in (random(2, 4, 5, 6), offsets(random), random(3, 4, 3, 3))]
    out = deform_conv2d(*leaves, 1, 1)
    grad = random(*out.shape)
    out.backward(grad, retain_graph=True)
    once = [leaf.grad.clone() for leaf in leaves]
    out.backward(grad)
    for leaf, gradient in zip(leaves, once, strict=True):
        assert_close(leaf.grad, 2 * gradient, rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_floats_are_rounded_once(random, dtype):
    from mmcv.ops import deform_conv2d

    narrow = [tensor.to(dtype) for tensor in (random(2, 4, 5, 6), offsets(random), random(3, 4, 3, 3))]
    out, expected = (deform_conv2d(*tensors, 1, 1) for tensors in (narrow, [tensor.float() for tensor in narrow]))
    assert torch.equal(out, expected.to(dtype))


def test_under_autocast(random):
    from mmcv.ops import DeformConv2dPack, ModulatedDeformConv2dPack

    x = random(1, 4, 5, 6, dtype=torch.float32)
    for layer in (DeformConv2dPack(4, 3, 3, padding=1), ModulatedDeformConv2dPack(4, 3, 3, padding=1)):
        with torch.autocast("cpu", torch.bfloat16):
            out = layer(x)
        out.float().sum().backward()
        assert out.dtype == torch.bfloat16
        assert all(parameter.grad is not None for parameter in layer.parameters())


def test_larger_offsets_are_read_from_their_first_number_on(random):
    from mmcv.ops import modulated_deform_conv2d

    x, weight = random(2, 4, 3, 3), random(2, 4, 3, 3)
    offset, mask = random(2, 2 * TAPS, 6, 5).requires_grad_(), random(2, TAPS, 6, 5).requires_grad_()
    out = modulated_deform_conv2d(x, offset, mask, weight, None, 1, 1)
    as_read = [
        tensor.flatten(1)[:, : channels * 9].reshape(2, channels, 3, 3)
        for tensor, channels in ((offset, 18), (mask, 9))
    ]
    expected = modulated_deform_conv2d(x, *as_read, weight, None, 1, 1)
    assert torch.equal(out, expected)
    grad = random(2, 2, 3, 3)
    ours, theirs = (torch.autograd.grad(result, (offset, mask), grad) for result in (out, expected))
    assert torch.equal(ours[0], theirs[0]) and torch.equal(ours[1], theirs[1])


def test_channels_that_do_not_fit(random):
    from mmcv.ops import deform_conv2d, modulated_deform_conv2d

    x, weight = random(1, 4, 5, 6), random(3, 4, 3, 3)
    with pytest.raises(ValueError, match=r"deform_conv: offset must have shape \(batch, 18, height, width\)"):
        deform_conv2d(x, random(1, 17, 5, 6), weight, 1, 1)
    with pytest.raises(ValueError, match=r"modulated_deform_conv: mask must have shape \(batch, 9, height, width\)"):
        modulated_deform_conv2d(x, random(1, 18, 5, 6), random(1, 18, 5, 6), weight, None, 1, 1)


def test_sizes_that_do_not_fit(random):
    from mmcv.ops import deform_conv2d, modulated_deform_conv2d

    x, weight = random(1, 4, 5, 6), random(3, 4, 3, 3)
    with pytest.raises(ValueError, match=r"the output's height and width \(5, 6\), got \(6, 6\)"):
        deform_conv2d(x, random(1, 18, 6, 6), weight, 1, 1)
    with pytest.raises(ValueError, match=r"must not be smaller than the output's \(5, 6\), got \(5, 5\)"):
        modulated_deform_conv2d(x, random(1, 18, 5, 6), random(1, 9, 5, 5), weight, None, 1, 1)
