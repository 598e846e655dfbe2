"""One block of queries against one block of keys of the same window: what all tiled kernels share."""

import triton
import triton.language as tl

from mmvisattn.ops.window_attention.triton.addressing import (
    LOG2E,
    bias_of_pairs,
    inverse_norm,
    load_keys,
    load_tokens,
    locate_slots,
    scale_rows,
    shift_mask,
)


@triton.jit
def load_queries(
    qkv_ptr,  # (B, H, W, 3C)
    multiplier_ptr,  # (heads,), any float type; unused without COSINE
    token,
    inside,
    head,
    heads,
    scale,  # of the logits; unused with COSINE
    HEAD_DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,
    COSINE: tl.constexpr,
):
    """A tile of queries and the factors of its rows of logits.

    Returns:
        query: (queries, PADDED_DIM), as stored.
        row_scale: (queries,) float32, what a row of raw products is multiplied by, in units of log 2 (with COSINE
            still to be multiplied by the inverse norms of the keys).
        inverse: (queries,) float32 inverse norms; ones without COSINE.
    """
    query = load_tokens(qkv_ptr + head * HEAD_DIM, token, inside, 3 * heads * HEAD_DIM, HEAD_DIM, PADDED_DIM)
    inverse = tl.full((token.shape[0],), 1.0, tl.float32)
    if COSINE:
        inverse = inverse_norm(query)
        scale = tl.load(multiplier_ptr + head).to(tl.float32)
    return query, inverse * (scale * LOG2E), inverse


@triton.jit
def attend_block(
    query,  # (queries, PADDED_DIM)
    row_scale,  # (queries,) float32
    query_slot,  # (queries,)
    key_slot,  # (keys,)
    qkv_ptr,  # (B, H, W, 3C)
    table_ptr,  # ((2h-1)*(2w-1), heads)
    pad_kv_ptr,  # (2, C)
    head,
    heads,
    image,
    top,
    left,
    border,
    height,
    width,
    shift_y,
    shift_x,
    HEAD_DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,
    WINDOW_H: tl.constexpr,
    WINDOW_W: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_SHIFT: tl.constexpr,
    HAS_PAD: tl.constexpr,
    COSINE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Logits of a block, and its keys and values.

    Returns:
        logits: (queries, keys) float32, in units of log 2.
        key: (keys, PADDED_DIM), normalised with COSINE.
        value: (keys, PADDED_DIM).
    """
    token, inside, padding = locate_slots(
        key_slot, image, top, left, height, width, shift_y, shift_x, WINDOW_H, WINDOW_W
    )
    key = load_keys(qkv_ptr, pad_kv_ptr, 0, head, heads, token, inside, padding, HEAD_DIM, PADDED_DIM, HAS_PAD)
    value = load_keys(qkv_ptr, pad_kv_ptr, 1, head, heads, token, inside, padding, HEAD_DIM, PADDED_DIM, HAS_PAD)
    logits = tl.dot(query, tl.trans(key), input_precision=PRECISION) * row_scale[:, None]
    if COSINE:
        inverse_key = inverse_norm(key)
        logits *= inverse_key[None, :]
        key = scale_rows(key, inverse_key)
    logits += bias_of_pairs(
        table_ptr, query_slot[:, None], key_slot[None, :], head, heads, WINDOW_H, WINDOW_W, HAS_BIAS
    )
    if HAS_SHIFT:
        logits = shift_mask(logits, query_slot, key_slot, border, top, left, shift_y, shift_x, WINDOW_H, WINDOW_W)
    return logits, key, value
