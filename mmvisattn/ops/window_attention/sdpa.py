"""Windowed self-attention on `torch.nn.functional.scaled_dot_product_attention`.

On CPU that function has no gradient of the bias without materialised logits, so there, unless the call is traced, the
same computation runs in blocks of windows (`blockwise.py`).
"""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from mmvisattn.ops.cosine import normalize
from mmvisattn.ops.precision import wide_dtype
from mmvisattn.ops.relative_position import relative_bias
from mmvisattn.ops.tracing import is_traced
from mmvisattn.ops.window_attention import blockwise
from mmvisattn.ops.windows import WindowGrid, merge, partition, shift_masks


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
    if qkv.is_cpu and not is_traced(qkv):
        return blockwise.window_attention(
            qkv,
            bias_table,
            num_heads=num_heads,
            grid=grid,
            scale=scale,
            logit_multiplier=logit_multiplier,
            pad_kv=pad_kv,
        )
    padding = None
    if pad_kv is not None:
        padding = torch.cat((torch.zeros_like(pad_kv[:1]), pad_kv)).flatten()
    windows = partition(qkv, grid, padding)
    windows = windows.view(-1, grid.tokens, 3, num_heads, qkv.shape[3] // (3 * num_heads))
    query, key, value = windows.permute(2, 0, 3, 1, 4).unbind()  # (windows*B, heads, N, D)
    if logit_multiplier is not None:
        wide = wide_dtype(qkv.dtype)
        query = (normalize(query.to(wide)) * logit_multiplier.to(wide)[:, None, None]).to(qkv.dtype)
        key = normalize(key.to(wide)).to(qkv.dtype)
        scale = 1.0
    batch = qkv.shape[0]
    outputs = []
    for kind, start, stop in grid.runs:
        run = slice(start * batch, stop * batch)
        bias = run_bias(bias_table, grid, kind, query)
        outputs.append(scaled_dot_product_attention(query[run], key[run], value[run], bias, scale=scale))
    output = torch.cat(outputs).transpose(1, 2).flatten(2)
    return merge(output.view(-1, batch, grid.tokens, output.shape[2]), grid)


def run_bias(bias_table: Tensor | None, grid: WindowGrid, kind: int, query: Tensor) -> Tensor | None:
    """Return what is added to the logits of all windows of one kind, (1, heads or 1, N, N), or None for nothing."""
    wide = wide_dtype(query.dtype)
    mask = shift_masks(grid, wide, query.device)[kind]
    if bias_table is None:
        return mask[None, None].to(query.dtype) if kind > 0 else None
    return (relative_bias(bias_table.to(wide), grid.window) + mask)[None].to(query.dtype)
