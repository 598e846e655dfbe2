"""Windowed self-attention: the specification. Eager, deterministic, differentiable any number of times."""

import torch
from torch import Tensor

from mmvisattn.ops.cosine import normalize
from mmvisattn.ops.precision import wide_dtype
from mmvisattn.ops.relative_position import relative_bias
from mmvisattn.ops.windows import WindowGrid, merge, pad_row, partition, shift_masks


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
    output = (weights @ value).transpose(2, 3).flatten(3)  # (windows, B, N, C)
    return merge(output.to(qkv.dtype), grid)


def split_windows(qkv: Tensor, num_heads: int, grid: WindowGrid, pad_kv: Tensor | None) -> tuple[Tensor, ...]:
    """Gather the windows and return query, key and value, each (windows, B, heads, N, D), in the wide dtype."""
    windows = partition(qkv, grid, pad_row(pad_kv)).to(wide_dtype(qkv.dtype))
    head_dim = qkv.shape[3] // (3 * num_heads)
    return windows.view(*windows.shape[:3], 3, num_heads, head_dim).permute(3, 0, 1, 4, 2, 5).unbind()


def attention_weights(
    query: Tensor,
    key: Tensor,
    bias_table: Tensor | None,
    grid: WindowGrid,
    scale: float,
    logit_multiplier: Tensor | None,
) -> Tensor:
    """Return (windows, B, heads, N, N); rows sum to one."""
    if logit_multiplier is None:
        query = query * scale
    else:
        query = normalize(query) * logit_multiplier.to(query.dtype)[:, None, None]
        key = normalize(key)
    logits = query @ key.transpose(-2, -1)
    if bias_table is not None:
        logits = logits + relative_bias(bias_table.to(logits.dtype), grid.window)
    masks = shift_masks(grid, logits.dtype, logits.device)
    runs = [logits[start:stop] + masks[kind] for kind, start, stop in grid.runs]
    return torch.cat(runs).softmax(-1)
