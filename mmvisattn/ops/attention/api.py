"""Attention of any queries to any keys: the public functions."""

from torch import Tensor

from mmvisattn.ops.attention import reference, sdpa
from mmvisattn.ops.dispatch import Impl, choose
from mmvisattn.ops.precision import autocast_cast, no_autocast
from mmvisattn.ops.validation import check_float_tensor, check_scale


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None = None,
    *,
    scale: float | None = None,
    impl: Impl = "auto",
) -> Tensor:
    """Attention of any queries to any keys: softmax(scale * query @ key^T + bias) @ value.

    Serves self and cross attention; rotary embeddings are applied to query and key before the call.

    Args:
        query: (B, heads, N, D).
        key: (B, heads, M, D), M >= 1.
        value: (B, heads, M, D).
        bias: broadcastable to (B, heads, N, M), added to the scaled logits; -inf hides a key. Its gradient has its
            own shape. None for no bias.
        scale: factor of the logits; None for D**-0.5.
        impl: "auto", or the implementation to run: "reference" or "sdpa" ("triton" has no kernels for this op).

    Returns:
        (B, heads, N, D) in the dtype of `query` (of autocast, where it is on).

    Raises:
        ValueError: an argument is out of its range, or the named implementation refuses the call.

    Numerics: softmax and sums are float32, or float64 for float64 input, and so is the bias, except that "sdpa" on a
    GPU rounds it to the dtype of `query`. "reference" is the same from run to run; "sdpa" on CUDA only under
    `torch.use_deterministic_algorithms`. There is no dropout.

    Source: Vaswani et al., "Attention Is All You Need" (arXiv:1706.03762), section 3.2.1.

    Example:
        >>> import torch
        >>> query, key = torch.randn(1, 2, 5, 8), torch.randn(1, 2, 7, 8)
        >>> attention(query, key, key, torch.zeros(2, 1, 7)).shape
        torch.Size([1, 2, 5, 8])
    """
    _check(query, key, bias, scale)
    check_float_tensor("value", value)
    if value.shape != key.shape or value.dtype != key.dtype or value.device != key.device:
        raise ValueError(f"value is {_describe(value)}; expected {_describe(key)}, as key is")
    query, key, value = autocast_cast(query, key, value)
    chosen = choose("attention", impl, query, key=key, value=value, bias=bias, scale=scale)
    implementation = reference.attention if chosen == "reference" else sdpa.attention
    with no_autocast(query):
        return implementation(query, key, value, bias, scale=query.shape[3] ** -0.5 if scale is None else float(scale))


def attention_weights(query: Tensor, key: Tensor, bias: Tensor | None = None, *, scale: float | None = None) -> Tensor:
    """Return the weights with which `attention` averages the values. Arguments as there.

    Args:
        query: (B, heads, N, D).
        key: (B, heads, M, D).
        bias: broadcastable to (B, heads, N, M).
        scale: factor of the logits; None for D**-0.5.

    Returns:
        (B, heads, N, M), float32 or wider; rows sum to one.

    Raises:
        ValueError: an argument is out of its range.
    """
    _check(query, key, bias, scale)
    query, key = autocast_cast(query, key)
    with no_autocast(query):
        scale = query.shape[3] ** -0.5 if scale is None else float(scale)
        return reference.attention_weights(query, key, bias, scale=scale)


def _check(query: Tensor, key: Tensor, bias: Tensor | None, scale: float | None) -> None:
    check_scale(scale)
    check_float_tensor("query", query)
    check_float_tensor("key", key)
    if query.ndim != 4 or query.shape[3] < 1:
        raise ValueError(f"query has shape {tuple(query.shape)}; expected (B, heads, N, D) with D of at least 1")
    if key.ndim != 4 or key.shape[:2] != query.shape[:2] or key.shape[3] != query.shape[3] or key.shape[2] < 1:
        batch, heads, _, head_dim = query.shape
        raise ValueError(
            f"key has shape {tuple(key.shape)}; expected ({batch}, {heads}, M, {head_dim}) with M of at least 1"
        )
    if key.dtype != query.dtype or key.device != query.device:
        raise ValueError(f"key is {_describe(key)}; expected the dtype and device of query, {_describe(query)}")
    if bias is None:
        return
    check_float_tensor("bias", bias)
    target = (*query.shape[:3], key.shape[2])
    sizes = (1,) * (4 - bias.ndim) + tuple(bias.shape)
    if len(sizes) != 4 or any(size not in (1, full) for size, full in zip(sizes, target, strict=True)):
        raise ValueError(f"bias has shape {tuple(bias.shape)}; expected one that broadcasts to {tuple(target)}")
    if bias.device != query.device:
        raise ValueError(f"bias is on {bias.device}; expected {query.device}, the device of query")


def _describe(tensor: Tensor) -> str:
    return f"{tuple(tensor.shape)} {tensor.dtype} on {tensor.device}"
