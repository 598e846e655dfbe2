"""RoIAlign over rotated regions, after ``csrc/pytorch/cpu/roi_align_rotated.cpp`` of mmcv (Apache-2.0)."""

from torch import Tensor

from mmvisattn.hosts.mmcv_ops.float_width import at_least_float32
from mmvisattn.hosts.mmcv_ops.recompute import input_gradients
from mmvisattn.hosts.mmcv_ops.roi_geometry import check_regions
from mmvisattn.hosts.mmcv_ops.roi_sampling import average_over_bins, bin_positions, grid_sizes


def roi_align_rotated_forward(
    input: Tensor,
    rois: Tensor,
    output: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
    clockwise: bool,
) -> None:
    """Average each rotated RoI of a feature map over ``pooled_height`` x ``pooled_width`` bins.

    Args:
        input: (B, C, H, W).
        rois: (K, 6), rows (image, x, y, width, height, angle): centre and sides in pixels of the image, and radians.
        output: (K, C, pooled_height, pooled_width), written.
        pooled_height: bins along the side called height.
        pooled_width: bins along the side called width.
        spatial_scale: feature map pixels per image pixel.
        sampling_ratio: sample points per bin and axis; 0 takes one per pixel, rounded up.
        aligned: move by half a pixel; otherwise keep each side at least 1.
        clockwise: whether the angle turns clockwise in the image, or against it.

    Raises:
        ValueError: shapes that do not fit.
    """
    check_regions("roi_align_rotated", input, rois, columns=6)
    feature, wide_rois = at_least_float32(input, rois)
    bins = (pooled_height, pooled_width)
    output.copy_(_pool(feature, wide_rois, bins, spatial_scale, sampling_ratio, aligned, clockwise))


def roi_align_rotated_backward(
    grad_output: Tensor,
    rois: Tensor,
    grad_input: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
    clockwise: bool,
) -> None:
    """Write the gradient with respect to the feature map; arguments as in the forward call.

    Args:
        grad_output: (K, C, pooled_height, pooled_width).
        rois: (K, 6).
        grad_input: (B, C, H, W), written.
        pooled_height: bins along the side called height.
        pooled_width: bins along the side called width.
        spatial_scale: feature map pixels per image pixel.
        sampling_ratio: sample points per bin and axis, or 0.
        aligned: move by half a pixel.
        clockwise: whether the angle turns clockwise in the image.
    """
    grad, wide_rois = at_least_float32(grad_output, rois)
    bins = (pooled_height, pooled_width)

    def pool(feature: Tensor) -> Tensor:
        return _pool(feature, wide_rois, bins, spatial_scale, sampling_ratio, aligned, clockwise)

    # The op is linear in the feature map, so its value there does not matter.
    grad_input.copy_(input_gradients(pool, [grad.new_zeros(grad_input.shape)], grad)[0])


def _pool(
    feature: Tensor,
    rois: Tensor,
    bins: tuple[int, int],
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
    clockwise: bool,
) -> Tensor:
    """Differentiable form: (K, C, *bins)."""
    centre = rois[:, 1:3] * spatial_scale - (0.5 if aligned else 0.0)
    sides = rois[:, 3:5] * spatial_scale
    if not aligned:
        sides = sides.clamp(min=1)
    angle = -rois[:, 5] if clockwise else rois[:, 5]
    cos, sin = angle.cos()[:, None, None, None, None], angle.sin()[:, None, None, None, None]

    def points(chosen: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor]:
        width, height = sides[chosen].unbind(dim=1)
        down = (bin_positions(height, bins[0], rows) - height[:, None, None] / 2)[:, :, None, :, None]
        along = (bin_positions(width, bins[1], columns) - width[:, None, None] / 2)[:, None, :, None, :]
        x, y = centre[chosen, :, None, None, None, None].unbind(dim=1)
        return down * cos[chosen] - along * sin[chosen] + y, down * sin[chosen] + along * cos[chosen] + x

    grids = grid_sizes(sides[:, 1], bins[0], sampling_ratio), grid_sizes(sides[:, 0], bins[1], sampling_ratio)
    return average_over_bins(feature, rois[:, 0].long(), grids, bins, points)
