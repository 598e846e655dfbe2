"""Self-attention inside mask units: the specification. Eager, deterministic, differentiable any number of times."""

from torch import Tensor

from mmvisattn.ops.mask_unit_attention.units import UnitGrids, split_units
from mmvisattn.ops.precision import wide_dtype
from mmvisattn.ops.windows import join_heads, merge


def mask_unit_attention(
    qkv: Tensor, *, num_heads: int, grids: UnitGrids, scale: float, pad_kv: Tensor | None
) -> Tensor:
    """Return (B, ceil(H/s), ceil(W/s), C); see `mmvisattn.ops.mask_unit_attention`."""
    query, key, value = split_units(qkv, num_heads, grids, pad_kv)
    weights = attention_weights(query, key, scale)
    output = weights @ value.to(weights.dtype)
    return merge(join_heads(output.flatten(0, 1).to(qkv.dtype), grids.query), grids.query)


def attention_weights(query: Tensor, key: Tensor, scale: float) -> Tensor:
    """Return (units, B, heads, N/s**2, N); rows sum to one."""
    wide = wide_dtype(query.dtype)
    return ((query.to(wide) * scale) @ key.to(wide).mT).softmax(-1)
