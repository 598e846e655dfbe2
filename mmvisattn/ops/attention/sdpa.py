"""Attention on `torch.nn.functional.scaled_dot_product_attention`."""

from torch import Tensor

from mmvisattn.ops.precision import wide_dtype
from mmvisattn.ops.scaled_dot_product import scaled_dot_product


def attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, *, scale: float) -> Tensor:
    """Return (B, heads, N, D); see `mmvisattn.ops.attention`."""
    if bias is not None:
        bias = bias.to(wide_dtype(query.dtype))
        bias = bias.view((1,) * (4 - bias.ndim) + tuple(bias.shape))
    return scaled_dot_product(query, key, value, bias, scale=scale)
