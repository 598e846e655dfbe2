"""CARAFE (Wang et al. 2019): upsampling in which each output pixel has a kernel of its own.

Semantics after ``csrc/common/cuda/carafe_naive_cuda_kernel.cuh`` of mmcv (Apache-2.0). Its two variants differ in
memory layout only, so here they are one.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvisattn.hosts.mmcv_ops.float_width import at_least_float32


def carafe_naive_forward(
    features: Tensor, masks: Tensor, output: Tensor, kernel_size: int, group_size: int, scale_factor: int
) -> None:
    """Weigh the ``kernel_size`` x ``kernel_size`` neighbourhood of the source pixel of each output pixel.

    Args:
        features: (B, C, H, W); zero outside.
        masks: (B, group_size * kernel_size^2, H * scale_factor, W * scale_factor), the kernels, row by row.
        output: (B, C, H * scale_factor, W * scale_factor), written.
        kernel_size: side of the kernels, odd.
        group_size: groups of channels, each with kernels of its own.
        scale_factor: output pixels per source pixel and axis.
    """
    feature, kernels = at_least_float32(features, masks)
    kernels = _by_source_pixel(kernels, group_size, scale_factor)
    batch, channels, height, width = feature.shape
    total = feature.new_zeros(batch, group_size, channels // group_size, scale_factor, scale_factor, height, width)
    for tap, shifted in enumerate(_shifted(feature, kernel_size, group_size)):
        total.addcmul_(shifted, kernels[:, :, tap, None])
    output.copy_(_by_output_pixel(total))


def carafe_naive_backward(
    top_grad: Tensor,
    features: Tensor,
    masks: Tensor,
    bottom_grad: Tensor,
    mask_grad: Tensor,
    kernel_size: int,
    group_size: int,
    scale_factor: int,
) -> None:
    """Write the gradients with respect to features and kernels; arguments as in the forward call.

    Args:
        top_grad: (B, C, H * scale_factor, W * scale_factor).
        features: (B, C, H, W).
        masks: (B, group_size * kernel_size^2, H * scale_factor, W * scale_factor).
        bottom_grad: shape of ``features``, written.
        mask_grad: shape of ``masks``, written.
        kernel_size: side of the kernels, odd.
        group_size: groups of channels.
        scale_factor: output pixels per source pixel and axis.
    """
    grad, feature, kernels = at_least_float32(top_grad, features, masks)
    kernels = _by_source_pixel(kernels, group_size, scale_factor)
    grad = _by_source_pixel(grad, group_size, scale_factor)
    height, width = feature.shape[2:]
    margin = kernel_size // 2
    padded_grad = F.pad(torch.zeros_like(feature), (margin,) * 4).unflatten(1, (group_size, -1))
    kernel_grad = torch.empty_like(kernels)
    for tap, shifted in enumerate(_shifted(feature, kernel_size, group_size)):
        kernel_grad[:, :, tap] = (grad * shifted).sum(dim=2)
        row, column = divmod(tap, kernel_size)
        window = padded_grad[..., row : row + height, column : column + width]
        window += (grad * kernels[:, :, tap, None]).sum(dim=(3, 4))
    bottom_grad.copy_(padded_grad[..., margin : margin + height, margin : margin + width].flatten(1, 2))
    mask_grad.copy_(_by_output_pixel(kernel_grad))


def carafe_forward(
    features: Tensor,
    masks: Tensor,
    rfeatures: Tensor,
    routput: Tensor,
    rmasks: Tensor,
    output: Tensor,
    kernel_size: int,
    group_size: int,
    scale_factor: int,
) -> None:
    """The same as :func:`carafe_naive_forward`, with scratch space.

    Args:
        features: (B, C, H, W).
        masks: (B, group_size * kernel_size^2, H * scale_factor, W * scale_factor).
        rfeatures: (B, C, H, W), written: what :func:`carafe_backward` is given in place of ``features``.
        routput: scratch space, not used.
        rmasks: scratch space, not used.
        output: (B, C, H * scale_factor, W * scale_factor), written.
        kernel_size: side of the kernels, odd.
        group_size: groups of channels.
        scale_factor: output pixels per source pixel and axis.
    """
    rfeatures.copy_(features)
    carafe_naive_forward(features, masks, output, kernel_size, group_size, scale_factor)


def carafe_backward(
    top_grad: Tensor,
    rfeatures: Tensor,
    masks: Tensor,
    rtop_grad: Tensor,
    rbottom_grad_hs: Tensor,
    rbottom_grad: Tensor,
    rmask_grad: Tensor,
    bottom_grad: Tensor,
    mask_grad: Tensor,
    kernel_size: int,
    group_size: int,
    scale_factor: int,
) -> None:
    """The same as :func:`carafe_naive_backward`, with scratch space.

    Args:
        top_grad: (B, C, H * scale_factor, W * scale_factor).
        rfeatures: (B, C, H, W), from :func:`carafe_forward`.
        masks: (B, group_size * kernel_size^2, H * scale_factor, W * scale_factor).
        rtop_grad: scratch space, not used.
        rbottom_grad_hs: scratch space, not used.
        rbottom_grad: scratch space, not used.
        rmask_grad: scratch space, not used.
        bottom_grad: (B, C, H, W), written.
        mask_grad: shape of ``masks``, written.
        kernel_size: side of the kernels, odd.
        group_size: groups of channels.
        scale_factor: output pixels per source pixel and axis.
    """
    carafe_naive_backward(top_grad, rfeatures, masks, bottom_grad, mask_grad, kernel_size, group_size, scale_factor)


def _by_source_pixel(maps: Tensor, group_size: int, scale_factor: int) -> Tensor:
    """Sort output pixels by source pixel: (B, g * n, H * s, W * s) -> (B, g, n, s, s, H, W)."""
    batch, channels, height, width = maps.shape
    rows, columns = height // scale_factor, width // scale_factor
    split = maps.reshape(batch, group_size, channels // group_size, rows, scale_factor, columns, scale_factor)
    return split.permute(0, 1, 2, 4, 6, 3, 5).contiguous()


def _by_output_pixel(sorted_maps: Tensor) -> Tensor:
    """Undo :func:`_by_source_pixel`: (B, g, n, s, s, H, W) -> (B, g * n, H * s, W * s)."""
    return sorted_maps.permute(0, 1, 2, 5, 3, 6, 4).flatten(5, 6).flatten(3, 4).flatten(1, 2)


def _shifted(feature: Tensor, kernel_size: int, group_size: int) -> Iterator[Tensor]:
    """The map (B, g, C / g, 1, 1, H, W) seen from each tap of the kernel, row by row."""
    height, width = feature.shape[2:]
    padded = F.pad(feature, (kernel_size // 2,) * 4).unflatten(1, (group_size, -1))[:, :, :, None, None]
    for row in range(kernel_size):
        for column in range(kernel_size):
            yield padded[..., row : row + height, column : column + width]
