"""Windowed self-attention on CPU, a block of windows at a time.

The logits of a block fit the cache, so neither logits nor weights nor partitioned copies of the map reach memory:
each token is read once and written once, and backward keeps nothing but `qkv` and computes the weights again.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from mmvisattn.ops.cosine import inverse_norm, normalize_backward
from mmvisattn.ops.precision import no_autocast, wide_dtype
from mmvisattn.ops.relative_position import relative_bias
from mmvisattn.ops.windows import WindowGrid, shift_masks, slot_rows, window_tables

LOGITS_PER_THREAD = 2**18
"""Logits of one block for each thread: 1 MiB in float32, a common size of a core's own cache."""


def window_attention(
    qkv: Tensor,
    bias_table: Tensor | None,
    *,
    num_heads: int,
    grid: WindowGrid,
    scale: float,
    logit_multiplier: Tensor | None,
    pad_kv: Tensor | None,
) -> Tensor:
    """Return (B, H, W, C); see `mmvisattn.ops.window_attention`."""
    wide = wide_dtype(qkv.dtype)
    bias = None if bias_table is None else relative_bias(bias_table.to(wide), grid.window)
    factor = None if logit_multiplier is None else logit_multiplier.to(wide)[:, None, None]
    output: Tensor = _Blockwise.apply(qkv, bias, factor, pad_kv, num_heads, grid, scale)
    return output


class _Windows:
    """Reads and writes blocks of windows of one map, (n, N, channels)."""

    def __init__(self, grid: WindowGrid, tokens: Tensor) -> None:
        batch, height, width, _ = tokens.shape
        self.rows = slot_rows(window_tables(grid, tokens), batch, height * width).view(-1, grid.tokens)
        self.grid, self.batch, self.map_rows = grid, batch, batch * height * width

    def blocks(self, num_heads: int) -> Iterator[tuple[int, Tensor, list[slice]]]:
        """Yield the kind of a block of windows, the row of each of its slots (n, N), and its groups of heads."""
        pairs = max(1, LOGITS_PER_THREAD * torch.get_num_threads() // self.grid.tokens**2)
        heads = min(num_heads, pairs)
        groups = [slice(first, first + heads) for first in range(0, num_heads, heads)]
        for kind, start, stop in self.grid.runs:
            for rows in torch.split(self.rows[start * self.batch : stop * self.batch], max(1, pairs // heads)):
                yield kind, rows, groups

    def has_padding(self, rows: Tensor) -> bool:
        """Return whether some of these slots hold no token."""
        return int(rows.max()) == self.map_rows

    def read(self, tokens: Tensor, rows: Tensor, padding: Tensor | None = None) -> Tensor:
        """Gather (n, N, channels) from (B, H, W, channels); padded slots get `padding` or zeros."""
        flat = tokens.view(self.map_rows, -1)
        if not self.has_padding(rows):
            return flat.index_select(0, rows.flatten()).view(*rows.shape, -1)
        block = flat.index_select(0, rows.flatten().clamp(max=self.map_rows - 1)).view(*rows.shape, -1)
        block[rows == self.map_rows] = 0 if padding is None else padding.to(block.dtype)
        return block

    def write(self, tokens: Tensor, rows: Tensor, block: Tensor) -> None:
        """Scatter (n, N, channels) to (B, H, W, channels), dropping padded slots."""
        flat = tokens.view(self.map_rows, -1)
        if self.has_padding(rows):
            real = rows < self.map_rows
            rows, block = rows[real], block[real]
        flat.index_copy_(0, rows.flatten(), block.view(-1, flat.shape[1]))


class _Blockwise(torch.autograd.Function):
    """Attention and its gradient. `bias` is (heads, N, N) and `factor` (heads, 1, 1), both in the wide dtype."""

    @staticmethod
    def forward(
        ctx: Any,
        qkv: Tensor,
        bias: Tensor | None,
        factor: Tensor | None,
        pad_kv: Tensor | None,
        num_heads: int,
        grid: WindowGrid,
        scale: float,
    ) -> Tensor:
        qkv = qkv.contiguous()
        ctx.save_for_backward(qkv, bias, factor, pad_kv)
        ctx.call = num_heads, grid, scale
        windows, padding, masks = _Windows(grid, qkv), _padding(pad_kv), _masks(grid, qkv)
        channels = qkv.shape[3] // 3
        output = qkv.new_empty(*qkv.shape[:3], channels)
        for kind, rows, groups in windows.blocks(num_heads):
            block = windows.read(qkv, rows, padding).view(*rows.shape, 3, num_heads, -1)
            attended = block.new_empty(*rows.shape, num_heads, channels // num_heads)
            for heads in groups:
                query, key, value = _split(block[:, :, :, heads])
                query, key = _scaled(query, key, scale, factor, heads)[:2]
                weights = _weights(query, key, bias, masks[kind], heads)
                attended[:, :, heads] = (weights @ value).transpose(1, 2)
            windows.write(output, rows, attended)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        with no_autocast(grad):
            return _gradients(ctx, grad)


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Return the gradients of all arguments of `_Blockwise`."""
    qkv, bias, factor, pad_kv = ctx.saved_tensors
    num_heads, grid, scale = ctx.call
    windows, padding, masks = _Windows(grid, qkv), _padding(pad_kv), _masks(grid, qkv)
    grad, grad_qkv = grad.contiguous(), torch.empty_like(qkv)
    grad_bias = torch.zeros_like(bias) if ctx.needs_input_grad[1] else None
    grad_factor = torch.zeros_like(factor) if ctx.needs_input_grad[2] else None
    grad_pad = torch.zeros_like(pad_kv, dtype=wide_dtype(qkv.dtype)) if ctx.needs_input_grad[3] else None
    for kind, rows, groups in windows.blocks(num_heads):
        block = windows.read(qkv, rows, padding).view(*rows.shape, 3, num_heads, -1)
        grad_block = windows.read(grad, rows).view(*rows.shape, 1, num_heads, -1)
        grad_input = torch.empty_like(block)
        for heads in groups:
            query, key, value = _split(block[:, :, :, heads])
            query, key, *cosine = _scaled(query, key, scale, factor, heads)
            weights = _weights(query, key, bias, masks[kind], heads)
            (grad_out,) = _split(grad_block[:, :, :, heads])
            grad_value = weights.mT @ grad_out
            grad_weights = grad_out @ value.mT
            grad_logits = torch._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
            if grad_bias is not None:
                grad_bias[heads] += grad_logits.sum(0)
            grad_query, grad_key = grad_logits @ key, grad_logits.mT @ query
            if factor is None:
                grad_query *= scale
            else:
                unit_query, inverse_query, inverse_key = cosine
                if grad_factor is not None:
                    grad_factor[heads] += (unit_query * grad_query).sum((0, 2, 3))[:, None, None]
                grad_query = normalize_backward(grad_query * factor[heads], unit_query, inverse_query)
                grad_key = normalize_backward(grad_key, key, inverse_key)
            for part, gradient in enumerate((grad_query, grad_key, grad_value)):
                grad_input[:, :, part, heads] = gradient.transpose(1, 2)
        windows.write(grad_qkv, rows, grad_input.flatten(2))
        if grad_pad is not None and windows.has_padding(rows):
            grad_pad += grad_input[rows == windows.map_rows][:, 1:].flatten(2).sum(0, dtype=grad_pad.dtype)
    return grad_qkv, grad_bias, grad_factor, grad_pad, None, None, None


def _padding(pad_kv: Tensor | None) -> Tensor | None:
    """Return the qkv row of padded slots, (3*C,)."""
    return None if pad_kv is None else torch.cat((torch.zeros_like(pad_kv[:1]), pad_kv)).flatten()


def _masks(grid: WindowGrid, qkv: Tensor) -> list[Tensor | None]:
    """Return what is added to the logits of each kind of window, (N, N); None for the interior."""
    return [None, *shift_masks(grid, wide_dtype(qkv.dtype), qkv.device)[1:]]


def _split(block: Tensor) -> tuple[Tensor, ...]:
    """Bring (n, N, parts, heads, D) to one contiguous (n, heads, N, D) for each part, in the wide dtype."""
    parts: tuple[Tensor, ...] = block.permute(2, 0, 3, 1, 4).to(wide_dtype(block.dtype)).contiguous().unbind()
    return parts


def _scaled(query: Tensor, key: Tensor, scale: float, factor: Tensor | None, heads: slice) -> tuple[Tensor, ...]:
    """Return query and key whose product is the logits; for cosine also the unit query and both inverse norms."""
    if factor is None:
        return query.mul_(scale), key
    inverse_query, inverse_key = inverse_norm(query), inverse_norm(key)
    unit_query = query * inverse_query
    return unit_query * factor[heads], key * inverse_key, unit_query, inverse_query, inverse_key


def _weights(query: Tensor, key: Tensor, bias: Tensor | None, mask: Tensor | None, heads: slice) -> Tensor:
    """Return (n, heads, N, N)."""
    logits = query @ key.mT
    if bias is not None:
        logits += bias[heads] if mask is None else bias[heads] + mask
    elif mask is not None:
        logits += mask
    return logits.softmax(-1)
