"""PyTorch's fused attention, called so that each of its kernels computes what was asked."""

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from mmvisattn.ops.tracing import is_traced


def scaled_dot_product(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, *, scale: float) -> Tensor:
    """Return softmax(scale * query @ key^T + bias) @ value through `scaled_dot_product_attention`.

    Args:
        query: (B, heads, N, D).
        key: (B, heads, M, D).
        value: (B, heads, M, D').
        bias: broadcastable to (B, heads, N, M), of any floating dtype; on a GPU it is rounded to the dtype of `query`,
            because some kernels misread a bias of another dtype.
        scale: factor of the logits.
    """
    if bias is None:
        return scaled_dot_product_attention(query, key, value, scale=scale)
    if not bias.is_cpu or is_traced(bias):
        bias = bias.to(query.dtype)
    only_bias_learns = bias.requires_grad and not (query.requires_grad or key.requires_grad or value.requires_grad)
    if only_bias_learns and bias.is_cuda and not is_traced(bias):
        query = query.detach().requires_grad_()  # the memory-efficient backward assumes a gradient of the query
    return scaled_dot_product_attention(query, key, value, bias, scale=scale)
