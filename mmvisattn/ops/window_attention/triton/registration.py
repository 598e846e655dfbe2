"""The registered torch ops of the fused window attention: schemas, fakes, autograd. Triton is imported on first use.

Forward and backward are two ops joined by an `autograd.Function`, the cheapest wiring per call that
`torch.compile(fullgraph=True)` sees as two nodes. The backward returns the wanted gradients and no others.
"""

import os
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Whether Triton runs kernels in its Python interpreter, the only way to run them on a CPU."""

_INPUTS = (
    "Tensor qkv, Tensor? bias_table, Tensor? multiplier, Tensor? pad_kv, "
    "int num_heads, int[2] window_size, int[2] shift_size, float scale"
)
library = torch.library.Library("mmvisattn", "FRAGMENT")
library.define(f"window_attention({_INPUTS}) -> Tensor")
library.define(f"window_attention_backward(Tensor grad_out, {_INPUTS}, bool[4] needs) -> Tensor[]")


@lru_cache
def _launcher() -> ModuleType:
    """The module that launches the kernels, and imports Triton."""
    return import_module("mmvisattn.ops.window_attention.triton.launch")


def _forward(*arguments: Any) -> Tensor:
    return _launcher().forward(*arguments)


def _backward(*arguments: Any) -> list[Tensor]:
    return _launcher().backward(*arguments)


for _key in ("CUDA", "CPU") if INTERPRETED else ("CUDA",):
    library.impl("window_attention", _forward, _key)
    library.impl("window_attention_backward", _backward, _key)


@torch.library.register_fake("mmvisattn::window_attention", lib=library)
def _forward_fake(qkv: Tensor, *arguments: Any) -> Tensor:
    return qkv.new_empty((*qkv.shape[:3], qkv.shape[3] // 3))


@torch.library.register_fake("mmvisattn::window_attention_backward", lib=library)
def _backward_fake(
    grad_out: Tensor,
    qkv: Tensor,
    bias_table: Tensor | None,
    multiplier: Tensor | None,
    pad_kv: Tensor | None,
    num_heads: int,
    window_size: Sequence[int],
    shift_size: Sequence[int],
    scale: float,
    needs: Sequence[bool],
) -> list[Tensor]:
    inputs = (qkv, bias_table, multiplier, pad_kv)
    return [
        qkv.new_empty(tensor.shape, dtype=qkv.dtype if tensor is qkv else torch.float32)
        for tensor, needed in zip(inputs, needs, strict=True)
        if needed and tensor is not None
    ]


_FORWARD = torch.ops.mmvisattn.window_attention.default
_BACKWARD = torch.ops.mmvisattn.window_attention_backward.default


class _WindowAttention(torch.autograd.Function):
    """Joins the two ops. Keeps its inputs and nothing else."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        ctx.save_for_backward(*arguments[:4])
        ctx.geometry = arguments[4:]
        return _FORWARD(*arguments)

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
        # `once_differentiable` would let the derivative with respect to the kept inputs be lost without a word.
        if torch.is_grad_enabled():
            raise RuntimeError("impl 'triton' is differentiable once; take impl='reference' for second derivatives")
        inputs = ctx.saved_tensors
        needs = ctx.needs_input_grad[:4]
        grads = iter(_BACKWARD(grad_out, *inputs, *ctx.geometry, needs))
        cast = [next(grads).to(tensor.dtype) if needed else None for tensor, needed in zip(inputs, needs, strict=True)]
        return *cast, None, None, None, None


def window_attention(
    qkv: Tensor,
    bias_table: Tensor | None,
    *,
    num_heads: int,
    window_size: Sequence[int],
    shift_size: Sequence[int],
    scale: float,
    logit_multiplier: Tensor | None,
    pad_kv: Tensor | None,
) -> Tensor:
    """Return (B, H, W, C); see `mmvisattn.ops.window_attention`, which checks the arguments.

    Args:
        qkv: (B, H, W, 3C), float32, float16 or bfloat16.
        bias_table: ((2h-1)*(2w-1), num_heads) or None.
        num_heads: Number of heads.
        window_size: Rows and columns of a window, in tokens.
        shift_size: Rows and columns of the cyclic shift, in tokens.
        scale: Factor of plain logits.
        logit_multiplier: (num_heads,) factor of cosine logits, or None for plain logits.
        pad_kv: (2, C) or None.

    Numerics: logits, softmax and sums in float32; weights and gradients of logits are rounded to the dtype of `qkv`
    before a matrix product. Deterministic. Differentiable once.
    """
    geometry = (num_heads, list(window_size), list(shift_size), scale)
    return _WindowAttention.apply(qkv, bias_table, logit_multiplier, pad_kv, *geometry)  # type: ignore[no-any-return]
