"""Relative position tables: from one row per offset to one value per pair of tokens.

A table over offsets is read through overlapping windows (`Tensor.unfold`), so no index tensor exists and the gradient
is a plain sum in fixed order, the same from run to run.
"""

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from mmvisattn.ops.precision import wide_dtype
from mmvisattn.ops.validation import check_count, check_matrix


def relative_rows(table: Tensor) -> Tensor:
    """Read a one-dimensional table at query - key + n - 1.

    Args:
        table: (2n-1, D), one row per offset.

    Returns:
        (n, n, D): entry (q, k) is row q - k + n - 1.
    """
    length = (table.shape[0] + 1) // 2
    return table.unfold(0, length, 1).flip(-1).transpose(1, 2)  # (q, D, k) with k counted down, then up


def relative_bias(table: Tensor, window: tuple[int, int]) -> Tensor:
    """Read a two-dimensional bias table for all pairs of tokens of a window.

    Args:
        table: ((2h-1)*(2w-1), heads), row (yq-yk+h-1)*(2w-1) + (xq-xk+w-1).
        window: (h, w) in tokens.

    Returns:
        (heads, h*w, h*w).
    """
    height, width = window
    offsets = table.reshape(2 * height - 1, 2 * width - 1, -1)
    pairs = offsets.unfold(0, height, 1).unfold(1, width, 1).flip(-2, -1)  # (yq, xq, heads, yk, xk)
    return pairs.permute(2, 0, 1, 3, 4).reshape(-1, height * width, height * width)


def offset_logits(query: Tensor, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Return what decomposed relative positions add to the logits, for each row and for each column of keys.

    Args:
        query: (..., h*w, D), not scaled.
        rows: (h, h, D), the table of rows read by `relative_rows`.
        columns: (w, w, D), the table of columns.

    Returns:
        (..., h*w, h) for the rows of keys, (..., h*w, w) for the columns; a key gets the sum of its two.
    """
    grid = query.view(*query.shape[:-2], rows.shape[0], columns.shape[0], query.shape[-1])
    by_row = torch.einsum("...yxd,ykd->...yxk", grid, rows)
    by_column = torch.einsum("...yxd,xkd->...yxk", grid, columns)
    return by_row.flatten(-3, -2), by_column.flatten(-3, -2)


def one_hot_places(window: tuple[int, int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return for each token of a window, (h*w, h+w), its row and its column, one-hot.

    The product of (offsets by row, offsets by column) of a query with this of a key is what the key gets. So decomposed
    relative positions are h + w more channels of query and key, and no (h*w, h*w) bias exists.
    """
    rows = torch.eye(window[0], dtype=dtype, device=device).repeat_interleave(window[1], 0)
    columns = torch.eye(window[1], dtype=dtype, device=device).repeat(window[0], 1)
    return torch.cat((rows, columns), 1)


def resize_1d(table: Tensor, length: int) -> Tensor:
    """Resize a table of one-dimensional offsets, (n, D) to (length, D), as SAM and detectron2 do: linear.

    The ends of the tables do not fall on one another (`align_corners=False`). Computed in float32 or wider.

    Args:
        table: (n, D), one row per offset.
        length: rows wanted: 2*max(q, k) - 1 for q query and k key positions on the axis.

    Raises:
        ValueError: `table` is not a float matrix, or `length` is not an int of at least 1.
    """
    check_matrix("table", table)
    check_count("length", length)
    if table.shape[0] == length:
        return table
    columns = table.to(wide_dtype(table.dtype)).t()[None]  # (1, D, n)
    return interpolate(columns, size=length, mode="linear", align_corners=False)[0].t().to(table.dtype)
