"""RoIAlign (He et al. 2017), with average or maximum over the sample points of a bin.

Semantics after ``csrc/pytorch/cpu/roi_align.cpp`` of mmcv (Apache-2.0). Average pooling is torchvision's op; its
gradient on CUDA sums in no fixed order unless PyTorch's deterministic mode is on; a RoI that is not finite, as a
diverging model gives, would make it read any memory, so here it gives NaN instead. Maximum pooling is PyTorch; mmcv
keeps the places of the maxima in the type of the input, so in half precision their gradients land on rounded places, as
with the compiled op.
"""

import torch
import torchvision
from torch import Tensor

from mmvisattn.hosts.mmcv_ops.float_width import at_least_float32
from mmvisattn.hosts.mmcv_ops.recompute import input_gradients
from mmvisattn.hosts.mmcv_ops.roi_geometry import check_regions, scaled_regions
from mmvisattn.hosts.mmcv_ops.roi_sampling import bin_positions, corners, equal_grids, grid_sizes, sample

_MAX, _AVG = 0, 1
_EMPTY_MAX = -10000.0  # the compiled op's maximum over no points


def roi_align_forward(
    input: Tensor,
    rois: Tensor,
    output: Tensor,
    argmax_y: Tensor,
    argmax_x: Tensor,
    aligned_height: int,
    aligned_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    pool_mode: int,
    aligned: bool,
) -> None:
    """Pool each RoI of a feature map into ``aligned_height`` x ``aligned_width`` bins.

    Args:
        input: (B, C, H, W).
        rois: (K, 5), rows (image, x1, y1, x2, y2), in pixels of the image.
        output: (K, C, aligned_height, aligned_width), written.
        argmax_y: shape of ``output``, written in maximum mode: the row of the sample point that was taken, -1 for none.
        argmax_x: likewise, the column.
        aligned_height: bins from top to bottom.
        aligned_width: bins from left to right.
        spatial_scale: feature map pixels per image pixel.
        sampling_ratio: sample points per bin and axis; 0 takes one per pixel, rounded up.
        pool_mode: 0 maximum, 1 average.
        aligned: move by half a pixel (see ``scaled_regions``).

    Raises:
        ValueError: shapes that do not fit, or an unknown ``pool_mode``.
    """
    check_regions("roi_align", input, rois, columns=5)
    feature, wide_rois = at_least_float32(input, rois)
    bins = (aligned_height, aligned_width)
    if pool_mode == _AVG:
        safe_rois, lost = _safe(wide_rois)
        pooled = torchvision.ops.roi_align(feature, safe_rois, bins, spatial_scale, sampling_ratio, bool(aligned))
        output.copy_(pooled).masked_fill_(lost, torch.nan)
    elif pool_mode == _MAX:
        _max_forward(feature, wide_rois, (output, argmax_y, argmax_x), spatial_scale, sampling_ratio, aligned)
    else:
        raise ValueError(f"roi_align pool_mode must be 0 (max) or 1 (avg), got {pool_mode!r}.")


def roi_align_backward(
    grad_output: Tensor,
    rois: Tensor,
    argmax_y: Tensor,
    argmax_x: Tensor,
    grad_input: Tensor,
    aligned_height: int,
    aligned_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    pool_mode: int,
    aligned: bool,
) -> None:
    """Write the gradient with respect to the feature map; arguments as in the forward call.

    Args:
        grad_output: (K, C, aligned_height, aligned_width).
        rois: (K, 5).
        argmax_y: written by the forward call in maximum mode.
        argmax_x: likewise.
        grad_input: (B, C, H, W), written.
        aligned_height: bins from top to bottom.
        aligned_width: bins from left to right.
        spatial_scale: feature map pixels per image pixel.
        sampling_ratio: sample points per bin and axis, or 0.
        pool_mode: 0 maximum, 1 average.
        aligned: move by half a pixel.
    """
    grad, wide_rois = at_least_float32(grad_output, rois)
    if pool_mode == _MAX:
        grad_input.copy_(_max_backward(grad, wide_rois, argmax_y, argmax_x, grad_input.shape))
        return
    wide_rois, lost = _safe(wide_rois)
    grad = grad.masked_fill(lost, torch.nan)
    if torch.are_deterministic_algorithms_enabled():
        bins = (aligned_height, aligned_width)

        def pool(feature: Tensor) -> Tensor:
            return torchvision.ops.roi_align(feature, wide_rois, bins, spatial_scale, sampling_ratio, bool(aligned))

        grad_input.copy_(input_gradients(pool, [grad.new_zeros(grad_input.shape)], grad)[0])
    else:
        grad_input.copy_(
            torch.ops.torchvision._roi_align_backward(
                grad,
                wide_rois,
                spatial_scale,
                aligned_height,
                aligned_width,
                *grad_input.shape,
                sampling_ratio,
                bool(aligned),
            )
        )


def _safe(rois: Tensor) -> tuple[Tensor, Tensor]:
    """Make RoIs (K, 5) that are not finite empty ones; returns all RoIs, and which were changed, (K, 1, 1, 1)."""
    lost = ~rois.isfinite().all(dim=1)
    return rois.masked_fill(lost[:, None], 0.0), lost[:, None, None, None]


def _max_forward(
    feature: Tensor,
    rois: Tensor,
    outputs: tuple[Tensor, Tensor, Tensor],
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> None:
    """Write maximum and its place into ``outputs`` (output, argmax_y, argmax_x), each (K, C, bins, bins)."""
    output, argmax_y, argmax_x = outputs
    output.fill_(_EMPTY_MAX)
    argmax_y.fill_(-1)
    argmax_x.fill_(-1)
    _, channels, bins_y, bins_x = output.shape
    regions = scaled_regions(rois, spatial_scale, aligned)
    rows = grid_sizes(regions.height, bins_y, sampling_ratio)
    columns = grid_sizes(regions.width, bins_x, sampling_ratio)
    for chosen, grid_y, grid_x in equal_grids(rows, columns, channels * bins_y * bins_x):
        y = regions.top[chosen, None, None] + bin_positions(regions.height[chosen], bins_y, grid_y)
        x = regions.left[chosen, None, None] + bin_positions(regions.width[chosen], bins_x, grid_x)
        shape = (len(chosen), bins_y, bins_x, grid_y, grid_x)
        y = y[:, :, None, :, None].expand(shape).reshape(len(chosen), bins_y * bins_x, -1)
        x = x[:, None, :, None, :].expand(shape).reshape(len(chosen), bins_y * bins_x, -1)
        values = sample(feature, regions.batch_index[chosen], y.flatten(1), x.flatten(1))  # (k, bins * points, C)
        largest, place = values.unflatten(1, y.shape[1:]).max(dim=2)  # (k, bins, C); of equals the first
        for target, source in ((output, largest), (argmax_y, y.gather(2, place)), (argmax_x, x.gather(2, place))):
            target[chosen] = source.transpose(1, 2).unflatten(2, (bins_y, bins_x)).to(target)


def _max_backward(
    grad_output: Tensor, rois: Tensor, argmax_y: Tensor, argmax_x: Tensor, input_shape: torch.Size
) -> Tensor:
    """Share each gradient among the four pixels around the point that was taken; returns (B, C, H, W)."""
    _, channels, height, width = input_shape
    y, x = argmax_y.to(grad_output), argmax_x.to(grad_output)
    plane = rois[:, 0].long()[:, None] * channels + torch.arange(channels, device=rois.device)  # (K, C)
    grad_input = grad_output.new_zeros(input_shape.numel())
    taken = y != -1
    for index, weight in corners(y, x, height, width):
        pixel = plane[:, :, None, None] * (height * width) + index
        grad_input.index_put_((pixel,), grad_output * weight * taken, accumulate=True)
    return grad_input.view(input_shape)
