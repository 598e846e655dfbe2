"""Self-attention inside mask units: the public functions."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from mmvisattn.ops.dispatch import TRITON_REFUSALS, Impl, choose, why_not
from mmvisattn.ops.mask_unit_attention import reference, sdpa
from mmvisattn.ops.mask_unit_attention.units import UnitGrids, split_units, unit_grids
from mmvisattn.ops.precision import autocast_cast, no_autocast
from mmvisattn.ops.validation import as_pair, check_count, check_parameter, check_qkv, check_scale
from mmvisattn.ops.window_attention import window_attention


def mask_unit_attention(
    qkv: Tensor,
    *,
    num_heads: int,
    unit_size: int | Sequence[int] | None,
    query_stride: int = 1,
    scale: float | None = None,
    pad_kv: Tensor | None = None,
    impl: Impl = "auto",
) -> Tensor:
    """Self-attention inside units of a map, with queries that are max-pooled first.

    Tokens are row-major, as everywhere. The map is padded at the bottom and right to whole units; padded positions are
    attended, with the key and value of `pad_kv`. A query is the maximum, channel by channel, over those positions of
    its `query_stride` x `query_stride` cell that are on the map; keys and values are not pooled. With a stride of 1
    this is `window_attention` without table and shift, and runs as such.

    Args:
        qkv: (B, H, W, 3*C), query, key and value side by side, each `num_heads` x D channels; any H, W >= 1.
        num_heads: number of heads; divides C.
        unit_size: tokens per unit before pooling, int or (rows, columns), each a multiple of `query_stride`; None for
            one unit of the size of the map, which needs no padding.
        query_stride: side s of the cell that one query is pooled from, in tokens.
        scale: factor of the logits; None for D**-0.5.
        pad_kv: (2, C), key and value of every padded position, that is the key and value biases of the projection
            that made `qkv`; None for zeros. Rounded to the dtype of `qkv`, as that projection rounds.
        impl: "auto", or the implementation to run: "reference", "sdpa", or "triton" for a stride of 1.

    Returns:
        (B, ceil(H/s), ceil(W/s), C) in the dtype of `qkv` (of autocast, where it is on).

    Raises:
        ValueError: an argument is out of its range, or the named implementation refuses the call.

    Numerics: softmax and sums are float32, or float64 for float64 input. The gradient of a pooled query goes to the
    first maximum in row-major order of its cell. "reference" is the same from run to run; "sdpa" on CUDA only under
    `torch.use_deterministic_algorithms`. There is no dropout.

    Source: Hiera (arXiv:2306.00989), section 3.2; official code github.com/facebookresearch/hiera (Apache-2.0), which
    keeps the tokens of a unit together in memory instead and computes the same.

    Example:
        >>> import torch
        >>> qkv = torch.randn(2, 9, 10, 3 * 16)
        >>> mask_unit_attention(qkv, num_heads=2, unit_size=4, query_stride=2).shape
        torch.Size([2, 5, 5, 16])
    """
    call = _checked(qkv, num_heads, unit_size, query_stride, scale, pad_kv)
    if query_stride == 1 and unit_size is not None:
        window_size = as_pair("unit_size", unit_size, minimum=1)
        return window_attention(
            qkv, None, num_heads=num_heads, window_size=window_size, scale=scale, pad_kv=pad_kv, impl=impl
        )
    (qkv,) = autocast_cast(qkv)
    unit = None if unit_size is None else as_pair("unit_size", unit_size, minimum=1)
    sizes: dict[str, Any] = {"num_heads": num_heads, "unit_size": unit, "query_stride": query_stride}
    chosen = choose("mask_unit_attention", impl, qkv, **sizes)
    implementation = reference.mask_unit_attention if chosen == "reference" else sdpa.mask_unit_attention
    with no_autocast(qkv):
        return implementation(qkv, **call)


def mask_unit_attention_weights(
    qkv: Tensor,
    *,
    num_heads: int,
    unit_size: int | Sequence[int] | None,
    query_stride: int = 1,
    scale: float | None = None,
    pad_kv: Tensor | None = None,
) -> Tensor:
    """Return the weights with which `mask_unit_attention` averages the values. Arguments as there.

    Args:
        qkv: (B, H, W, 3*C).
        num_heads: number of heads.
        unit_size: tokens per unit before pooling; None for the whole map.
        query_stride: side of the cell that one query is pooled from, in tokens.
        scale: factor of the logits; None for D**-0.5.
        pad_kv: (2, C), key and value of padded positions.

    Returns:
        (B, units, num_heads, queries, N), float32 or wider; rows sum to one. Units, queries and keys are row-major.

    Raises:
        ValueError: an argument is out of its range.
    """
    call = _checked(qkv, num_heads, unit_size, query_stride, scale, pad_kv)
    (qkv,) = autocast_cast(qkv)
    with no_autocast(qkv):
        query, key, _ = split_units(qkv, num_heads, call["grids"], pad_kv)
        return reference.attention_weights(query, key, call["scale"]).transpose(0, 1)


def _checked(
    qkv: Tensor,
    num_heads: int,
    unit_size: int | Sequence[int] | None,
    query_stride: int,
    scale: float | None,
    pad_kv: Tensor | None,
) -> dict[str, Any]:
    """Check all arguments and return those that the implementations take by keyword."""
    check_qkv(qkv, num_heads)
    check_scale(scale)
    check_count("query_stride", query_stride)
    unit = None if unit_size is None else as_pair("unit_size", unit_size, minimum=1)
    if unit is not None and (unit[0] % query_stride or unit[1] % query_stride):
        raise ValueError(f"unit_size is {unit_size!r}; expected multiples of query_stride {query_stride}")
    channels = qkv.shape[3] // 3
    if pad_kv is not None:
        check_parameter("pad_kv", pad_kv, qkv, (2, channels))
    grids: UnitGrids = unit_grids((qkv.shape[1], qkv.shape[2]), unit, query_stride)
    return {
        "num_heads": num_heads,
        "grids": grids,
        "scale": (channels // num_heads) ** -0.5 if scale is None else float(scale),
        "pad_kv": pad_kv,
    }


def _refuse_triton(
    qkv: Tensor, *, num_heads: int, unit_size: tuple[int, int] | None, query_stride: int = 1, **others: Any
) -> str | None:
    """Return the sentence why there is no Triton kernel for a call, or None where that of windows serves it."""
    if query_stride != 1 or unit_size is None:
        return (
            "impl 'triton' of mask_unit_attention has kernels for query_stride 1 inside units, "
            f"not for query_stride {query_stride} with unit_size {unit_size}"
        )
    return why_not("window_attention", "triton", qkv, num_heads=num_heads, window_size=unit_size)


TRITON_REFUSALS["mask_unit_attention"] = _refuse_triton
