"""Windowed self-attention: the specification. Eager, deterministic, differentiable any number of times."""

import torch
from torch import Tensor

from mmvisattn.ops.cosine import normalize
from mmvisattn.ops.precision import wide_dtype
from mmvisattn.ops.relative_position import relative_bias
from mmvisattn.ops.windows import WindowGrid, join_heads, merge, shift_masks, split_windows


def window_attention(
    qkv: Tensor,
    bias_table: Tensor | None,
    *,
    num_heads: int,
    grid: WindowGrid,
    scale: float,
    logit_multiplier: Tensor | None,
    pad_kv: Tensor | None,
) -> Tensor:
    """Return (B, H, W, C); see `mmvisattn.ops.window_attention`."""
    query, key, value = split_windows(qkv, num_heads, grid, pad_kv)
    weights = attention_weights(query, key, bias_table, grid, scale, logit_multiplier)
    output = weights @ value.to(weights.dtype)
    return merge(join_heads(output.flatten(0, 1).to(qkv.dtype), grid), grid)


def attention_weights(
    query: Tensor,
    key: Tensor,
    bias_table: Tensor | None,
    grid: WindowGrid,
    scale: float,
    logit_multiplier: Tensor | None,
) -> Tensor:
    """Return (windows, B, heads, N, N); rows sum to one."""
    wide = wide_dtype(query.dtype)
    query, key = query.to(wide), key.to(wide)
    if logit_multiplier is None:
        query = query * scale
    else:
        query = normalize(query) * logit_multiplier.to(wide)[:, None, None]
        key = normalize(key)
    logits = query @ key.mT
    if bias_table is not None:
        logits = logits + relative_bias(bias_table.to(wide), grid.window)
    masks = shift_masks(grid, wide, logits.device)
    runs = [logits[start:stop] + masks[kind] for kind, start, stop in grid.runs]
    return torch.cat(runs).softmax(-1)
