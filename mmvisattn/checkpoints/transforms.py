"""Changes of layout between a publisher's tensor and ours, each with its inverse."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

# Order of the four pixels of a 2x2 cell. Swin's own code concatenates columns first: (0,0), (1,0), (0,1), (1,1);
# nn.Unfold goes row by row. Exchanging the middle two leads from either order to the other.
_SWAP_MIDDLE = [0, 2, 1, 3]


@dataclass(frozen=True)
class Transform:
    """An invertible change of one tensor's layout.

    Attributes:
        name: What it does, for messages.
        forward: From the source's layout to ours.
        backward: From ours to the source's; ``backward(forward(x))`` is x.
    """

    name: str
    forward: Callable[[Tensor], Tensor]
    backward: Callable[[Tensor], Tensor]

    def inverse(self) -> Transform:
        """Return the transform with its two directions exchanged."""
        return Transform(f"inverse of {self.name}", self.backward, self.forward)


def vector(*shape: int) -> Transform:
    """Return the transform from a vector stored with extra axes of length 1 to a plain vector.

    Args:
        shape: The stored shape, with -1 where the values lie: (-1, 1, 1) for a layer scale of channels-first maps.

    Example:
        >>> import torch
        >>> vector(-1, 1, 1).forward(torch.zeros(8, 1, 1)).shape
        torch.Size([8])
    """

    def forward(tensor: Tensor) -> Tensor:
        if tensor.numel() != max(tensor.shape, default=0):
            raise ValueError(f"expected a vector with extra axes of length 1, but got the shape {tuple(tensor.shape)}")
        return tensor.reshape(-1)

    return Transform(f"vector from {shape}", forward, lambda tensor: tensor.reshape(shape))


def _conv_to_linear(weight: Tensor) -> Tensor:
    if weight.ndim != 4 or weight.shape[2:] != (1, 1):
        raise ValueError(f"expected the weight of a 1x1 convolution, (out, in, 1, 1), but got {tuple(weight.shape)}")
    return weight.flatten(1)


CONV_TO_LINEAR = Transform("1x1 convolution to linear", _conv_to_linear, lambda weight: weight[:, :, None, None])


def _tokens_to_grid(position: Tensor) -> Tensor:
    if position.ndim == 4:  # detection forks already store the grid
        return position
    if position.ndim != 3 or position.shape[0] != 1:
        raise ValueError(f"expected a position embedding, (1, L, C) or (1, C, H, W), but got {tuple(position.shape)}")
    side = math.isqrt(position.shape[1])
    if side * side != position.shape[1]:
        raise ValueError(f"cannot arrange the {position.shape[1]} tokens of a position embedding in a square grid")
    return position.transpose(1, 2).reshape(1, -1, side, side)


TOKENS_TO_GRID = Transform(
    "tokens (1, L, C) to grid (1, C, H, W)", _tokens_to_grid, lambda grid: grid.flatten(2).transpose(1, 2)
)


def _cells_last_to_first(tensor: Tensor) -> Tensor:
    # (..., C*4), pixel of the cell fastest, row by row -> (..., 4*C), pixel slowest, column by column
    if tensor.ndim == 0 or tensor.shape[-1] % 4:
        raise ValueError(f"expected a multiple of 4 channels in the last axis, but got {tuple(tensor.shape)}")
    cells = tensor.reshape(*tensor.shape[:-1], -1, 4).transpose(-1, -2)
    return cells[..., _SWAP_MIDDLE, :].flatten(-2)


def _cells_first_to_last(tensor: Tensor) -> Tensor:
    cells = tensor.reshape(*tensor.shape[:-1], 4, -1)[..., _SWAP_MIDDLE, :]
    return cells.transpose(-1, -2).flatten(-2)


UNFOLD_TO_OFFICIAL = Transform(
    "2x2 merging order of nn.Unfold to that of the official Swin", _cells_last_to_first, _cells_first_to_last
)


def _sparse_to_dense(kernel: Tensor) -> Tensor:
    # (k*k, in, out) or, depthwise, (k*k, C); columns of the k x k positions before rows
    side = math.isqrt(kernel.shape[0]) if kernel.ndim in (2, 3) else 0
    if side == 0 or side * side != kernel.shape[0]:
        raise ValueError(f"expected a sparse kernel (k*k, in, out) or (k*k, channels), but got {tuple(kernel.shape)}")
    grid = kernel.reshape(side, side, -1 if kernel.ndim == 3 else 1, kernel.shape[-1])
    return grid.permute(3, 2, 1, 0)


def _dense_to_sparse(weight: Tensor) -> Tensor:
    out_channels, in_channels, side, _ = weight.shape
    kernel = weight.permute(3, 2, 1, 0).reshape(side * side, in_channels, out_channels)
    return kernel.squeeze(1) if in_channels == 1 else kernel


SPARSE_TO_DENSE = Transform("kernel of a sparse convolution to that of a dense one", _sparse_to_dense, _dense_to_sparse)
