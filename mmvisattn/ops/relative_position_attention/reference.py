"""Self-attention with decomposed relative positions: the specification.

Eager, deterministic, differentiable any number of times.
"""

from torch import Tensor

from mmvisattn.ops.precision import wide_dtype
from mmvisattn.ops.relative_position import offset_logits, relative_rows
from mmvisattn.ops.windows import WindowGrid, join_heads, merge, split_windows


def relative_position_attention(
    qkv: Tensor,
    rel_h: Tensor,
    rel_w: Tensor,
    *,
    num_heads: int,
    grid: WindowGrid,
    scale: float,
    pad_kv: Tensor | None,
) -> Tensor:
    """Return (B, H, W, C); see `mmvisattn.ops.relative_position_attention`."""
    query, key, value = split_windows(qkv, num_heads, grid, pad_kv)
    weights = attention_weights(query, key, rel_h, rel_w, grid, scale)
    output = weights @ value.to(weights.dtype)
    return merge(join_heads(output.flatten(0, 1).to(qkv.dtype), grid), grid)


def attention_weights(
    query: Tensor, key: Tensor, rel_h: Tensor, rel_w: Tensor, grid: WindowGrid, scale: float
) -> Tensor:
    """Return (windows, B, heads, N, N); rows sum to one."""
    wide = wide_dtype(query.dtype)
    query, key = query.to(wide), key.to(wide)
    by_row, by_column = offset_logits(query, relative_rows(rel_h.to(wide)), relative_rows(rel_w.to(wide)))
    offsets = (by_row[..., :, None] + by_column[..., None, :]).flatten(-2)  # key (y, x) gets row y plus column x
    return ((query * scale) @ key.mT + offsets).softmax(-1)
