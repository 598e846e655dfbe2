"""Deformable RoI pooling (Dai et al. 2017): RoIAlign whose bins are moved by learned offsets.

Semantics after ``csrc/common/cuda/deform_roi_pool_cuda_kernel.cuh`` of mmcv (Apache-2.0). The gradient of the offsets
is the exact derivative of the forward; the compiled op departs from it for sample points in the outermost pixel.
"""

import torch
from torch import Tensor

from mmvisattn.hosts.mmcv_ops.float_width import at_least_float32
from mmvisattn.hosts.mmcv_ops.recompute import input_gradients
from mmvisattn.hosts.mmcv_ops.roi_geometry import check_regions, scaled_regions
from mmvisattn.hosts.mmcv_ops.roi_sampling import average_over_bins, bin_positions, grid_sizes


def deform_roi_pool_forward(
    input: Tensor,
    rois: Tensor,
    offset: Tensor,
    output: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    gamma: float,
) -> None:
    """Average each RoI of a feature map over ``pooled_height`` x ``pooled_width`` movable bins.

    Args:
        input: (B, C, H, W).
        rois: (K, 5), rows (image, x1, y1, x2, y2), in pixels of the image.
        offset: (K, 2, pooled_height, pooled_width), x then y, in RoI sides divided by ``gamma``; empty for none.
        output: (K, C, pooled_height, pooled_width), written.
        pooled_height: bins from top to bottom.
        pooled_width: bins from left to right.
        spatial_scale: feature map pixels per image pixel.
        sampling_ratio: sample points per bin and axis; 0 takes one per pixel, rounded up.
        gamma: scale of the offsets.

    Raises:
        ValueError: shapes that do not fit.
    """
    check_regions("deform_roi_pool", input, rois, columns=5)
    bins = (pooled_height, pooled_width)
    if offset.numel() not in (0, 2 * len(rois) * pooled_height * pooled_width):
        raise ValueError(
            f"deform_roi_pool: offset must have shape {(len(rois), 2, *bins)} or be empty, got {tuple(offset.shape)}."
        )
    feature, wide_rois, wide_offset = at_least_float32(input, rois, offset)
    output.copy_(_pool(feature, wide_offset, wide_rois, bins, spatial_scale, sampling_ratio, gamma))


def deform_roi_pool_backward(
    grad_output: Tensor,
    input: Tensor,
    rois: Tensor,
    offset: Tensor,
    grad_input: Tensor,
    grad_offset: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    gamma: float,
) -> None:
    """Write the gradients with respect to feature map and offsets; arguments as in the forward call.

    Args:
        grad_output: (K, C, pooled_height, pooled_width).
        input: (B, C, H, W).
        rois: (K, 5).
        offset: (K, 2, pooled_height, pooled_width), or empty.
        grad_input: (B, C, H, W), written.
        grad_offset: shape of ``offset``, written.
        pooled_height: bins from top to bottom.
        pooled_width: bins from left to right.
        spatial_scale: feature map pixels per image pixel.
        sampling_ratio: sample points per bin and axis, or 0.
        gamma: scale of the offsets.
    """
    grad, feature, wide_rois, wide_offset = at_least_float32(grad_output, input, rois, offset)
    bins = (pooled_height, pooled_width)

    def pool(feature: Tensor, offset: Tensor) -> Tensor:
        return _pool(feature, offset, wide_rois, bins, spatial_scale, sampling_ratio, gamma)

    gradients = input_gradients(pool, [feature, wide_offset], grad)
    grad_input.copy_(gradients[0])
    grad_offset.copy_(gradients[1])


def _pool(
    feature: Tensor,
    offset: Tensor,
    rois: Tensor,
    bins: tuple[int, int],
    spatial_scale: float,
    sampling_ratio: int,
    gamma: float,
) -> Tensor:
    """Differentiable form: (K, C, *bins)."""
    regions = scaled_regions(rois, spatial_scale, aligned=True)
    sides = torch.stack((regions.width, regions.height), dim=1)[:, :, None, None]
    shift = sides * gamma * offset.view(-1, 2, *bins) if offset.numel() else sides.new_zeros(len(rois), 2, *bins)

    def points(chosen: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        y = regions.top[chosen, None, None] + bin_positions(regions.height[chosen], bins[0], rows)
        x = regions.left[chosen, None, None] + bin_positions(regions.width[chosen], bins[1], columns)
        shift_x, shift_y = shift[chosen, :, :, :, None, None].unbind(dim=1)
        shape = (len(chosen), *bins, rows, columns)
        return (y[:, :, None, :, None] + shift_y).expand(shape), (x[:, None, :, None, :] + shift_x).expand(shape)

    rows = grid_sizes(regions.height, bins[0], sampling_ratio)
    columns = grid_sizes(regions.width, bins[1], sampling_ratio)
    return average_over_bins(feature, regions.batch_index, (rows, columns), bins, points)
