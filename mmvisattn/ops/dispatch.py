"""Which implementation of an op runs."""

from collections.abc import Callable
from typing import Any, Literal, get_args

from torch import Tensor

from mmvisattn.ops.tracing import is_traced

Impl = Literal["auto", "reference", "sdpa", "triton"]
IMPLS = get_args(Impl)

OPS = ("attention", "window_attention", "relative_position_attention", "mask_unit_attention")

SIZES = ("window_size", "shift_size", "unit_size")
"""Arguments that a caller may give as one int and the kernels take as (rows, columns)."""

TRITON_REFUSALS: dict[str, Callable[..., str | None]] = {}
"""For each op that has Triton kernels, the function that says why they refuse a call; set where they register."""


SMALL_CALL = 2**20
"""Logits of a call that a CPU's cache holds anyway; below, going block by block costs more than it saves."""


def choose(op: str, impl: Impl, qkv: Tensor, *, logits: int | None = None, **arguments: Any) -> str:
    """Return the implementation to run: the named one, or for "auto" the best that takes these arguments.

    "auto" takes Triton on a GPU where its kernels accept the call, and `sdpa` otherwise; but `reference` for small
    calls on CPU, and on the meta device, where nothing is computed and every FLOP counter knows its matrix products.

    Args:
        op: name of the op.
        impl: name of the implementation, or "auto".
        qkv: the op's first argument.
        logits: number of logits of the call, where `sdpa` goes block by block on CPU; None elsewhere.
        arguments: those of the op's other arguments that a refusal may depend on, by keyword; sizes in pairs.

    Raises:
        ValueError: the name is unknown, or the named implementation refuses the arguments; never falls back.
    """
    if impl == "auto":
        if qkv.is_cuda and _refusal(op, "triton", qkv, arguments) is None:
            return "triton"
        is_small = qkv.is_cpu and logits is not None and not is_traced(qkv) and logits <= SMALL_CALL
        return "reference" if qkv.is_meta or is_small else "sdpa"
    refusal = _refusal(op, impl, qkv, arguments)
    if refusal is not None:
        raise ValueError(refusal)
    return impl


def why_not(op: str, impl: Impl, qkv: Tensor, **arguments: Any) -> str | None:
    """Return the sentence why `impl` refuses these arguments of `op`, or None where it takes them.

    `reference` and `sdpa` take everything that the op's own checks let pass; what `triton` takes depends on device,
    dtype and geometry.

    Args:
        op: name of the op, for instance `"window_attention"`.
        impl: name of the implementation.
        qkv: the op's first argument.
        arguments: its other arguments, by keyword.

    Raises:
        ValueError: `op` or `impl` is unknown.
    """
    if op not in OPS:
        raise ValueError(f"op is {op!r}; allowed are {', '.join(map(repr, OPS))}")
    sizes = {name: (size, size) for name, size in arguments.items() if name in SIZES and isinstance(size, int)}
    return _refusal(op, impl, qkv, {**arguments, **sizes})


def _refusal(op: str, impl: str, qkv: Tensor, arguments: dict[str, Any]) -> str | None:
    """Return what `why_not` returns; sizes are in pairs."""
    if impl not in IMPLS:
        raise ValueError(f"impl is {impl!r}; allowed are {', '.join(map(repr, IMPLS))}")
    if impl != "triton":
        return None
    if op not in TRITON_REFUSALS:
        return f"impl 'triton' of {op} is not part of this build: there are no Triton kernels for it"
    return TRITON_REFUSALS[op](qkv, **arguments)
