"""Window attention for windows of more than 64 tokens, backward, first launch: statistics and queries."""

import triton
import triton.language as tl

from mmvisattn.ops.window_attention.triton.addressing import (
    load_tokens,
    locate_slots,
    locate_window,
    scale_rows,
    store_tokens,
    through_normalisation,
)
from mmvisattn.ops.window_attention.triton.blocks import attend_block, load_queries


@triton.jit(do_not_specialize=["windows", "height", "width", "heads", "shift_y", "shift_x"])
def tiled_backward_queries(
    qkv_ptr,  # (B, H, W, 3C)
    table_ptr,  # ((2h-1)*(2w-1), heads), any float type; unused without HAS_BIAS
    multiplier_ptr,  # (heads,), any float type; unused without COSINE
    pad_kv_ptr,  # (2, C), of the type of qkv; unused without HAS_PAD
    grad_out_ptr,  # (B, H, W, C)
    grad_qkv_ptr,  # (B, H, W, 3C), the query third is written; unused without NEED_QKV
    statistics_ptr,  # (windows, heads, 2, TOKENS) float32: log2 of the softmax sum; mean gradient of the weights
    multiplier_partial_ptr,  # (windows, query blocks, heads) float32; unused without NEED_MULTIPLIER
    windows,
    height,
    width,
    heads,
    shift_y,
    shift_x,
    scale,
    HEAD_DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,
    WINDOW_H: tl.constexpr,
    WINDOW_W: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_SHIFT: tl.constexpr,
    HAS_PAD: tl.constexpr,
    COSINE: tl.constexpr,
    PRECISION: tl.constexpr,
    NEED_QKV: tl.constexpr,
    NEED_MULTIPLIER: tl.constexpr,
):
    """Grid: windows x heads x query blocks on one axis, the block fastest.

    Two passes over the keys. The first builds up the statistics as the forward does; the second, which knows them,
    sums the gradient without the cancellation that a single pass would need.
    """
    TOKENS: tl.constexpr = WINDOW_H * WINDOW_W
    BLOCKS: tl.constexpr = (TOKENS + BLOCK_Q - 1) // BLOCK_Q
    block = tl.program_id(0) % BLOCKS
    query_slot = block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    head = tl.program_id(0) // BLOCKS % heads
    window = tl.program_id(0) // BLOCKS // heads
    channels = heads * HEAD_DIM

    image, top, left, border = locate_window(window, height, width, WINDOW_H, WINDOW_W)
    token, inside, unused_padding = locate_slots(
        query_slot, image, top, left, height, width, shift_y, shift_x, WINDOW_H, WINDOW_W
    )
    grad_out = load_tokens(grad_out_ptr + head * HEAD_DIM, token, inside, channels, HEAD_DIM, PADDED_DIM)
    query, row_scale, inverse = load_queries(
        qkv_ptr, multiplier_ptr, token, inside, head, heads, scale, HEAD_DIM, PADDED_DIM, COSINE
    )

    largest = tl.full((BLOCK_Q,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_Q,), tl.float32)
    weighted = tl.zeros((BLOCK_Q,), tl.float32)  # sum of (not yet divided) weights times their gradient
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
        grad_weights = tl.dot(grad_out, tl.trans(value), input_precision=PRECISION)
        total = total * shrink + tl.sum(weights, 1)
        weighted = weighted * shrink + tl.sum(weights * grad_weights, 1)
        largest = new_largest
    log_sum = largest + tl.log2(total)
    mean_grad = weighted / total
    row_ptr = statistics_ptr + (window.to(tl.int64) * heads + head) * (2 * TOKENS) + query_slot
    tl.store(row_ptr, log_sum, mask=query_slot < TOKENS)
    tl.store(row_ptr + TOKENS, mean_grad, mask=query_slot < TOKENS)

    if NEED_QKV or NEED_MULTIPLIER:
        grad_query = tl.zeros((BLOCK_Q, PADDED_DIM), tl.float32)
        for first_key in range(0, TOKENS, BLOCK_K):
            key_slot = first_key + tl.arange(0, BLOCK_K)
            logits, key, value = attend_block(
                query, row_scale, query_slot, key_slot, qkv_ptr, table_ptr, pad_kv_ptr, head, heads,
                image, top, left, border, height, width, shift_y, shift_x,
                HEAD_DIM, PADDED_DIM, WINDOW_H, WINDOW_W, HAS_BIAS, HAS_SHIFT, HAS_PAD, COSINE, PRECISION,
            )  # fmt: skip
            weights = tl.exp2(logits - log_sum[:, None])
            grad_weights = tl.dot(grad_out, tl.trans(value), input_precision=PRECISION)
            grad_logits = weights * (grad_weights - mean_grad[:, None])
            grad_query = tl.dot(grad_logits.to(key.dtype), key, acc=grad_query, input_precision=PRECISION)
        if COSINE:
            grad_query, along = through_normalisation(grad_query, scale_rows(query, inverse), inverse)
            if NEED_MULTIPLIER:
                row = window.to(tl.int64) * BLOCKS + block
                tl.store(multiplier_partial_ptr + row * heads + head, tl.sum(along, 0))
        if NEED_QKV:
            if COSINE:
                grad_query *= tl.load(multiplier_ptr + head).to(tl.float32)
            else:
                grad_query *= scale
            query_grad_ptr = grad_qkv_ptr + head * HEAD_DIM
            store_tokens(query_grad_ptr, grad_query, token, inside, 3 * channels, HEAD_DIM, PADDED_DIM)
