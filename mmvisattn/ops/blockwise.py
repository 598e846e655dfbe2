"""Windowed attention on CPU, a block of windows at a time.

The logits of a block fit the cache, so neither logits nor weights nor partitioned copies of the map reach memory: each
token is read once and written once. Backward keeps nothing but the inputs and computes the weights of a block again.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from mmvisattn.ops.precision import no_autocast, wide_dtype
from mmvisattn.ops.windows import WindowGrid, pad_row, shift_masks, slot_rows, window_tables

LOGITS_OF_ONE_THREAD = 2**18
"""Logits of one block: 1 MiB in float32, about a core's own cache."""

LOGITS_OF_THREADS = 2**21
"""Logits of one block where several threads share it, 8 MiB in float32, which their common cache holds. Threads wait
for one another at the end of each operation; on a busy machine many small blocks would be mostly waiting."""

Prepare = Callable[..., tuple[Tensor, ...]]
"""prepare(query, key, heads, *shared): the terms of the logits, from query and key of a slice of heads, both
(n, heads, N, D) in the wide dtype. Two terms, (n, heads, N, D) each, are multiplied over the last axis. Two more, if
any, are what a query adds for each row of keys, (n, heads, N, h), and for each column, (n, heads, N, w)."""


def attend_blockwise(
    qkv: Tensor,
    bias: Tensor | None,
    pad_kv: Tensor | None,
    *,
    num_heads: int,
    grid: WindowGrid,
    scale: float,
    prepare: Prepare | None = None,
    shared: Sequence[Tensor] = (),
) -> Tensor:
    """Attend inside the windows of a map.

    Args:
        qkv: (B, H, W, 3*C).
        bias: (num_heads, N, N) in the wide dtype, added to the logits; None for none.
        pad_kv: (2, C), key and value of padded slots; None for zeros.
        num_heads: number of heads.
        grid: the geometry.
        scale: factor of the logits where `prepare` is None.
        prepare: makes the terms of the logits where query and key are not merely scaled; differentiated by autograd.
        shared: tensors that `prepare` takes besides query and key; their gradients are summed over the blocks.

    Returns:
        (B, H, W, C).
    """
    call = num_heads, grid, scale, prepare
    output: Tensor = _Blockwise.apply(call, qkv.contiguous(), bias, pad_row(pad_kv), *shared)
    return output


class _Blocks:
    """Reads and writes blocks of windows, (n, N, channels), of maps of one size.

    `heads` are the groups of heads and `queries` the runs of queries that are attended at once.
    """

    def __init__(self, tokens: Tensor, num_heads: int, grid: WindowGrid) -> None:
        batch, height, width, _ = tokens.shape
        self.map_rows = batch * height * width
        self.rows = slot_rows(window_tables(grid, tokens), batch, height * width).flatten(0, 1)
        self.runs = [(kind, start * batch, stop * batch) for kind, start, stop in grid.runs]
        self.masks = [None, *shift_masks(grid, wide_dtype(tokens.dtype), tokens.device)[1:]]
        logits = LOGITS_OF_ONE_THREAD if torch.get_num_threads() == 1 else LOGITS_OF_THREADS
        pairs = max(1, logits // grid.tokens**2)  # of a window and a head
        step = min(num_heads, pairs)
        self.windows = max(1, pairs // step)
        self.heads = _slices(num_heads, step)
        self.queries = _slices(grid.tokens, max(1, logits // grid.tokens))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor | None, Tensor | None]]:
        """Yield the row (n, N) of each slot of a block, where padded slots are, if anywhere, and the shift mask."""
        for kind, start, stop in self.runs if self.map_rows > 0 else ():
            for rows in torch.split(self.rows[start:stop], self.windows):
                padded = rows == self.map_rows
                yield rows, padded if padded.any() else None, self.masks[kind]

    def read(self, tokens: Tensor, rows: Tensor, padded: Tensor | None, padding: Tensor | None) -> Tensor:
        """Gather (n, N, channels) from (B, H, W, channels); padded slots get `padding` or zeros."""
        index = rows.flatten() if padded is None else rows.flatten().clamp(max=self.map_rows - 1)
        block = tokens.view(self.map_rows, -1).index_select(0, index).view(*rows.shape, -1)
        if padded is not None:
            block[padded] = 0 if padding is None else padding.to(block.dtype)
        return block

    def write(self, tokens: Tensor, rows: Tensor, padded: Tensor | None, block: Tensor) -> None:
        """Scatter (n, N, channels) to (B, H, W, channels); padded slots are dropped."""
        if padded is not None:
            rows, block = rows[~padded], block[~padded]
        flat = tokens.view(self.map_rows, -1)
        flat.index_copy_(0, rows.flatten(), block.view(-1, flat.shape[1]))


class _Blockwise(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, call: Any, qkv: Tensor, bias: Tensor | None, padding: Tensor | None, *shared: Tensor
    ) -> Tensor:
        ctx.save_for_backward(qkv, bias, padding, *shared)
        ctx.call = call
        num_heads, grid, scale, prepare = call
        blocks = _Blocks(qkv, num_heads, grid)
        output = qkv.new_empty(*qkv.shape[:3], qkv.shape[3] // 3)
        for rows, padded, mask in blocks:
            block = blocks.read(qkv, rows, padded, padding).view(*rows.shape, 3, num_heads, -1)
            attended = torch.empty_like(block[:, :, 0])
            for heads in blocks.heads:
                query, key, value = _split(block[:, :, :, heads])
                terms = (query * scale, key) if prepare is None else prepare(query, key, heads, *shared)
                added = _added(bias, mask, heads)
                for queries in blocks.queries:
                    weights = _weights(terms, added, queries)
                    attended[:, queries, heads] = (weights @ value).transpose(1, 2)
            blocks.write(output, rows, padded, attended)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError("impl 'sdpa' on CPU differentiates once; impl 'reference' differentiates twice and more")
        with no_autocast(grad):
            return _backward(ctx, grad.contiguous())


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Return the gradients of all arguments of `_Blockwise`."""
    num_heads, grid, scale, prepare = ctx.call
    qkv, bias, padding, *shared = ctx.saved_tensors
    needs_bias, needs_padding, *needs_shared = ctx.needs_input_grad[2:]
    shared = [tensor.detach().requires_grad_(needed) for tensor, needed in zip(shared, needs_shared, strict=True)]
    wanted = [tensor for tensor in shared if tensor.requires_grad]
    sums = [torch.zeros_like(tensor) for tensor in wanted]
    grad_qkv = torch.empty_like(qkv)
    grad_bias = torch.zeros_like(bias) if needs_bias else None
    grad_padding = torch.zeros(qkv.shape[3], dtype=wide_dtype(qkv.dtype)) if needs_padding else None
    blocks = _Blocks(qkv, num_heads, grid)
    for rows, padded, mask in blocks:
        block = blocks.read(qkv, rows, padded, padding).view(*rows.shape, 3, num_heads, -1)
        grad_output = blocks.read(grad, rows, padded, None).view(*rows.shape, 1, num_heads, -1)
        grad_block = torch.empty_like(block)
        for heads in blocks.heads:
            query, key, value = _split(block[:, :, :, heads])
            (grad_heads,) = _split(grad_output[:, :, :, heads])
            terms = query * scale, key
            if prepare is not None:
                with torch.enable_grad():
                    terms = prepare(query.requires_grad_(), key.requires_grad_(), heads, *shared)
            grad_value, *grad_terms = _gradients(
                tuple(term.detach() for term in terms),
                value,
                _added(bias, mask, heads),
                grad_heads,
                None if grad_bias is None else grad_bias[heads],
                blocks.queries,
            )
            if prepare is None:
                grad_query, grad_key = grad_terms[0] * scale, grad_terms[1]
            else:
                grad_query, grad_key, *grads = torch.autograd.grad(terms, [query, key, *wanted], grad_terms)
                for total, gradient in zip(sums, grads, strict=True):
                    total += gradient
            for part, gradient in enumerate((grad_query, grad_key, grad_value)):
                grad_block[:, :, part, heads] = gradient.transpose(1, 2)
        blocks.write(grad_qkv, rows, padded, grad_block)
        if grad_padding is not None and padded is not None:
            grad_padding += grad_block[padded].flatten(1).sum(0, dtype=grad_padding.dtype)
    remaining = iter(sums)
    return None, grad_qkv, grad_bias, grad_padding, *(next(remaining) if needed else None for needed in needs_shared)


def _slices(length: int, step: int) -> list[slice]:
    return [slice(first, first + step) for first in range(0, length, step)]


def _split(block: Tensor) -> tuple[Tensor, ...]:
    """Bring (n, N, parts, heads, D) to one contiguous (n, heads, N, D) for each part, in the wide dtype."""
    wide = block.permute(2, 0, 3, 1, 4).to(wide_dtype(block.dtype)).contiguous()
    return tuple(wide[part] for part in range(wide.shape[0]))


def _added(bias: Tensor | None, mask: Tensor | None, heads: slice) -> Tensor | None:
    """Return what is added to the logits, broadcastable to (heads, N, N)."""
    if bias is None:
        return mask
    return bias[heads] if mask is None else bias[heads] + mask


def _weights(terms: tuple[Tensor, ...], added: Tensor | None, queries: slice) -> Tensor:
    """Return (n, heads, queries, N), the weights of a run of queries."""
    left, right, *offsets = terms
    left = left[:, :, queries]
    if offsets:
        by_row, by_column = (offset[:, :, queries] for offset in offsets)
        logits = (by_row[..., :, None] + by_column[..., None, :]).flatten(-2)
        logits.view(-1, *logits.shape[2:]).baddbmm_(left.flatten(0, 1), right.flatten(0, 1).mT)
    else:
        logits = left @ right.mT
    if added is not None:
        logits += added[..., queries, :]
    return logits.softmax(-1)


def _gradients(
    terms: tuple[Tensor, ...],
    value: Tensor,
    added: Tensor | None,
    grad: Tensor,
    grad_bias: Tensor | None,
    runs: list[slice],
) -> tuple[Tensor, ...]:
    """Return the gradients of the value and of the terms, and add that of the bias to `grad_bias`."""
    left, right, *offsets = terms
    by_query: list[tuple[Tensor, ...]] = []
    grad_value, grad_right = torch.zeros_like(value), torch.zeros_like(right)
    for queries in runs:
        grad_out = grad[:, :, queries]
        weights = _weights(terms, added, queries)
        grad_logits = torch._softmax_backward_data(grad_out @ value.mT, weights, -1, weights.dtype)
        if grad_bias is not None:
            grad_bias[:, queries] += grad_logits.sum(0)
        grad_value += weights.mT @ grad_out
        grad_right += grad_logits.mT @ left[:, :, queries]
        grads = [grad_logits @ right]
        if offsets:
            pairs = grad_logits.view(*grad_logits.shape[:3], *(offset.shape[3] for offset in offsets))
            grads += [pairs.sum(-1), pairs.sum(-2)]
        by_query.append(tuple(grads))
    grad_left, *grad_offsets = (torch.cat(grads, 2) for grads in zip(*by_query, strict=True))
    return grad_value, grad_left, grad_right, *grad_offsets
