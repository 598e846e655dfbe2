"""Relative position biases from a small network on coordinates, which fits windows of any size."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvisattn.ops.precision import no_autocast, wide_dtype
from mmvisattn.ops.tracing import is_traced

HIDDEN_DIM = 512
LARGEST_BIAS = 16.0
CACHED_COORDINATES = 64  # a backbone needs one per window size, dtype and device


class _Kept(NamedTuple):
    window_size: tuple[int, int]
    parameters: Sequence[Tensor]
    table: Tensor


class ContinuousPositionBias(nn.Sequential):
    """Biases of all relative positions in a window, at most 16, as a learned function of the position.

    Liu et al., "Swin Transformer V2", 2022, section 3.3: two linear layers read log-spaced coordinates, so that
    weights learned with one window size serve another. Nothing but the weights of the network is stored. Positions
    are divided by the side of the window that the weights were *trained* with, as in the official code
    (https://github.com/microsoft/Swin-Transformer, MIT).

    Everything is computed in float32 or wider, under autocast and in half precision too. Where no gradient is wanted
    on a CPU, the last table is kept and used again for as long as the weights hold the same values. They are compared
    by value, because writes through ``.data``, such as those of moving averages, leave no other trace. On other
    devices the comparison would have to wait for the device, and the table is cheaper than that.

    Args:
        num_heads: Number of attention heads.
        pretrained_window_size: Side, in tokens, of the windows that the weights were trained with; 0 for the windows
            at hand.
    """

    def __init__(self, num_heads: int, pretrained_window_size: int = 0) -> None:
        super().__init__(nn.Linear(2, HIDDEN_DIM), nn.ReLU(), nn.Linear(HIDDEN_DIM, num_heads, bias=False))
        self.pretrained_window_size = pretrained_window_size
        self._kept: _Kept | None = None

    def forward(self, window_size: tuple[int, int]) -> Tensor:
        """Return the biases ((2h - 1) * (2w - 1), num_heads) for windows of h x w tokens.

        The row of a relative position (y, x) is ``(y + h - 1) * (2w - 1) + x + w - 1``.
        """
        parameters = list(self.parameters())
        needs_grad = torch.is_grad_enabled() and any(parameter.requires_grad for parameter in parameters)
        if needs_grad or not parameters[0].is_cpu or is_traced(parameters[0]):
            return self._compute(window_size)
        kept = self._kept
        if kept is None or kept.window_size != window_size or not _same_values(kept.parameters, parameters):
            with torch.inference_mode(False), torch.no_grad():  # a table first used in inference serves training later
                copies = [parameter.clone() for parameter in parameters]
                kept = self._kept = _Kept(window_size, copies, self._compute(window_size))
        return kept.table

    def _compute(self, window_size: tuple[int, int]) -> Tensor:
        coordinates = log_spaced_coordinates(window_size, self.pretrained_window_size, next(self.parameters()))
        with no_autocast(coordinates):
            weight, bias, last_weight = (parameter.to(coordinates.dtype) for parameter in self.parameters())
            return LARGEST_BIAS * F.linear(F.relu(F.linear(coordinates, weight, bias)), last_weight).sigmoid()


def log_spaced_coordinates(window_size: tuple[int, int], pretrained_window_size: int, like: Tensor) -> Tensor:
    """Return the coordinates of all relative positions in a window, 1 at the largest of the trained window.

    Args:
        window_size: (h, w) in tokens.
        pretrained_window_size: Side of the trained windows in tokens; 0 for ``window_size``.
        like: Tensor on the device wanted; the dtype is its dtype or float32, whichever is wider.

    Returns:
        (row, column) coordinates, of shape ((2h - 1) * (2w - 1), 2). A distance of d tokens in windows of side m has
        the coordinate log(1 + 8d / (m - 1)) / log(8), with its sign.
    """
    if is_traced(like):  # a recorded tensor must not outlive its recording
        return _build_coordinates(window_size, pretrained_window_size, wide_dtype(like.dtype), like.device)
    return _cached_coordinates(window_size, pretrained_window_size, wide_dtype(like.dtype), like.device)


@lru_cache(maxsize=CACHED_COORDINATES)
def _cached_coordinates(
    window_size: tuple[int, int], pretrained_window_size: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    with torch.inference_mode(False):  # coordinates first built for inference serve training later
        return _build_coordinates(window_size, pretrained_window_size, dtype, device)


def _build_coordinates(
    window_size: tuple[int, int], pretrained_window_size: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    axes = []
    for side in window_size:
        largest = max((pretrained_window_size or side) - 1, 1)  # a window of one token has the distance 0 only
        scaled = torch.arange(1 - side, side, dtype=dtype, device=device) * (8 / largest)
        axes.append(scaled.sign() * scaled.abs().log1p() / math.log(8))
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).view(-1, 2)


def _same_values(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    return all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(some, others, strict=True))
