"""Halve the resolution of a map between two stages."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PatchMerging(nn.Module):
    """Concatenate the channels of every 2x2 group of tokens, normalise, and reduce 4C to ``out_dim`` channels.

    Liu et al., "Swin Transformer", 2021, section 3.1. The four tokens are concatenated in the order of the official
    code (https://github.com/microsoft/Swin-Transformer, MIT): (row, column) = (0, 0), (1, 0), (0, 1), (1, 1).
    A map with an odd side is padded with zeros at the bottom or on the right.

    Args:
        dim: Channels in.
        out_dim: Channels out.
        norm: Layer applied to the 4C concatenated channels.
    """

    def __init__(self, dim: int, out_dim: int, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm
        self.reduction = nn.Linear(4 * dim, out_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, H, W, C) to (B, ceil(H / 2), ceil(W / 2), out_dim)."""
        y: Tensor = self.reduction(self.norm(merge_2x2(x)))
        return y


def merge_2x2(x: Tensor) -> Tensor:
    """Concatenate the channels of every 2x2 group of tokens: (B, H, W, C) to (B, ceil(H / 2), ceil(W / 2), 4C).

    Example:
        >>> merge_2x2(torch.arange(4).view(1, 2, 2, 1)).flatten()
        tensor([0, 2, 1, 3])
    """
    height, width = x.shape[1:3]
    # Padded whether needed or not: sizes that depend on a remainder make torch.compile with changing sizes very slow.
    padded = F.pad(x, (0, 0, 0, 1, 0, 1))
    corners = ((0, 0), (1, 0), (0, 1), (1, 1))
    return torch.cat([padded[:, row : height + row : 2, column : width + column : 2] for row, column in corners], -1)
