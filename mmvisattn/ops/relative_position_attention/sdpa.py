"""Self-attention with decomposed relative positions on `torch.nn.functional.scaled_dot_product_attention`.

The positions travel as h + w more channels of query and key, so no (N, N) bias exists. On CPU, unless the call is
recorded for elsewhere, the same runs in blocks of windows, or of queries where one window is large.
"""

import torch
from torch import Tensor

from mmvisattn.ops.blockwise_op import attend_blockwise, blockwise_takes
from mmvisattn.ops.precision import wide_dtype
from mmvisattn.ops.relative_position import offset_logits, one_hot_places, relative_rows
from mmvisattn.ops.scaled_dot_product import scaled_dot_product
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
    wide = wide_dtype(qkv.dtype)
    tables = relative_rows(rel_h.to(wide)), relative_rows(rel_w.to(wide))

    if blockwise_takes(qkv):
        return attend_blockwise(
            qkv, None, pad_kv, num_heads=num_heads, grid=grid, scale=scale, terms="relative", shared=tables
        )
    query, key, value = (part.flatten(0, 1) for part in split_windows(qkv, num_heads, grid, pad_kv))
    query = torch.cat(
        (query * scale, *(offsets.to(qkv.dtype) for offsets in offset_logits(query.to(wide), *tables))), -1
    )
    places = one_hot_places(grid.window, key.dtype, key.device)
    key = torch.cat((key, places.expand(*key.shape[:-1], -1)), -1)
    output = scaled_dot_product(query, key, value, None, scale=1.0)
    return merge(join_heads(output, grid), grid)
