"""Window attention for windows of more than 64 tokens, backward, second launch: keys, values and bias.

The first programs give the gradients of keys and values, the others the gradient of the bias: one tile of it each,
summed over many windows in registers. Both need only what the first launch left. There are no atomics: every number is
written once, by one program.
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
from mmvisattn.ops.window_attention.triton.blocks import attend_block, load_queries


@triton.jit
def _sum_keys_and_values(
    program,  # number among these programs: windows x heads x key blocks, the block fastest
    qkv_ptr, table_ptr, multiplier_ptr, pad_kv_ptr, grad_out_ptr, grad_qkv_ptr, statistics_ptr, pad_partial_ptr,
    height, width, heads, shift_y, shift_x, scale,
    HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr, WINDOW_H: tl.constexpr, WINDOW_W: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_SHIFT: tl.constexpr, HAS_PAD: tl.constexpr, COSINE: tl.constexpr,
    PRECISION: tl.constexpr, NEED_QKV: tl.constexpr, NEED_PAD: tl.constexpr,
):  # fmt: skip
    """Gradients of one block of keys and values. Tiles of logits are transposed here: (keys, queries).

    The pointers are those of `tiled_backward_keys_and_bias`, which has their shapes.
    """
    TOKENS: tl.constexpr = WINDOW_H * WINDOW_W
    BLOCKS: tl.constexpr = (TOKENS + BLOCK_K - 1) // BLOCK_K
    block = program % BLOCKS
    key_slot = block * BLOCK_K + tl.arange(0, BLOCK_K)
    head = program // BLOCKS % heads
    window = program // BLOCKS // heads
    channels = heads * HEAD_DIM
    if COSINE:
        scale = tl.load(multiplier_ptr + head).to(tl.float32)

    image, top, left, border = locate_window(window, height, width, WINDOW_H, WINDOW_W)
    token, inside, padding = locate_slots(
        key_slot, image, top, left, height, width, shift_y, shift_x, WINDOW_H, WINDOW_W
    )
    key = load_keys(qkv_ptr, pad_kv_ptr, 0, head, heads, token, inside, padding, HEAD_DIM, PADDED_DIM, HAS_PAD)
    value = load_keys(qkv_ptr, pad_kv_ptr, 1, head, heads, token, inside, padding, HEAD_DIM, PADDED_DIM, HAS_PAD)
    row_scale = tl.full((BLOCK_K,), LOG2E, tl.float32) * scale
    if COSINE:
        inverse_key = inverse_norm(key)
        row_scale *= inverse_key
    statistics_row_ptr = statistics_ptr + (window.to(tl.int64) * heads + head) * (2 * TOKENS)
    grad_key = tl.zeros((BLOCK_K, PADDED_DIM), tl.float32)
    grad_value = tl.zeros((BLOCK_K, PADDED_DIM), tl.float32)

    for first_query in range(0, TOKENS, BLOCK_Q):
        query_slot = first_query + tl.arange(0, BLOCK_Q)
        query_token, query_inside, unused_padding = locate_slots(
            query_slot, image, top, left, height, width, shift_y, shift_x, WINDOW_H, WINDOW_W
        )
        query = load_tokens(qkv_ptr + head * HEAD_DIM, query_token, query_inside, 3 * channels, HEAD_DIM, PADDED_DIM)
        grad_out = load_tokens(
            grad_out_ptr + head * HEAD_DIM, query_token, query_inside, channels, HEAD_DIM, PADDED_DIM
        )
        # Queries outside the image weigh nothing: their gradient of the output is zero.
        log_sum = tl.load(statistics_row_ptr + query_slot, mask=query_inside, other=float("inf"))
        mean_grad = tl.load(statistics_row_ptr + TOKENS + query_slot, mask=query_inside, other=0.0)

        logits = tl.dot(key, tl.trans(query), input_precision=PRECISION) * row_scale[:, None]
        if COSINE:
            inverse_query = inverse_norm(query)
            logits *= inverse_query[None, :]
            query = scale_rows(query, inverse_query)
        logits += bias_of_pairs(
            table_ptr, query_slot[None, :], key_slot[:, None], head, heads, WINDOW_H, WINDOW_W, HAS_BIAS
        )
        if HAS_SHIFT:
            logits = shift_mask(logits, key_slot, query_slot, border, top, left, shift_y, shift_x, WINDOW_H, WINDOW_W)
        weights = tl.exp2(logits - log_sum[None, :])
        grad_value = tl.dot(weights.to(grad_out.dtype), grad_out, acc=grad_value, input_precision=PRECISION)
        grad_weights = tl.dot(value, tl.trans(grad_out), input_precision=PRECISION)
        grad_logits = weights * (grad_weights - mean_grad[None, :])
        grad_key = tl.dot(grad_logits.to(query.dtype), query, acc=grad_key, input_precision=PRECISION)

    if COSINE:
        grad_key, unused_along = through_normalisation(grad_key, scale_rows(key, inverse_key), inverse_key)
    grad_key *= scale
    if NEED_QKV:
        key_grad_ptr = grad_qkv_ptr + channels + head * HEAD_DIM
        store_tokens(key_grad_ptr, grad_key, token, inside, 3 * channels, HEAD_DIM, PADDED_DIM)
        store_tokens(key_grad_ptr + channels, grad_value, token, inside, 3 * channels, HEAD_DIM, PADDED_DIM)
    if NEED_PAD and border & MAY_PAD:
        number = padded_window_number(image, top, left, height, width, WINDOW_H, WINDOW_W) * BLOCKS + block
        pad_row_ptr = pad_partial_ptr + number * (2 * channels) + head * HEAD_DIM
        store_sum(pad_row_ptr, grad_key, padding, HEAD_DIM, PADDED_DIM)
        store_sum(pad_row_ptr + channels, grad_value, padding, HEAD_DIM, PADDED_DIM)


@triton.jit
def _sum_bias(
    program,  # number among these programs: split x heads x query blocks x key blocks, the key block fastest
    qkv_ptr, table_ptr, multiplier_ptr, pad_kv_ptr, grad_out_ptr, statistics_ptr, bias_partial_ptr,
    windows, height, width, heads, splits, shift_y, shift_x, scale,
    HEAD_DIM: tl.constexpr, PADDED_DIM: tl.constexpr, WINDOW_H: tl.constexpr, WINDOW_W: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr,
    HAS_BIAS: tl.constexpr, HAS_SHIFT: tl.constexpr, HAS_PAD: tl.constexpr, COSINE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Gradient of one tile of the bias, (BLOCK_Q, BLOCK_K), summed over every splits-th window.

    The pointers are those of `tiled_backward_keys_and_bias`, which has their shapes.
    """
    TOKENS: tl.constexpr = WINDOW_H * WINDOW_W
    Q_BLOCKS: tl.constexpr = (TOKENS + BLOCK_Q - 1) // BLOCK_Q
    K_BLOCKS: tl.constexpr = (TOKENS + BLOCK_K - 1) // BLOCK_K
    key_slot = program % K_BLOCKS * BLOCK_K + tl.arange(0, BLOCK_K)
    query_slot = program // K_BLOCKS % Q_BLOCKS * BLOCK_Q + tl.arange(0, BLOCK_Q)
    head = program // (K_BLOCKS * Q_BLOCKS) % heads
    split = program // (K_BLOCKS * Q_BLOCKS) // heads
    grad_bias = tl.zeros((BLOCK_Q, BLOCK_K), tl.float32)

    for window in range(split, windows, splits):
        image, top, left, border = locate_window(window, height, width, WINDOW_H, WINDOW_W)
        token, inside, unused_padding = locate_slots(
            query_slot, image, top, left, height, width, shift_y, shift_x, WINDOW_H, WINDOW_W
        )
        grad_out = load_tokens(grad_out_ptr + head * HEAD_DIM, token, inside, heads * HEAD_DIM, HEAD_DIM, PADDED_DIM)
        query, row_scale, unused_inverse = load_queries(
            qkv_ptr, multiplier_ptr, token, inside, head, heads, scale, HEAD_DIM, PADDED_DIM, COSINE
        )
        logits, unused_key, value = attend_block(
            query, row_scale, query_slot, key_slot, qkv_ptr, table_ptr, pad_kv_ptr, head, heads,
            image, top, left, border, height, width, shift_y, shift_x,
            HEAD_DIM, PADDED_DIM, WINDOW_H, WINDOW_W, HAS_BIAS, HAS_SHIFT, HAS_PAD, COSINE, PRECISION,
        )  # fmt: skip
        row_ptr = statistics_ptr + (window * heads.to(tl.int64) + head) * (2 * TOKENS) + query_slot
        log_sum = tl.load(row_ptr, mask=inside, other=float("inf"))
        mean_grad = tl.load(row_ptr + TOKENS, mask=inside, other=0.0)
        weights = tl.exp2(logits - log_sum[:, None])
        grad_weights = tl.dot(grad_out, tl.trans(value), input_precision=PRECISION)
        grad_bias += weights * (grad_weights - mean_grad[:, None])

    pair = query_slot[:, None] * TOKENS + key_slot[None, :]
    tile_ptr = bias_partial_ptr + (split * heads + head).to(tl.int64) * (TOKENS * TOKENS)
    tl.store(tile_ptr + pair, grad_bias, mask=(query_slot < TOKENS)[:, None] & (key_slot < TOKENS)[None, :])


@triton.jit(do_not_specialize=["windows", "height", "width", "heads", "bias_splits", "shift_y", "shift_x"])
def tiled_backward_keys_and_bias(
    qkv_ptr,  # (B, H, W, 3C)
    table_ptr,  # ((2h-1)*(2w-1), heads), any float type; unused without HAS_BIAS
    multiplier_ptr,  # (heads,), any float type; unused without COSINE
    pad_kv_ptr,  # (2, C), of the type of qkv; unused without HAS_PAD
    grad_out_ptr,  # (B, H, W, C)
    grad_qkv_ptr,  # (B, H, W, 3C), the key and value thirds are written; unused without NEED_QKV
    statistics_ptr,  # (windows, heads, 2, TOKENS) float32, from `tiled_backward_queries`
    bias_partial_ptr,  # (bias_splits, heads, TOKENS, TOKENS) float32; unused without NEED_TABLE
    pad_partial_ptr,  # (windows that may hold padding, key blocks, 2, C) float32; unused without NEED_PAD
    windows,
    height,
    width,
    heads,
    bias_splits,  # programs per head and bias tile; 0 if the table needs no gradient
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
    NEED_TABLE: tl.constexpr,
    NEED_PAD: tl.constexpr,
):
    """Grid: windows x heads x key blocks, then bias_splits x heads x query blocks x key blocks, on one axis.

    The first kind is left out if only the table needs a gradient, the second if it needs none.
    """
    TOKENS: tl.constexpr = WINDOW_H * WINDOW_W
    key_programs = 0
    if NEED_QKV or NEED_PAD:
        key_programs = windows * heads * tl.cdiv(TOKENS, BLOCK_K)
    program = tl.program_id(0)
    if program < key_programs:
        if NEED_QKV or NEED_PAD:
            _sum_keys_and_values(
                program, qkv_ptr, table_ptr, multiplier_ptr, pad_kv_ptr, grad_out_ptr, grad_qkv_ptr, statistics_ptr,
                pad_partial_ptr, height, width, heads, shift_y, shift_x, scale,
                HEAD_DIM, PADDED_DIM, WINDOW_H, WINDOW_W, BLOCK_Q, BLOCK_K,
                HAS_BIAS, HAS_SHIFT, HAS_PAD, COSINE, PRECISION, NEED_QKV, NEED_PAD,
            )  # fmt: skip
    else:
        if NEED_TABLE:
            _sum_bias(
                program - key_programs, qkv_ptr, table_ptr, multiplier_ptr, pad_kv_ptr, grad_out_ptr, statistics_ptr,
                bias_partial_ptr, windows, height, width, heads, bias_splits, shift_y, shift_x, scale,
                HEAD_DIM, PADDED_DIM, WINDOW_H, WINDOW_W, BLOCK_Q, BLOCK_K,
                HAS_BIAS, HAS_SHIFT, HAS_PAD, COSINE, PRECISION,
            )  # fmt: skip
