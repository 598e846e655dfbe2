"""Halve the resolution of a map between two stages."""

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
        >>> import torch
        >>> merge_2x2(torch.arange(4).view(1, 2, 2, 1)).flatten()
        tensor([0, 2, 1, 3])
    """
    x = F.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
    batch, height, width, channels = x.shape
    groups = x.view(batch, height // 2, 2, width // 2, 2, channels).permute(0, 1, 3, 4, 2, 5)  # column before row
    return groups.reshape(batch, height // 2, width // 2, 4 * channels)
