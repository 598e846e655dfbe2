"""What the logits of each kind of windowed attention are made of, and the gradients of that.

Two terms, (n, heads, N, D) each, are multiplied over the last axis. Two more, if any, are what a query adds for each
row of keys, (n, heads, N, h), and for each column, (n, heads, N, w).

Everything is in the wide dtype. `heads` is the slice of heads that query and key, (n, heads, N, D), are of.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from mmvisattn.ops.cosine import SMALLEST_NORM, inverse_norm, normalize
from mmvisattn.ops.relative_position import offset_logits

Tensors = tuple[Tensor, ...]


def scaled(query: Tensor, key: Tensor, heads: slice, scale: float) -> Tensors:
    """Return the terms of plain logits."""
    return query * scale, key


def _scaled_backward(grads: Tensors, query: Tensor, key: Tensor, heads: slice, scale: float) -> Tensors:
    return grads[0] * scale, grads[1]


def cosine(query: Tensor, key: Tensor, heads: slice, scale: float, multiplier: Tensor) -> Tensors:
    """Return the terms of cosine logits, multiplied by the (num_heads,) multiplier instead of `scale`."""
    return normalize(query) * multiplier[heads, None, None], normalize(key)


def _cosine_backward(
    grads: Tensors, query: Tensor, key: Tensor, heads: slice, scale: float, multiplier: Tensor
) -> Tensors:
    grad_multiplier = torch.zeros_like(multiplier)
    grad_multiplier[heads] = (grads[0] * normalize(query)).sum((0, 2, 3))
    grad_query = _through_normalize(grads[0] * multiplier[heads, None, None], query)
    return grad_query, _through_normalize(grads[1], key), grad_multiplier


def _through_normalize(grad: Tensor, vectors: Tensor) -> Tensor:
    """Return the gradient of vectors from that of their normalised ones. Where the norm is clamped it is a constant."""
    factor = inverse_norm(vectors)
    unit = vectors * factor
    along = (unit * grad).sum(-1, keepdim=True)
    return (grad - unit * torch.where(factor <= 1 / SMALLEST_NORM, along, 0)) * factor


def relative(query: Tensor, key: Tensor, heads: slice, scale: float, rows: Tensor, columns: Tensor) -> Tensors:
    """Return the terms of plain logits with decomposed relative positions (see `relative_position.offset_logits`)."""
    return query * scale, key, *offset_logits(query, rows, columns)


def _relative_backward(
    grads: Tensors, query: Tensor, key: Tensor, heads: slice, scale: float, rows: Tensor, columns: Tensor
) -> Tensors:
    window = rows.shape[0], columns.shape[0]
    grid, by_row, by_column = (t.view(*t.shape[:2], *window, t.shape[3]) for t in (query, *grads[2:]))
    from_rows = torch.einsum("nhyxk,ykd->nhyxd", by_row, rows)
    from_columns = torch.einsum("nhyxk,xkd->nhyxd", by_column, columns)
    grad_rows = torch.einsum("nhyxk,nhyxd->ykd", by_row, grid)
    grad_columns = torch.einsum("nhyxk,nhyxd->xkd", by_column, grid)
    return grads[0] * scale + (from_rows + from_columns).reshape(query.shape), grads[1], grad_rows, grad_columns


class LogitTerms(NamedTuple):
    """One kind of logits."""

    forward: Callable[..., Tensors]
    """forward(query, key, heads, scale, *shared): the terms."""
    backward: Callable[..., Tensors]
    """backward(gradients of the terms, *arguments of forward): the gradients of query, key and each shared tensor."""


KINDS = {
    "scaled": LogitTerms(scaled, _scaled_backward),
    "cosine": LogitTerms(cosine, _cosine_backward),
    "relative": LogitTerms(relative, _relative_backward),
}
