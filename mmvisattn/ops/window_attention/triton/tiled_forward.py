"""Window attention for windows of more than 64 tokens, forward: one block of queries against blocks of keys.

The softmax is built up block by block (Milakov and Gimelshein, arXiv:1805.02867; Dao et al., arXiv:2205.14135).
"""

import triton
import triton.language as tl

from mmvisattn.ops.window_attention.triton.addressing import locate_slots, locate_window, store_tokens
from mmvisattn.ops.window_attention.triton.blocks import attend_block, load_queries


@triton.jit(do_not_specialize=["windows", "height", "width", "heads", "shift_y", "shift_x"])
def tiled_forward(
    qkv_ptr,  # (B, H, W, 3C), channels [q | k | v], each heads x HEAD_DIM
    table_ptr,  # ((2h-1)*(2w-1), heads), any float type; unused without HAS_BIAS
    multiplier_ptr,  # (heads,), any float type; unused without COSINE
    pad_kv_ptr,  # (2, C), of the type of qkv; unused without HAS_PAD
    out_ptr,  # (B, H, W, C)
    windows,  # B x windows per image
    height,
    width,
    heads,
    shift_y,
    shift_x,
    scale,  # of the logits; unused with COSINE
    HEAD_DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,  # HEAD_DIM rounded up to a power of two, at least 16
    WINDOW_H: tl.constexpr,
    WINDOW_W: tl.constexpr,
    BLOCK_Q: tl.constexpr,  # queries per program
    BLOCK_K: tl.constexpr,  # keys per step
    HAS_BIAS: tl.constexpr,
    HAS_SHIFT: tl.constexpr,
    HAS_PAD: tl.constexpr,
    COSINE: tl.constexpr,
    PRECISION: tl.constexpr,  # of float32 products: "ieee" or "tf32"
):
    """Grid: windows x heads x query blocks on one axis, the block fastest, so that a window's keys stay in cache."""
    TOKENS: tl.constexpr = WINDOW_H * WINDOW_W
    BLOCKS: tl.constexpr = (TOKENS + BLOCK_Q - 1) // BLOCK_Q
    query_slot = tl.program_id(0) % BLOCKS * BLOCK_Q + tl.arange(0, BLOCK_Q)
    head = tl.program_id(0) // BLOCKS % heads
    window = tl.program_id(0) // BLOCKS // heads

    image, top, left, border = locate_window(window, height, width, WINDOW_H, WINDOW_W)
    token, inside, unused_padding = locate_slots(
        query_slot, image, top, left, height, width, shift_y, shift_x, WINDOW_H, WINDOW_W
    )
    query, row_scale, unused_inverse = load_queries(
        qkv_ptr, multiplier_ptr, token, inside, head, heads, scale, HEAD_DIM, PADDED_DIM, COSINE
    )
    largest = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_Q,), tl.float32)
    out = tl.zeros((BLOCK_Q, PADDED_DIM), tl.float32)
    for first_key in range(0, TOKENS, BLOCK_K):
        key_slot = first_key + tl.arange(0, BLOCK_K)
        logits, unused_key, value = attend_block(
            query, row_scale, query_slot, key_slot, qkv_ptr, table_ptr, pad_kv_ptr, head, heads,
            image, top, left, border, height, width, shift_y, shift_x,
            HEAD_DIM, PADDED_DIM, WINDOW_H, WINDOW_W, HAS_BIAS, HAS_SHIFT, HAS_PAD, COSINE, PRECISION,
        )  # fmt: skip
        new_largest = tl.maximum(largest, tl.max(logits, 1))
        weights = tl.exp2(logits - new_largest[:, None])
        shrink = tl.exp2(largest - new_largest)
        total = total * shrink + tl.sum(weights, 1)
        out = tl.dot(weights.to(value.dtype), value, acc=out * shrink[:, None], input_precision=PRECISION)
        largest = new_largest

    out *= (1.0 / total)[:, None]
    store_tokens(out_ptr + head * HEAD_DIM, out, token, inside, heads * HEAD_DIM, HEAD_DIM, PADDED_DIM)
