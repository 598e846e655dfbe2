"""Window attention for windows of at most 64 tokens: the whole row of logits lives in registers.

One program owns one head and every `splits`-th window. It gathers the bias tile from the table once, before its loop,
and in the backward it sums the gradient of that tile over its windows in registers: no atomics, no N x N tensor.
"""

import triton
import triton.language as tl

from mmvisattn.ops.window_attention.triton.addressing import (
    LOG2E,
    MAY_PAD,
    bias_of_pairs,
    inverse_norm,
    load_keys,
    load_tokens,
    locate_slots,
    locate_window,
    padded_window_number,
    scale_rows,
    shift_mask,
    store_sum,
    store_tokens,
    through_normalisation,
)

# Sizes change from image to image: specialising on them would recompile in multi-scale training.
SIZES = ["windows", "height", "width", "heads", "splits", "shift_y", "shift_x"]


@triton.jit(do_not_specialize=SIZES)
def whole_window_forward(
    qkv_ptr,  # (B, H, W, 3C), channels [q | k | v], each heads x HEAD_DIM
    table_ptr,  # ((2h-1)*(2w-1), heads), any float type; unused without HAS_BIAS
    multiplier_ptr,  # (heads,), any float type; unused without COSINE
    pad_kv_ptr,  # (2, C), of the type of qkv; unused without HAS_PAD
    out_ptr,  # (B, H, W, C)
    windows,  # B x windows per image
    height,
    width,
    heads,
    splits,  # programs per head
    shift_y,
    shift_x,
    scale,  # of the logits; unused with COSINE
    HEAD_DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,  # HEAD_DIM rounded up to a power of two, at least 16
    WINDOW_H: tl.constexpr,
    WINDOW_W: tl.constexpr,
    SLOTS: tl.constexpr,  # tokens per window rounded up to a power of two, at least 16
    HAS_BIAS: tl.constexpr,
    HAS_SHIFT: tl.constexpr,
    HAS_PAD: tl.constexpr,
    COSINE: tl.constexpr,
    PRECISION: tl.constexpr,  # of float32 products: "ieee" or "tf32"
):
    """Grid: heads x splits on one axis, the head fastest, so that one token's heads are read together."""
    head = tl.program_id(0) % heads
    slot = tl.arange(0, SLOTS)
    bias = bias_of_pairs(table_ptr, slot[:, None], slot[None, :], head, heads, WINDOW_H, WINDOW_W, HAS_BIAS)
    if COSINE:
        scale = tl.load(multiplier_ptr + head).to(tl.float32)
    channels = heads * HEAD_DIM

    for window in range(tl.program_id(0) // heads, windows, splits):
        image, top, left, border = locate_window(window, height, width, WINDOW_H, WINDOW_W)
        token, inside, padding = locate_slots(
            slot, image, top, left, height, width, shift_y, shift_x, WINDOW_H, WINDOW_W
        )
        query = load_tokens(qkv_ptr + head * HEAD_DIM, token, inside, 3 * channels, HEAD_DIM, PADDED_DIM)
        key = load_keys(qkv_ptr, pad_kv_ptr, 0, head, heads, token, inside, padding, HEAD_DIM, PADDED_DIM, HAS_PAD)
        value = load_keys(qkv_ptr, pad_kv_ptr, 1, head, heads, token, inside, padding, HEAD_DIM, PADDED_DIM, HAS_PAD)

        logits = tl.dot(query, tl.trans(key), input_precision=PRECISION)  # (SLOTS, SLOTS) float32
        if COSINE:
            logits = logits * (inverse_norm(query) * (scale * LOG2E))[:, None] * inverse_norm(key)[None, :] + bias
        else:
            logits = logits * (scale * LOG2E) + bias
        if HAS_SHIFT:
            logits = shift_mask(logits, slot, slot, border, top, left, shift_y, shift_x, WINDOW_H, WINDOW_W)

        weights = tl.exp2(logits - tl.max(logits, 1)[:, None])
        out = tl.dot(weights.to(value.dtype), value, input_precision=PRECISION) * (1.0 / tl.sum(weights, 1))[:, None]
        store_tokens(out_ptr + head * HEAD_DIM, out, token, inside, channels, HEAD_DIM, PADDED_DIM)


@triton.jit(do_not_specialize=SIZES)
def whole_window_backward(
    qkv_ptr,  # (B, H, W, 3C)
    table_ptr,  # ((2h-1)*(2w-1), heads), any float type; unused without HAS_BIAS
    multiplier_ptr,  # (heads,), any float type; unused without COSINE
    pad_kv_ptr,  # (2, C), of the type of qkv; unused without HAS_PAD
    grad_out_ptr,  # (B, H, W, C)
    grad_qkv_ptr,  # (B, H, W, 3C); unused without NEED_QKV
    bias_partial_ptr,  # (splits, heads, SLOTS, SLOTS) float32; unused without NEED_TABLE
    multiplier_partial_ptr,  # (splits, heads) float32; unused without NEED_MULTIPLIER
    pad_partial_ptr,  # (windows that may hold padding, 2, C) float32; unused without NEED_PAD
    windows,
    height,
    width,
    heads,
    splits,
    shift_y,
    shift_x,
    scale,
    HEAD_DIM: tl.constexpr,
    PADDED_DIM: tl.constexpr,
    WINDOW_H: tl.constexpr,
    WINDOW_W: tl.constexpr,
    SLOTS: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    HAS_SHIFT: tl.constexpr,
    HAS_PAD: tl.constexpr,
    COSINE: tl.constexpr,
    PRECISION: tl.constexpr,
    NEED_QKV: tl.constexpr,
    NEED_TABLE: tl.constexpr,
    NEED_MULTIPLIER: tl.constexpr,
    NEED_PAD: tl.constexpr,
):
    """Grid as in the forward. The softmax is recomputed, so that nothing but qkv is kept for the backward.

    Rows of dead slots and of padding need no care: their gradient of the output is loaded as zero.
    """
    head = tl.program_id(0) % heads
    split = tl.program_id(0) // heads
    slot = tl.arange(0, SLOTS)
    bias = bias_of_pairs(table_ptr, slot[:, None], slot[None, :], head, heads, WINDOW_H, WINDOW_W, HAS_BIAS)
    if COSINE:
        scale = tl.load(multiplier_ptr + head).to(tl.float32)
    channels = heads * HEAD_DIM
    query_ptr = qkv_ptr + head * HEAD_DIM
    grad_bias = tl.zeros((SLOTS, SLOTS), tl.float32)
    grad_multiplier = tl.zeros((SLOTS,), tl.float32)

    for window in range(split, windows, splits):
        image, top, left, border = locate_window(window, height, width, WINDOW_H, WINDOW_W)
        token, inside, padding = locate_slots(
            slot, image, top, left, height, width, shift_y, shift_x, WINDOW_H, WINDOW_W
        )
        query = load_tokens(query_ptr, token, inside, 3 * channels, HEAD_DIM, PADDED_DIM)
        key = load_keys(qkv_ptr, pad_kv_ptr, 0, head, heads, token, inside, padding, HEAD_DIM, PADDED_DIM, HAS_PAD)
        logits = tl.dot(query, tl.trans(key), input_precision=PRECISION)
        if COSINE:
            inverse_query = inverse_norm(query)
            inverse_key = inverse_norm(key)
            logits = logits * (inverse_query * (scale * LOG2E))[:, None] * inverse_key[None, :] + bias
            # From here on only the directions are needed.
            query = scale_rows(query, inverse_query)
            key = scale_rows(key, inverse_key)
        else:
            logits = logits * (scale * LOG2E) + bias
        if HAS_SHIFT:
            logits = shift_mask(logits, slot, slot, border, top, left, shift_y, shift_x, WINDOW_H, WINDOW_W)
        weights = tl.exp2(logits - tl.max(logits, 1)[:, None])
        weights *= (1.0 / tl.sum(weights, 1))[:, None]

        grad_out = load_tokens(grad_out_ptr + head * HEAD_DIM, token, inside, channels, HEAD_DIM, PADDED_DIM)
        value = load_keys(qkv_ptr, pad_kv_ptr, 1, head, heads, token, inside, padding, HEAD_DIM, PADDED_DIM, HAS_PAD)
        if NEED_QKV or NEED_PAD:
            grad_value = tl.dot(tl.trans(weights.to(grad_out.dtype)), grad_out, input_precision=PRECISION)
            if NEED_QKV:
                value_grad_ptr = grad_qkv_ptr + 2 * channels + head * HEAD_DIM
                store_tokens(value_grad_ptr, grad_value, token, inside, 3 * channels, HEAD_DIM, PADDED_DIM)
            if NEED_PAD and border & MAY_PAD:
                number = padded_window_number(image, top, left, height, width, WINDOW_H, WINDOW_W)
                pad_row_ptr = pad_partial_ptr + number * (2 * channels) + head * HEAD_DIM
                store_sum(pad_row_ptr + channels, grad_value, padding, HEAD_DIM, PADDED_DIM)
        grad_weights = tl.dot(grad_out, tl.trans(value), input_precision=PRECISION)
        grad_logits = weights * (grad_weights - tl.sum(weights * grad_weights, 1)[:, None])
        if NEED_TABLE:
            grad_bias += grad_logits

        narrow = grad_logits.to(query.dtype)
        if NEED_QKV or NEED_MULTIPLIER:
            grad_query = tl.dot(narrow, key, input_precision=PRECISION)
            if COSINE:
                grad_query, along = through_normalisation(grad_query, query, inverse_query)
                grad_multiplier += along
            if NEED_QKV:
                query_grad_ptr = grad_qkv_ptr + head * HEAD_DIM
                store_tokens(query_grad_ptr, grad_query * scale, token, inside, 3 * channels, HEAD_DIM, PADDED_DIM)
        if NEED_QKV or NEED_PAD:
            grad_key = tl.dot(tl.trans(narrow), query, input_precision=PRECISION)
            if COSINE:
                grad_key, unused_along = through_normalisation(grad_key, key, inverse_key)
            grad_key *= scale
            if NEED_QKV:
                key_grad_ptr = grad_qkv_ptr + channels + head * HEAD_DIM
                store_tokens(key_grad_ptr, grad_key, token, inside, 3 * channels, HEAD_DIM, PADDED_DIM)
            if NEED_PAD and border & MAY_PAD:
                number = padded_window_number(image, top, left, height, width, WINDOW_H, WINDOW_W)
                pad_row_ptr = pad_partial_ptr + number * (2 * channels) + head * HEAD_DIM
                store_sum(pad_row_ptr, grad_key, padding, HEAD_DIM, PADDED_DIM)

    if NEED_TABLE:
        pair = slot[:, None] * SLOTS + slot[None, :]
        tl.store(bias_partial_ptr + tl.program_id(0).to(tl.int64) * (SLOTS * SLOTS) + pair, grad_bias)
    if NEED_MULTIPLIER:
        tl.store(multiplier_partial_ptr + tl.program_id(0), tl.sum(grad_multiplier, 0))
