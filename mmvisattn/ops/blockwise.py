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

LOGITS_PER_THREAD = 2**17
"""Logits of one block for each thread: with the weights, 1 MiB in float32, a common size of a core's own cache."""

Prepare = Callable[..., tuple[Tensor, Tensor]]
"""prepare(query, key, heads, *shared): from query and key of a slice of heads, both (n, heads, N, D) in the wide dtype,
the two tensors whose product over the last axis is the logits, less bias and mask."""


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
        prepare: makes the factors of the logits where they are more than scaled; differentiated by autograd.
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
        logits = LOGITS_PER_THREAD * torch.get_num_threads()
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
                left, right = (query * scale, key) if prepare is None else prepare(query, key, heads, *shared)
                added = _added(bias, mask, heads)
                for queries in blocks.queries:
                    weights = _weights(left[:, :, queries], right, added, queries)
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
            if prepare is None:
                left, right = query * scale, key
            else:
                with torch.enable_grad():
                    factors = prepare(query.requires_grad_(), key.requires_grad_(), heads, *shared)
                left, right = (factor.detach() for factor in factors)
            grad_query, grad_key, grad_value = _gradients(
                left,
                right,
                value,
                _added(bias, mask, heads),
                grad_heads,
                None if grad_bias is None else grad_bias[heads],
                blocks.queries,
            )
            if prepare is None:
                grad_query *= scale
            else:
                grads = torch.autograd.grad(factors, [query, key, *wanted], [grad_query, grad_key])
                grad_query, grad_key = grads[:2]
                for total, gradient in zip(sums, grads[2:], strict=True):
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


def _weights(left: Tensor, right: Tensor, added: Tensor | None, queries: slice) -> Tensor:
    """Return (n, heads, queries, N), the weights of a run of queries."""
    logits = left @ right.mT
    if added is not None:
        logits += added[..., queries, :]
    return logits.softmax(-1)


def _gradients(
    left: Tensor,
    right: Tensor,
    value: Tensor,
    added: Tensor | None,
    grad: Tensor,
    grad_bias: Tensor | None,
    runs: list[slice],
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of left, right and value, (n, heads, N, channels); add that of the bias to `grad_bias`."""
    grads_left = []
    grad_right = grad_value = torch.zeros(())
    for queries in runs:
        grad_out = grad[:, :, queries]
        weights = _weights(left[:, :, queries], right, added, queries)
        grad_logits = torch._softmax_backward_data(grad_out @ value.mT, weights, -1, weights.dtype)
        if grad_bias is not None:
            grad_bias[:, queries] += grad_logits.sum(0)
        grads_left.append(grad_logits @ right)
        grad_key = grad_logits.mT @ left[:, :, queries]
        grad_right = grad_key if queries.start == 0 else grad_right.add_(grad_key)
        grad_average = weights.mT @ grad_out
        grad_value = grad_average if queries.start == 0 else grad_value.add_(grad_average)
    return grads_left[0] if len(runs) == 1 else torch.cat(grads_left, 2), grad_right, grad_value
