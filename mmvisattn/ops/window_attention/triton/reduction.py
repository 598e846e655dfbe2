"""Last launch of the backward: sum the partial gradients that the programs before it left, in a fixed order."""

import triton
import triton.language as tl


@triton.jit
def _sum_table(
    program,
    bias_partial_ptr,  # (rows, heads, STRIDE, STRIDE) float32
    grad_table_ptr,  # ((2h-1)*(2w-1), heads) float32
    rows,
    heads,
    WINDOW_H: tl.constexpr,
    WINDOW_W: tl.constexpr,
    STRIDE: tl.constexpr,
    ENTRIES: tl.constexpr,
    STEP: tl.constexpr,
):
    """ENTRIES neighbouring entries of the table for one head: each is a diagonal of the (query, key) matrix."""
    TOKENS: tl.constexpr = WINDOW_H * WINDOW_W
    TABLE: tl.constexpr = (2 * WINDOW_H - 1) * (2 * WINDOW_W - 1)
    head = program % heads
    entry = program // heads * ENTRIES + tl.arange(0, ENTRIES)
    rows_apart = entry // (2 * WINDOW_W - 1) - (WINDOW_H - 1)
    columns_apart = entry % (2 * WINDOW_W - 1) - (WINDOW_W - 1)
    total = tl.zeros((STEP, ENTRIES), tl.float32)
    for first in range(0, rows * TOKENS, STEP):
        place = first + tl.arange(0, STEP)
        row = place // TOKENS
        query_slot = place % TOKENS
        key_y = (query_slot // WINDOW_W)[:, None] - rows_apart[None, :]
        key_x = (query_slot % WINDOW_W)[:, None] - columns_apart[None, :]
        there = (key_y >= 0) & (key_y < WINDOW_H) & (key_x >= 0) & (key_x < WINDOW_W)
        there = there & (row < rows)[:, None] & (entry < TABLE)[None, :]
        tile = (row.to(tl.int64) * heads + head) * (STRIDE * STRIDE) + query_slot * STRIDE
        total += tl.load(bias_partial_ptr + tile[:, None] + key_y * WINDOW_W + key_x, mask=there, other=0.0)
    tl.store(grad_table_ptr + entry * heads + head, tl.sum(total, 0), mask=entry < TABLE)


@triton.jit
def _sum_columns(
    program,
    partial_ptr,  # (rows, columns) float32
    grad_ptr,  # (columns,) float32
    rows,
    columns,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
):
    """Column sums of a (rows, columns) float32 matrix, COLUMNS at a time."""
    column = program * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((STEP, COLUMNS), tl.float32)
    for first in range(0, rows, STEP):
        row = first + tl.arange(0, STEP)
        there = (row < rows)[:, None] & (column < columns)[None, :]
        total += tl.load(partial_ptr + row.to(tl.int64)[:, None] * columns + column[None, :], mask=there, other=0.0)
    tl.store(grad_ptr + column, tl.sum(total, 0), mask=column < columns)


@triton.jit(do_not_specialize=["bias_rows", "multiplier_rows", "pad_rows", "heads", "channels"])
def reduce_partials(
    bias_partial_ptr,  # (bias_rows, heads, STRIDE, STRIDE) float32; unused without NEED_TABLE
    multiplier_partial_ptr,  # (multiplier_rows, heads) float32; unused without NEED_MULTIPLIER
    pad_partial_ptr,  # (pad_rows, 2, C) float32; unused without NEED_PAD
    grad_table_ptr,  # ((2h-1)*(2w-1), heads) float32
    grad_multiplier_ptr,  # (heads,) float32
    grad_pad_ptr,  # (2, C) float32
    bias_rows,
    multiplier_rows,
    pad_rows,
    heads,
    channels,  # C
    WINDOW_H: tl.constexpr,
    WINDOW_W: tl.constexpr,
    STRIDE: tl.constexpr,  # of the (query, key) matrices of the bias
    ENTRIES: tl.constexpr,  # table entries per program
    COLUMNS: tl.constexpr,  # columns per program of the plain sums
    STEP: tl.constexpr,  # rows per step
    NEED_TABLE: tl.constexpr,
    NEED_MULTIPLIER: tl.constexpr,
    NEED_PAD: tl.constexpr,
):
    """Grid: programs for the table, then for the multipliers, then for the padding, on one axis."""
    TABLE: tl.constexpr = (2 * WINDOW_H - 1) * (2 * WINDOW_W - 1)
    program = tl.program_id(0)
    table_programs = 0
    if NEED_TABLE:
        table_programs = heads * tl.cdiv(TABLE, ENTRIES)
    multiplier_programs = 0
    if NEED_MULTIPLIER:
        multiplier_programs = tl.cdiv(heads, COLUMNS)

    if program < table_programs:
        if NEED_TABLE:
            _sum_table(
                program, bias_partial_ptr, grad_table_ptr, bias_rows, heads, WINDOW_H, WINDOW_W, STRIDE, ENTRIES, STEP
            )
    elif program < table_programs + multiplier_programs:
        if NEED_MULTIPLIER:
            _sum_columns(
                program - table_programs,
                multiplier_partial_ptr,
                grad_multiplier_ptr,
                multiplier_rows,
                heads,
                COLUMNS,
                STEP,
            )
    else:
        if NEED_PAD:
            _sum_columns(
                program - table_programs - multiplier_programs,
                pad_partial_ptr,
                grad_pad_ptr,
                pad_rows,
                2 * channels,
                COLUMNS,
                STEP,
            )
