"""Self-attention inside mask units on `torch.nn.functional.scaled_dot_product_attention`, without any bias."""

from torch import Tensor

from mmvisattn.ops.mask_unit_attention.units import UnitGrids, split_units
from mmvisattn.ops.scaled_dot_product import scaled_dot_product
from mmvisattn.ops.windows import join_heads, merge


def mask_unit_attention(
    qkv: Tensor, *, num_heads: int, grids: UnitGrids, scale: float, pad_kv: Tensor | None
) -> Tensor:
    """Return (B, ceil(H/s), ceil(W/s), C); see `mmvisattn.ops.mask_unit_attention`."""
    query, key, value = split_units(qkv, num_heads, grids, pad_kv)
    query, key, value = (part.flatten(0, 1) for part in (query, key, value))
    output = scaled_dot_product(query, key, value, None, scale=scale)
    return merge(join_heads(output, grids.query), grids.query)
