"""Deformable convolution (Dai et al. 2017) and its modulated form (Zhu et al. 2019), on torchvision's op.

torchvision's kernels share their origin, and so their sampling rule, with mmcv's, but for taps that a diverging model
moves by NaN: mmcv's read zero, torchvision's would read any memory. On CUDA its gradients sum in no fixed order; under
PyTorch's deterministic mode they are refused by PyTorch itself.
"""

import torch
from torch import Tensor

from mmvisattn.hosts.mmcv_ops.float_width import at_least_float32

_OUTSIDE = -1e6  # pixels; an offset that leaves every map

# mmcv's names for stride, padding, dilation, groups and offset groups, in the order of torchvision's op
_PLAIN = ("dH", "dW", "padH", "padW", "dilationH", "dilationW", "group", "deformable_group")
_MODULATED = ("stride_h", "stride_w", "pad_h", "pad_w", "dilation_h", "dilation_w", "group", "deformable_group")


def deform_conv_forward(
    input: Tensor, weight: Tensor, offset: Tensor, output: Tensor, columns: Tensor, ones: Tensor, **geometry: int
) -> None:
    """Convolve with each tap moved by its offset.

    Args:
        input: (B, C, H, W).
        weight: (C_out, C / group, kH, kW).
        offset: (B, deformable_group * kH * kW * 2, H_out, W_out), in pixels; y before x for each tap.
        output: (B, C_out, H_out, W_out), written.
        columns: scratch space, not used.
        ones: scratch space, not used.
        **geometry: dH, dW (stride), padH, padW, dilationH, dilationW, group, deformable_group; kH, kW and im2col_step
            (samples per pass) are not needed here.

    Raises:
        ValueError: an ``offset`` that does not fit kernel and output.
    """
    _check_taps("deform_conv", "offset", offset, weight, 2 * geometry["deformable_group"])
    if offset.shape[2:] != output.shape[2:]:
        raise ValueError(
            f"deform_conv: offset must have the output's height and width {tuple(output.shape[2:])}, got "
            f"{tuple(offset.shape[2:])}."
        )
    tensors = at_least_float32(input, weight, _moved_outside(offset))
    output.copy_(torch.ops.torchvision.deform_conv2d(*tensors, *_no_mask_no_bias(*tensors), *_plain(geometry), False))


def deform_conv_backward_input(
    input: Tensor,
    offset: Tensor,
    grad_output: Tensor,
    grad_input: Tensor,
    grad_offset: Tensor,
    weight: Tensor,
    columns: Tensor,
    **geometry: int,
) -> None:
    """Write the gradients with respect to input and offset; arguments as in the forward call.

    torchvision's backward gives the weight's gradient as well: it is left in the scratch space, where
    :func:`deform_conv_backward_parameters`, called next, finds it.

    Args:
        input: (B, C, H, W).
        offset: (B, deformable_group * kH * kW * 2, H_out, W_out).
        grad_output: (B, C_out, H_out, W_out).
        grad_input: (B, C, H, W), written.
        grad_offset: shape of ``offset``, written.
        weight: (C_out, C / group, kH, kW).
        columns: scratch space, resized to the weight and written.
        **geometry: as in the forward call.
    """
    gradients = _plain_gradients(input, weight, offset, grad_output, geometry)
    grad_input.copy_(gradients[0])
    grad_offset.copy_(gradients[2])
    columns.resize_(weight.shape).copy_(gradients[1])


def deform_conv_backward_parameters(
    input: Tensor,
    offset: Tensor,
    grad_output: Tensor,
    grad_weight: Tensor,
    columns: Tensor,
    ones: Tensor,
    scale: float,
    **geometry: int,
) -> None:
    """Add the gradient with respect to the weight, times ``scale``; arguments as in the forward call.

    Args:
        input: (B, C, H, W).
        offset: (B, deformable_group * kH * kW * 2, H_out, W_out).
        grad_output: (B, C_out, H_out, W_out).
        grad_weight: (C_out, C / group, kH, kW), added to.
        columns: scratch space: the gradient, left by :func:`deform_conv_backward_input`, or empty.
        ones: scratch space, not used.
        scale: factor of the gradient.
        **geometry: as in the forward call.
    """
    if columns.shape == grad_weight.shape:
        gradient = columns
    else:  # the gradient of nothing but the weight was wanted; its own value does not enter
        gradient = _plain_gradients(input, torch.zeros_like(grad_weight), offset, grad_output, geometry)[1]
    grad_weight.add_(gradient.to(grad_weight), alpha=scale)


def modulated_deform_conv_forward(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    ones: Tensor,
    offset: Tensor,
    mask: Tensor,
    output: Tensor,
    columns: Tensor,
    **geometry: int,
) -> None:
    """Convolve with each tap moved by its offset and multiplied by its mask.

    Offset and mask may be larger than the output, as in DyHead, which gives those of one feature level to the next,
    smaller one. The compiled op then reads the first numbers of each sample in the shape that it needs; weights were
    trained so, and so does this.

    Args:
        input: (B, C, H, W).
        weight: (C_out, C / group, kH, kW).
        bias: (C_out,), or empty.
        ones: scratch space, not used.
        offset: (B, deformable_group * kH * kW * 2, H_out, W_out), in pixels; y before x for each tap.
        mask: (B, deformable_group * kH * kW, H_out, W_out).
        output: (B, C_out, H_out, W_out), written.
        columns: scratch space, not used.
        **geometry: stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, group, deformable_group, with_bias;
            kernel_h and kernel_w are not needed here.

    Raises:
        ValueError: an ``offset`` or ``mask`` that does not fit the kernel or is smaller than the output.
    """
    _check_taps("modulated_deform_conv", "offset", offset, weight, 2 * geometry["deformable_group"])
    _check_taps("modulated_deform_conv", "mask", mask, weight, geometry["deformable_group"])
    offset, mask = (_first_numbers(tensor, output.shape[2:]) for tensor in (offset, mask))
    tensors = at_least_float32(input, weight, _moved_outside(offset), mask, _bias_or_zeros(bias, weight, geometry))
    output.copy_(torch.ops.torchvision.deform_conv2d(*tensors, *_modulated(geometry), True))


def modulated_deform_conv_backward(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    ones: Tensor,
    offset: Tensor,
    mask: Tensor,
    columns: Tensor,
    grad_input: Tensor,
    grad_weight: Tensor,
    grad_bias: Tensor,
    grad_offset: Tensor,
    grad_mask: Tensor,
    grad_output: Tensor,
    **geometry: int,
) -> None:
    """Write the gradients with respect to all inputs; arguments as in the forward call.

    Args:
        input: (B, C, H, W).
        weight: (C_out, C / group, kH, kW).
        bias: (C_out,), or empty.
        ones: scratch space, not used.
        offset: (B, deformable_group * kH * kW * 2, H_out, W_out).
        mask: (B, deformable_group * kH * kW, H_out, W_out).
        columns: scratch space, not used.
        grad_input: shape of ``input``, written.
        grad_weight: shape of ``weight``, written.
        grad_bias: shape of ``bias``, written if there is one.
        grad_offset: shape of ``offset``, written.
        grad_mask: shape of ``mask``, written.
        grad_output: (B, C_out, H_out, W_out).
        **geometry: as in the forward call.
    """
    offset, mask = (_first_numbers(tensor, grad_output.shape[2:]) for tensor in (offset, mask))
    constants = (weight, _moved_outside(offset), mask, _bias_or_zeros(bias, weight, geometry))
    tensors = at_least_float32(grad_output, input, *constants)
    gradients = torch.ops.torchvision._deform_conv2d_backward(*tensors, *_modulated(geometry), True)
    grad_input.copy_(gradients[0])
    grad_weight.copy_(gradients[1])
    grad_offset.copy_(_before_zeros(gradients[2], grad_offset.shape))
    grad_mask.copy_(_before_zeros(gradients[3], grad_mask.shape))
    if geometry["with_bias"]:
        grad_bias.copy_(gradients[4])


def _plain(geometry: dict[str, int]) -> list[int]:
    return [geometry[name] for name in _PLAIN]


def _modulated(geometry: dict[str, int]) -> list[int]:
    return [geometry[name] for name in _MODULATED]


def _no_mask_no_bias(input: Tensor, weight: Tensor, offset: Tensor) -> tuple[Tensor, Tensor]:
    return input.new_zeros(len(input), 1), input.new_zeros(len(weight))


def _bias_or_zeros(bias: Tensor, weight: Tensor, geometry: dict[str, int]) -> Tensor:
    return bias if geometry["with_bias"] else weight.new_zeros(len(weight))


def _plain_gradients(
    input: Tensor, weight: Tensor, offset: Tensor, grad_output: Tensor, geometry: dict[str, int]
) -> tuple[Tensor, ...]:
    """Gradients of input, weight and offset, in this order."""
    grad, *tensors = at_least_float32(grad_output, input, weight, _moved_outside(offset))
    arguments = (grad, *tensors, *_no_mask_no_bias(*tensors), *_plain(geometry), False)
    return torch.ops.torchvision._deform_conv2d_backward(*arguments)[:3]


def _moved_outside(offset: Tensor) -> Tensor:
    """The offsets, in float32 or wider, with those that are NaN leading out of the map."""
    (wide,) = at_least_float32(offset)
    return wide.nan_to_num(nan=_OUTSIDE, posinf=-_OUTSIDE, neginf=_OUTSIDE)


def _check_taps(op: str, argument: str, tensor: Tensor, weight: Tensor, per_tap: int) -> None:
    taps = weight.shape[2] * weight.shape[3]
    if tensor.dim() != 4 or tensor.shape[1] != per_tap * taps:
        raise ValueError(
            f"{op}: {argument} must have shape (batch, {per_tap * taps}, height, width), that is {per_tap} for each of "
            f"{taps} taps, got {tuple(tensor.shape)}."
        )


def _first_numbers(tensor: Tensor, size: torch.Size) -> Tensor:
    """The first numbers of each sample (B, C, H, W), in row-major order, as (B, C, *size)."""
    if tensor.shape[2:] == size:
        return tensor
    batch, channels = tensor.shape[:2]
    if tensor.shape[2:].numel() < size.numel():
        raise ValueError(
            f"modulated_deform_conv: offset and mask must not be smaller than the output's {tuple(size)}, got "
            f"{tuple(tensor.shape[2:])}."
        )
    return tensor.flatten(1)[:, : channels * size.numel()].reshape(batch, channels, *size)


def _before_zeros(gradient: Tensor, shape: torch.Size) -> Tensor:
    """Undo :func:`_first_numbers` for a gradient: the numbers that were not read have gradient zero."""
    numbers = gradient.flatten(1)
    missing = shape[1:].numel() - numbers.shape[1]
    return torch.nn.functional.pad(numbers, (0, missing)).view(shape)
