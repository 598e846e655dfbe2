"""Windowed self-attention on `torch.nn.functional.scaled_dot_product_attention`.

Windows that share a mask share one call, so no mask is larger than one window. On CPU that function has no gradient
of a bias without materialised logits; there, unless the call is recorded for elsewhere, the same runs in blocks of
windows.
"""

import torch
from torch import Tensor

from mmvisattn.ops.blockwise_op import attend_blockwise, blockwise_takes
from mmvisattn.ops.logit_terms import cosine
from mmvisattn.ops.precision import wide_dtype
from mmvisattn.ops.relative_position import relative_bias
from mmvisattn.ops.scaled_dot_product import scaled_dot_product
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
    wide = wide_dtype(qkv.dtype)
    bias = None if bias_table is None else relative_bias(bias_table.to(wide), grid.window)
    multiplier = None if logit_multiplier is None else logit_multiplier.to(wide)

    if blockwise_takes(qkv):
        terms = "scaled" if multiplier is None else "cosine"
        shared = () if multiplier is None else (multiplier,)
        return attend_blockwise(
            qkv, bias, pad_kv, num_heads=num_heads, grid=grid, scale=scale, terms=terms, shared=shared
        )
    query, key, value = (part.flatten(0, 1) for part in split_windows(qkv, num_heads, grid, pad_kv))
    if multiplier is not None:
        factors = cosine(query.to(wide), key.to(wide), slice(None), scale, multiplier)
        query, key = (factor.to(qkv.dtype) for factor in factors)
        scale = 1.0
    batch = qkv.shape[0]
    masks = shift_masks(grid, wide, qkv.device)
    outputs = []
    for kind, start, stop in grid.runs:
        run = slice(start * batch, stop * batch)
        added = bias if kind == 0 else masks[kind] if bias is None else bias + masks[kind]
        added = None if added is None else added.view(1, -1, grid.tokens, grid.tokens)
        outputs.append(scaled_dot_product(query[run], key[run], value[run], added, scale=scale))
    return merge(join_heads(torch.cat(outputs), grid), grid)
