"""Relative position tables: from one row per offset to one value per pair of tokens.

A table over offsets is read through overlapping windows (`Tensor.unfold`), so no index tensor exists and the gradient
is a plain sum in fixed order, the same from run to run.
"""

from torch import Tensor


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
