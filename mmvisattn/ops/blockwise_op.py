"""Attention in blocks of windows, as one operation that autograd and compilers see.

A compiler that recorded the loops over blocks would record hundreds of operations a layer, anew for every size; it
records one registered op each way instead. Eager calls run the computation itself, so that flop counters see its matrix
products, and exports keep to PyTorch's own operations, so that they run where this package is not installed.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mmvisattn.ops import blockwise
from mmvisattn.ops.precision import no_autocast, wide_dtype
from mmvisattn.ops.tracing import is_compiled, is_traced
from mmvisattn.ops.windows import WindowGrid, pad_row

_INPUTS = (
    "Tensor qkv, Tensor? bias, Tensor? padding, Tensor[] shared, str terms, "
    "int num_heads, SymInt[2] window_size, SymInt[2] shift_size, float scale"
)
library: Any = torch.library.Library("mmvisattn", "FRAGMENT")  # type: ignore[no-untyped-call]
library.define(f"blockwise_attention({_INPUTS}) -> Tensor")
library.define(f"blockwise_attention_backward(Tensor grad, {_INPUTS}, bool[] needs) -> Tensor[]")


def _forward_fake(qkv: Tensor, *others: Any) -> Tensor:
    return qkv.new_empty((*qkv.shape[:3], qkv.shape[3] // 3))


def _backward_fake(
    grad: Tensor, qkv: Tensor, bias: Tensor | None, padding: Tensor | None, shared: Sequence[Tensor], *others: Any
) -> list[Tensor]:
    inputs = (qkv.contiguous(), bias, padding, *shared)
    dtypes = {2: wide_dtype(qkv.dtype)}  # sums over padding
    return [
        torch.empty_like(tensor, dtype=dtypes.get(place))
        for place, (tensor, needed) in enumerate(zip(inputs, others[-1], strict=True))
        if needed and tensor is not None
    ]


library.impl("blockwise_attention", blockwise.forward, "CPU")
library.impl("blockwise_attention_backward", blockwise.backward, "CPU")
torch.library.register_fake("mmvisattn::blockwise_attention", _forward_fake, lib=library)
torch.library.register_fake("mmvisattn::blockwise_attention_backward", _backward_fake, lib=library)


def blockwise_takes(qkv: Tensor) -> bool:
    """Return whether a call on `qkv` may run in blocks: on CPU, unless it is recorded for elsewhere."""
    return qkv.is_cpu and (is_compiled() or not is_traced(qkv))


def attend_blockwise(
    qkv: Tensor,
    bias: Tensor | None,
    pad_kv: Tensor | None,
    *,
    num_heads: int,
    grid: WindowGrid,
    scale: float,
    terms: str = "scaled",
    shared: Sequence[Tensor] = (),
) -> Tensor:
    """Attend inside the windows of a map.

    Args:
        qkv: (B, H, W, 3*C).
        bias: (num_heads, N, N) in the wide dtype, added to the logits; None for none.
        pad_kv: (2, C), key and value of padded slots; None for zeros.
        num_heads: number of heads.
        grid: the geometry.
        scale: factor of the logits, where their terms take one.
        terms: what the logits are made of, a key of `logit_terms.KINDS`.
        shared: tensors that the terms take besides query and key; their gradients are summed over the blocks.

    Returns:
        (B, H, W, C).

    Raises:
        RuntimeError: in backward, if it shall be differentiated once more.
    """
    options = terms, num_heads, grid.window, grid.shift, scale
    output: Tensor = _Blockwise.apply(options, qkv.contiguous(), bias, pad_row(pad_kv), *shared)
    return output


class _Blockwise(torch.autograd.Function):
    """Keeps its inputs and nothing else."""

    @staticmethod
    def forward(
        ctx: Any, options: Any, qkv: Tensor, bias: Tensor | None, padding: Tensor | None, *shared: Tensor
    ) -> Tensor:
        ctx.save_for_backward(qkv, bias, padding, *shared)
        ctx.options = options
        run: Any = torch.ops.mmvisattn.blockwise_attention.default if is_compiled() else blockwise.forward
        output: Tensor = run(qkv, bias, padding, shared, *options)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True
            raise RuntimeError("impl 'sdpa' on CPU differentiates once; impl 'reference' differentiates twice and more")
        qkv, bias, padding, *shared = ctx.saved_tensors
        needs = ctx.needs_input_grad[1:]
        run: Any = torch.ops.mmvisattn.blockwise_attention_backward.default if is_compiled() else blockwise.backward
        with no_autocast(grad):
            found = iter(run(grad, qkv, bias, padding, shared, *ctx.options, needs))
        return None, *(next(found) if needed else None for needed in needs)
