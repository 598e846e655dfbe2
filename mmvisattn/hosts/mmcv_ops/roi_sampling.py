"""Bilinear sampling as the RoI ops do it, and the sample grids inside their bins.

A map is defined on [-1, height] x [-1, width]: outside it is zero, and between the outermost pixel centres and that
border it continues with the value of the edge. This rule is Caffe2's and Detectron2's; ``grid_sample`` has no such
mode.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

_ELEMENTS_AT_ONCE = 1 << 24  # sampled values per chunk: 64 MB in float32


def corners(y: Tensor, x: Tensor, height: int, width: int) -> list[tuple[Tensor, Tensor]]:
    """The four pixels around each point.

    Args:
        y: any shape, in pixels from the centre of the first row.
        x: the same shape, in pixels from the centre of the first column.
        height: rows of the map.
        width: columns of the map.

    Returns:
        Four pairs of tensors of that shape: the pixel's index ``row * width + column``, int64, and its weight. The
        weights of a point sum to one, or to zero where the point lies outside the map; those of a point at NaN are NaN.
    """
    inside = (y >= -1) & (y <= height) & (x >= -1) & (x <= width)
    y, x = y.clamp(0, height - 1), x.clamp(0, width - 1)
    row, column = y.detach().floor(), x.detach().floor()
    down, right = y - row, x - column
    next_row, next_column = (row + 1).clamp(max=height - 1), (column + 1).clamp(max=width - 1)
    weighted = (
        (row, column, (1 - down) * (1 - right)),
        (row, next_column, (1 - down) * right),
        (next_row, column, down * (1 - right)),
        (next_row, next_column, down * right),
    )
    # no index may be made of NaN
    return [(r.nan_to_num().long() * width + c.nan_to_num().long(), weight * inside) for r, c, weight in weighted]


def sample(feature: Tensor, batch_index: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Sample every channel of a feature map at points; differentiable in ``feature``, ``y`` and ``x``.

    Args:
        feature: (B, C, H, W).
        batch_index: (K,) int64, the image of each row of points.
        y: (K, P), in pixels.
        x: (K, P), in pixels.

    Returns:
        (K, P, C).
    """
    batch, channels, height, width = feature.shape
    table = feature.permute(0, 2, 3, 1).reshape(batch * height * width, channels)
    first = (batch_index * height * width)[:, None]
    sampled = feature.new_zeros(())
    for index, weight in corners(y, x, height, width):
        sampled = sampled + table[first + index] * weight[..., None]
    return sampled


def grid_sizes(extent: Tensor, bins: int, sampling_ratio: int) -> Tensor:
    """Sample points per bin along one axis.

    Args:
        extent: (K,), the side of each RoI in pixels of the map.
        bins: bins along that side.
        sampling_ratio: points per bin; 0 takes one per pixel, rounded up, and none where the extent is zero or NaN.

    Returns:
        (K,) int64.
    """
    if sampling_ratio > 0:
        return torch.full_like(extent, sampling_ratio, dtype=torch.long)
    return (extent / bins).ceil().nan_to_num(nan=0.0).clamp(min=0).long()


def equal_grids(rows: Tensor, columns: Tensor, values_per_point: int) -> Iterator[tuple[Tensor, int, int]]:
    """Group RoIs that have the same sample grid, in chunks of bounded memory.

    Args:
        rows: (K,) int64, sample rows per bin.
        columns: (K,) int64, sample columns per bin.
        values_per_point: channels times bins.

    Yields:
        Indices of some RoIs, (k,) int64, and their sample rows and columns per bin, both at least 1. RoIs with an empty
        grid are left out.
    """
    sizes = torch.stack((rows, columns), dim=1)
    distinct, member_of = torch.unique(sizes, dim=0, return_inverse=True)
    for group, (grid_rows, grid_columns) in enumerate(distinct.tolist()):
        if grid_rows * grid_columns == 0:
            continue
        members = torch.nonzero(member_of == group).flatten()
        step = max(1, _ELEMENTS_AT_ONCE // (values_per_point * grid_rows * grid_columns))
        for chunk in members.split(step):
            yield chunk, grid_rows, grid_columns


def bin_positions(extent: Tensor, bins: int, points: int) -> Tensor:
    """Distances of the sample points of all bins from the start of a RoI, along one axis.

    Args:
        extent: (k,), the side of each RoI in pixels of the map.
        bins: bins along that side.
        points: evenly spaced sample points per bin.

    Returns:
        (k, bins, points), in pixels.
    """
    bin_size = (extent / bins)[:, None, None]
    bin_index = torch.arange(bins, dtype=extent.dtype, device=extent.device)[:, None]
    point_index = torch.arange(points, dtype=extent.dtype, device=extent.device)
    return bin_index * bin_size + (point_index + 0.5) * bin_size / points


def average_over_bins(
    feature: Tensor,
    batch_index: Tensor,
    grids: tuple[Tensor, Tensor],
    bins: tuple[int, int],
    points: Callable[[Tensor, int, int], tuple[Tensor, Tensor]],
) -> Tensor:
    """Average the sample points of each bin; differentiable in ``feature`` and in what ``points`` depends on.

    Args:
        feature: (B, C, H, W).
        batch_index: (K,) int64, the image of each RoI.
        grids: (K,) and (K,) int64, sample rows and columns per bin.
        bins: bins of a RoI, (rows, columns).
        points: for indices (k,) of RoIs with equal grids, and that grid's rows and columns, gives y and x of the sample
            points, (k, *bins, rows, columns) each, in pixels.

    Returns:
        (K, C, *bins); zero where a RoI has no sample points.
    """
    channels = feature.shape[1]
    pooled = feature.new_zeros(len(batch_index), channels, *bins)
    members, means = [], []
    for chosen, rows, columns in equal_grids(*grids, channels * bins[0] * bins[1]):
        y, x = points(chosen, rows, columns)
        values = sample(feature, batch_index[chosen], y.flatten(1), x.flatten(1))  # (k, bins * points, C)
        means.append(values.unflatten(1, (*bins, -1)).mean(dim=3).permute(0, 3, 1, 2))
        members.append(chosen)
    return torch.index_put(pooled, (torch.cat(members),), torch.cat(means)) if members else pooled
