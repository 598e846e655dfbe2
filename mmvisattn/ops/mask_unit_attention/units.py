"""How a map is cut into mask units: one grid for keys and values, a coarser one for pooled queries."""

from typing import NamedTuple

from torch import Tensor

from mmvisattn.ops.pooling import max_pool_tokens
from mmvisattn.ops.windows import WindowGrid, partition


class UnitGrids(NamedTuple):
    """The same units twice."""

    query: WindowGrid
    key: WindowGrid
    stride: int


def unit_grids(size: tuple[int, int], unit: tuple[int, int] | None, stride: int) -> UnitGrids:
    """Return the grids of units of a map.

    Args:
        size: (H, W) in tokens.
        unit: (rows, columns) in tokens before pooling, multiples of `stride`; None for the whole map.
        stride: side of the cell that one query is pooled from, in tokens.
    """
    pooled = -(-size[0] // stride), -(-size[1] // stride)
    pooled_unit = pooled if unit is None else (unit[0] // stride, unit[1] // stride)
    return UnitGrids(WindowGrid(pooled, pooled_unit), WindowGrid(size, size if unit is None else unit), stride)


def split_units(qkv: Tensor, num_heads: int, grids: UnitGrids, pad_kv: Tensor | None) -> tuple[Tensor, ...]:
    """Pool the queries and gather the units: query (units, B, heads, N/s**2, D), key and value (units, B, heads, N, D).

    Queries are pooled before the map is padded, so that padding is never a maximum.
    """
    channels = qkv.shape[3] // 3
    head_dim = channels // num_heads
    query = qkv[..., :channels]
    if grids.stride > 1:
        query = max_pool_tokens(query, grids.stride)
    query = partition(query, grids.query)
    query = query.reshape(*query.shape[:3], num_heads, head_dim).transpose(2, 3)
    units = partition(qkv[..., channels:], grids.key, None if pad_kv is None else pad_kv.flatten())
    key, value = units.reshape(*units.shape[:3], 2, num_heads, head_dim).permute(3, 0, 1, 4, 2, 5).unbind()
    return query, key, value
