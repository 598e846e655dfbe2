"""Windowed attention on CPU, a block of windows at a time.

The logits of a block fit the cache, so neither logits nor weights nor partitioned copies of the map reach memory: each
token is read once and written once. Backward keeps nothing but the inputs and computes the weights of a block again.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from mmvisattn.ops.logit_terms import KINDS
from mmvisattn.ops.precision import wide_dtype
from mmvisattn.ops.windows import WindowGrid, shift_masks, slot_rows, window_tables

LOGITS_OF_ONE_THREAD = 2**18
"""Logits of one block: 1 MiB in float32, about a core's own cache."""

LOGITS_OF_THREADS = 2**21
"""Logits of one block where several threads share it, 8 MiB in float32, which their common cache holds. Threads wait
for one another at the end of each operation; on a busy machine many small blocks would be mostly waiting."""


class _Blocks:
    """Reads and writes blocks of windows, (n, N, channels), of maps of one size.

    `heads` are the groups of heads and `queries` the runs of queries that are attended at once.
    """

    def __init__(self, tokens: Tensor, num_heads: int, window_size: Sequence[int], shift_size: Sequence[int]) -> None:
        batch, height, width, _ = tokens.shape
        (h, w), (shift_y, shift_x) = window_size, shift_size
        grid = WindowGrid((height, width), (h, w), (shift_y, shift_x))
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


def forward(
    qkv: Tensor,
    bias: Tensor | None,
    padding: Tensor | None,
    shared: Sequence[Tensor],
    terms: str,
    num_heads: int,
    window_size: Sequence[int],
    shift_size: Sequence[int],
    scale: float,
) -> Tensor:
    """Attend inside the windows of a map.

    Args:
        qkv: (B, H, W, 3*C).
        bias: (num_heads, N, N) in the wide dtype, added to the logits; None for none.
        padding: (3*C,), the row of a padded slot; None for zeros.
        shared: tensors that the logits depend on besides query and key.
        terms: what the logits are made of, a key of `logit_terms.KINDS`.
        num_heads: number of heads.
        window_size: rows and columns of a window, in tokens.
        shift_size: rows and columns of the cyclic shift, in tokens.
        scale: factor of the logits, where their terms take one.

    Returns:
        (B, H, W, C).
    """
    qkv = qkv.contiguous()
    blocks = _Blocks(qkv, num_heads, window_size, shift_size)
    output = qkv.new_empty(*qkv.shape[:3], qkv.shape[3] // 3)
    for rows, padded, mask in blocks:
        block = blocks.read(qkv, rows, padded, padding).view(*rows.shape, 3, num_heads, -1)
        attended = torch.empty_like(block[:, :, 0])
        for heads in blocks.heads:
            query, key, value = _split(block[:, :, :, heads])
            parts = KINDS[terms].forward(query, key, heads, scale, *shared)
            added = _added(bias, mask, heads)
            for queries in blocks.queries:
                weights = _weights(parts, added, queries)
                attended[:, queries, heads] = (weights @ value).transpose(1, 2)
        blocks.write(output, rows, padded, attended)
    return output


def backward(
    grad: Tensor,
    qkv: Tensor,
    bias: Tensor | None,
    padding: Tensor | None,
    shared: Sequence[Tensor],
    terms: str,
    num_heads: int,
    window_size: Sequence[int],
    shift_size: Sequence[int],
    scale: float,
    needs: Sequence[bool],
) -> list[Tensor]:
    """Return the wanted ones of the gradients of qkv (always computed), bias, padding and each shared tensor.

    Args:
        grad: (B, H, W, C), gradient of the output.
        qkv: as in `forward`, and so the others.
        bias: as in `forward`.
        padding: as in `forward`.
        shared: as in `forward`.
        terms: as in `forward`.
        num_heads: as in `forward`.
        window_size: as in `forward`.
        shift_size: as in `forward`.
        scale: as in `forward`.
        needs: which gradients are wanted.
    """
    needs_qkv, needs_bias, needs_padding, *needs_shared = needs
    qkv, grad = qkv.contiguous(), grad.contiguous()
    sums = [torch.zeros_like(tensor) for tensor in shared]
    grad_qkv = torch.empty_like(qkv)
    grad_bias = torch.zeros_like(bias) if needs_bias and bias is not None else None
    grad_padding = torch.zeros(qkv.shape[3], dtype=wide_dtype(qkv.dtype)) if needs_padding else None
    blocks = _Blocks(qkv, num_heads, window_size, shift_size)
    for rows, padded, mask in blocks:
        block = blocks.read(qkv, rows, padded, padding).view(*rows.shape, 3, num_heads, -1)
        grad_output = blocks.read(grad, rows, padded, None).view(*rows.shape, 1, num_heads, -1)
        grad_block = torch.empty_like(block)
        for heads in blocks.heads:
            query, key, value = _split(block[:, :, :, heads])
            (grad_heads,) = _split(grad_output[:, :, :, heads])
            inputs = query, key, heads, scale, *shared
            grad_value, *grad_parts = _gradients(
                KINDS[terms].forward(*inputs),
                value,
                _added(bias, mask, heads),
                grad_heads,
                None if grad_bias is None else grad_bias[heads],
                blocks.queries,
            )
            grad_query, grad_key, *grads = KINDS[terms].backward(grad_parts, *inputs)
            for total, gradient in zip(sums, grads, strict=True):
                total += gradient
            for part, gradient in enumerate((grad_query, grad_key, grad_value)):
                grad_block[:, :, part, heads] = gradient.transpose(1, 2)
        blocks.write(grad_qkv, rows, padded, grad_block)
        if grad_padding is not None and padded is not None:
            grad_padding += grad_block[padded].flatten(1).sum(0, dtype=grad_padding.dtype)
    wanted_sums = [total for total, wanted in zip(sums, needs_shared, strict=True) if wanted]
    found = (grad_qkv if needs_qkv else None, grad_bias, grad_padding, *wanted_sums)
    return [gradient for gradient in found if gradient is not None]


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
