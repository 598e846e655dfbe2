"""Self-attention with decomposed relative positions: the public functions."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from mmvisattn.ops.dispatch import Impl, choose
from mmvisattn.ops.precision import autocast_cast, no_autocast
from mmvisattn.ops.relative_position_attention import reference, sdpa
from mmvisattn.ops.validation import as_pair, check_parameter, check_qkv, check_scale
from mmvisattn.ops.windows import WindowGrid, split_windows


def relative_position_attention(
    qkv: Tensor,
    rel_h: Tensor,
    rel_w: Tensor,
    *,
    num_heads: int,
    window_size: int | Sequence[int] | None = None,
    scale: float | None = None,
    pad_kv: Tensor | None = None,
    impl: Impl = "auto",
) -> Tensor:
    """Self-attention whose logits get two terms that depend on query and offset: one for rows, one for columns.

    The logit of a query at (yq, xq) and a key at (yk, xk) is
    scale * query . key + query . rel_h[yq-yk+h-1] + query . rel_w[xq-xk+w-1], with the query not scaled in the last
    two terms. In windows, the map is padded at the bottom and right to whole windows; padded positions are attended,
    with the key and value of `pad_kv`.

    Args:
        qkv: (B, H, W, 3*C), query, key and value side by side, each `num_heads` x D channels; any H, W >= 1.
        rel_h: (2h-1, D) for windows of h x w tokens, shared by all heads; to another size it is brought by
            `mmvisattn.ops.relative_position.resize_1d`.
        rel_w: (2w-1, D).
        num_heads: number of heads; divides C.
        window_size: tokens per window, int or (rows, columns); None for one window of the size of the map.
        scale: factor of query . key; None for D**-0.5.
        pad_kv: (2, C), key and value of every padded position, that is the key and value biases of the projection
            that made `qkv`; None for zeros. Rounded to the dtype of `qkv`, as that projection rounds.
        impl: "auto", or the implementation to run: "reference" or "sdpa" ("triton" has no kernels for this op).

    Returns:
        (B, H, W, C) in the dtype of `qkv` (of autocast, where it is on).

    Raises:
        ValueError: an argument is out of its range, or the named implementation refuses the call.

    Numerics: tables, their products with the query, softmax and sums are float32, or float64 for float64 input, except
    that "sdpa" on a GPU rounds those products to the dtype of `qkv`. "reference" is the same from run to run, and so
    is "sdpa" on CPU; "sdpa" on CUDA only under `torch.use_deterministic_algorithms`. There is no dropout.

    Source: MViTv2 (arXiv:2112.01526), section 4.1, as used by ViTDet (arXiv:2203.16527; detectron2, Apache-2.0) and
    Segment Anything (arXiv:2304.02643; Apache-2.0).

    Example:
        >>> import torch
        >>> qkv = torch.randn(2, 9, 10, 3 * 16)
        >>> rel = torch.zeros(7, 8)
        >>> relative_position_attention(qkv, rel, rel, num_heads=2, window_size=4).shape
        torch.Size([2, 9, 10, 16])
    """
    call = _checked(qkv, rel_h, rel_w, num_heads, window_size, scale, pad_kv)
    (qkv,) = autocast_cast(qkv)
    grid: WindowGrid = call["grid"]
    logits = qkv.shape[0] * num_heads * grid.pairs
    sizes = {"num_heads": num_heads, "window_size": grid.window}
    chosen = choose("relative_position_attention", impl, qkv, logits=logits, **sizes)
    module = reference if chosen == "reference" else sdpa
    with no_autocast(qkv):
        output: Tensor = module.relative_position_attention(qkv, rel_h, rel_w, **call)
    return output


def relative_position_attention_weights(
    qkv: Tensor,
    rel_h: Tensor,
    rel_w: Tensor,
    *,
    num_heads: int,
    window_size: int | Sequence[int] | None = None,
    scale: float | None = None,
    pad_kv: Tensor | None = None,
) -> Tensor:
    """Return the weights with which `relative_position_attention` averages the values. Arguments as there.

    Args:
        qkv: (B, H, W, 3*C).
        rel_h: (2h-1, D).
        rel_w: (2w-1, D).
        num_heads: number of heads.
        window_size: tokens per window; None for the whole map.
        scale: factor of query . key; None for D**-0.5.
        pad_kv: (2, C), key and value of padded positions.

    Returns:
        (B, windows, num_heads, N, N), float32 or wider; rows sum to one. Windows are row-major on the padded map.

    Raises:
        ValueError: an argument is out of its range.
    """
    call = _checked(qkv, rel_h, rel_w, num_heads, window_size, scale, pad_kv)
    (qkv,) = autocast_cast(qkv)
    with no_autocast(qkv):
        query, key, _ = split_windows(qkv, num_heads, call["grid"], pad_kv)
        return reference.attention_weights(query, key, rel_h, rel_w, call["grid"], call["scale"]).transpose(0, 1)


def _checked(
    qkv: Tensor,
    rel_h: Tensor,
    rel_w: Tensor,
    num_heads: int,
    window_size: int | Sequence[int] | None,
    scale: float | None,
    pad_kv: Tensor | None,
) -> dict[str, Any]:
    """Check all arguments and return those that the implementations take by keyword."""
    check_qkv(qkv, num_heads)
    check_scale(scale)
    size = qkv.shape[1], qkv.shape[2]
    window = size if window_size is None else as_pair("window_size", window_size, minimum=1)
    channels = qkv.shape[3] // 3
    head_dim = channels // num_heads
    check_parameter("rel_h", rel_h, qkv, (2 * window[0] - 1, head_dim))
    check_parameter("rel_w", rel_w, qkv, (2 * window[1] - 1, head_dim))
    if pad_kv is not None:
        check_parameter("pad_kv", pad_kv, qkv, (2, channels))
    return {
        "num_heads": num_heads,
        "grid": WindowGrid(size, window),
        "scale": head_dim**-0.5 if scale is None else float(scale),
        "pad_kv": pad_kv,
    }
