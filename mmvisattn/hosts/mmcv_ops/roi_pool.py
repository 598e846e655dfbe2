"""RoIPool (Girshick 2015): the maximum over all pixels of each bin.

Semantics after ``csrc/common/cuda/roi_pool_cuda_kernel.cuh`` of mmcv (Apache-2.0). torchvision's op of that name rounds
the RoI to whole pixels first and so gives other values; this one is PyTorch. A RoI of negative size gives zeros and no
gradient.
"""

import torch
from torch import Tensor

from mmvisattn.hosts.mmcv_ops.float_width import at_least_float32
from mmvisattn.hosts.mmcv_ops.roi_geometry import check_regions
from mmvisattn.hosts.mmcv_ops.roi_sampling import equal_grids


def roi_pool_forward(
    input: Tensor,
    rois: Tensor,
    output: Tensor,
    argmax: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> None:
    """Take the maximum of each of ``pooled_height`` x ``pooled_width`` bins of each RoI.

    Args:
        input: (B, C, H, W).
        rois: (K, 5), rows (image, x1, y1, x2, y2), in pixels of the image; x2 and y2 are inside.
        output: (K, C, pooled_height, pooled_width), written; zero for a bin without pixels.
        argmax: shape of ``output``, int32, written: ``row * W + column`` of the maximum, the first of equals, or -1.
        pooled_height: bins from top to bottom.
        pooled_width: bins from left to right.
        spatial_scale: feature map pixels per image pixel.

    Raises:
        ValueError: shapes that do not fit.
    """
    check_regions("roi_pool", input, rois, columns=5)
    (wide_rois,) = at_least_float32(rois)
    _, channels, height, width = input.shape
    rows = _bin_edges(wide_rois[:, 2], wide_rois[:, 4], spatial_scale, pooled_height, height)
    columns = _bin_edges(wide_rois[:, 1], wide_rois[:, 3], spatial_scale, pooled_width, width)
    output.zero_()
    argmax.fill_(-1)
    # The largest bin of a RoI fixes how many pixels are read per bin; those beyond a bin's own edge are masked.
    tallest, widest = (edges[1].sub(edges[0]).amax(dim=1).clamp(min=0) for edges in (rows, columns))
    table = input.permute(0, 2, 3, 1).reshape(-1, channels)
    for chosen, tall, wide in equal_grids(tallest, widest, channels * pooled_height * pooled_width):
        pixel, inside = _pixels_of_bins(rows, columns, chosen, (tall, wide), width)
        first = wide_rois[chosen, 0].long() * (height * width)
        values = table[first[:, None, None, None] + pixel]  # (k, bins, bins, pixels, C)
        largest, place = values.masked_fill_(~inside[..., None], -torch.inf).max(dim=3)
        found = inside.any(dim=3)[..., None]
        output[chosen] = torch.where(found, largest, 0).permute(0, 3, 1, 2)
        argmax[chosen] = torch.where(found, pixel.gather(3, place), -1).permute(0, 3, 1, 2).to(argmax)


def roi_pool_backward(
    grad_output: Tensor,
    rois: Tensor,
    argmax: Tensor,
    grad_input: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> None:
    """Write the gradient with respect to the feature map: each bin's goes to the pixel that was taken.

    Args:
        grad_output: (K, C, pooled_height, pooled_width).
        rois: (K, 5).
        argmax: from the forward call.
        grad_input: (B, C, H, W), written.
        pooled_height: as in the forward call; not needed here.
        pooled_width: likewise.
        spatial_scale: likewise.
    """
    (grad,) = at_least_float32(grad_output)
    _, channels, height, width = grad_input.shape
    plane = rois[:, 0].long()[:, None] * channels + torch.arange(channels, device=rois.device)  # (K, C)
    pixel = plane[:, :, None, None] * (height * width) + argmax.clamp(min=0)
    gathered = grad.new_zeros(grad_input.numel())
    gathered.index_put_((pixel,), grad * (argmax >= 0), accumulate=True)
    grad_input.copy_(gathered.view(grad_input.shape))


def _bin_edges(low: Tensor, high: Tensor, spatial_scale: float, bins: int, size: int) -> tuple[Tensor, Tensor]:
    """First pixel and the pixel after the last of each bin along one axis, (K, bins) int64 each, inside the map."""
    start = (low * spatial_scale)[:, None]
    extent = ((high + 1) * spatial_scale)[:, None] - start
    index = torch.arange(bins, dtype=low.dtype, device=low.device)
    first = (index * (extent / bins) + start).floor().clamp(0, size).long()
    after = ((index + 1) * (extent / bins) + start).ceil().clamp(0, size).long()
    return first, torch.where(extent > 0, after, first)


def _pixels_of_bins(
    rows: tuple[Tensor, Tensor], columns: tuple[Tensor, Tensor], chosen: Tensor, largest: tuple[int, int], width: int
) -> tuple[Tensor, Tensor]:
    """Indices of the pixels of each bin, (k, bins, bins, pixels), and whether the bin has that many, likewise."""
    row = rows[0][chosen, :, None] + torch.arange(largest[0], device=chosen.device)  # (k, bins, tall)
    column = columns[0][chosen, :, None] + torch.arange(largest[1], device=chosen.device)
    inside_row, inside_column = row < rows[1][chosen, :, None], column < columns[1][chosen, :, None]
    inside = inside_row[:, :, None, :, None] & inside_column[:, None, :, None, :]
    pixel = row[:, :, None, :, None] * width + column[:, None, :, None, :]
    return pixel.masked_fill(~inside, 0).flatten(3), inside.flatten(3)
