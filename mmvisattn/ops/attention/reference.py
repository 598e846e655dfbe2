"""Attention: the specification. Eager, deterministic, differentiable any number of times."""

from torch import Tensor

from mmvisattn.ops.precision import wide_dtype


def attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, *, scale: float) -> Tensor:
    """Return (B, heads, N, D); see `mmvisattn.ops.attention`."""
    weights = attention_weights(query, key, bias, scale=scale)
    return (weights @ value.to(weights.dtype)).to(query.dtype)


def attention_weights(query: Tensor, key: Tensor, bias: Tensor | None, *, scale: float) -> Tensor:
    """Return (B, heads, N, M); rows sum to one."""
    wide = wide_dtype(query.dtype)
    logits = (query.to(wide) * scale) @ key.to(wide).mT
    if bias is not None:
        logits = logits + bias.to(wide)
    return logits.softmax(-1)
