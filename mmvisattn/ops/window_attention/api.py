"""Windowed self-attention: the public functions."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from mmvisattn.ops.dispatch import Impl, choose
from mmvisattn.ops.precision import autocast_cast, no_autocast, wide_dtype
from mmvisattn.ops.validation import as_pair, check_parameter, check_qkv, check_scale
from mmvisattn.ops.window_attention import reference, sdpa
from mmvisattn.ops.window_attention import triton as kernels
from mmvisattn.ops.windows import WindowGrid, row_major, split_windows

MAX_LOG_MULTIPLIER = math.log(100.0)


def window_attention(
    qkv: Tensor,
    bias_table: Tensor | None = None,
    *,
    num_heads: int,
    window_size: int | Sequence[int],
    shift_size: int | Sequence[int] = 0,
    scale: float | None = None,
    logit_scale: Tensor | None = None,
    pad_kv: Tensor | None = None,
    impl: Impl = "auto",
) -> Tensor:
    """Self-attention inside windows of a map, plain or shifted.

    The map is padded at the bottom and right to whole windows, rolled by `-shift_size`, masked, attended, rolled
    back and cropped. The mask adds -100 between tokens that only the roll brought together; regions come from the
    padded size. Padded positions are attended, with the key and value of `pad_kv`.

    Args:
        qkv: (B, H, W, 3*C), query, key and value side by side, each `num_heads` x D channels; any H, W >= 1.
        bias_table: ((2h-1)*(2w-1), num_heads) for a window of h x w tokens, added to the logits; row
            (yq-yk+h-1)*(2w-1) + (xq-xk+w-1). None for no bias. Swin V2 passes 16*sigmoid of its table.
        num_heads: number of heads; divides C.
        window_size: tokens per window, int or (rows, columns).
        shift_size: cyclic shift in tokens, int or (rows, columns); 0 <= shift < window on each axis.
        scale: factor of the logits; None for D**-0.5.
        logit_scale: (num_heads,) or (num_heads, 1, 1). If given, query and key are divided by max(norm, 1e-12) and
            the logits multiplied by exp(min(logit_scale, log 100)); no gradient above the clamp. Excludes `scale`.
        pad_kv: (2, C), key and value of every padded position, that is the key and value biases of the projection
            that made `qkv`; None for zeros. Rounded to the dtype of `qkv`, as that projection rounds.
        impl: "auto", or the implementation to run: "reference", "sdpa" or "triton".

    Returns:
        (B, H, W, C) in the dtype of `qkv` (of autocast, where it is on).

    Raises:
        ValueError: an argument is out of its range, or the named implementation refuses the call.

    Numerics: tables, multipliers, softmax and sums are float32, or float64 for float64 input. "reference" and
    "triton" are the same from run to run; "sdpa" on CUDA only under `torch.use_deterministic_algorithms`. There is no
    dropout. An all-zero query or key has no direction and gets no gradient through its normalisation.

    Source: Swin Transformer (arXiv:2103.14030), section 3.2, and Swin Transformer V2 (arXiv:2111.09883), section 3.3;
    official code github.com/microsoft/Swin-Transformer (MIT).

    Example:
        >>> import torch
        >>> qkv = torch.randn(2, 9, 10, 3 * 16)
        >>> table = torch.zeros(7 * 7, 2)
        >>> window_attention(qkv, table, num_heads=2, window_size=4, shift_size=2).shape
        torch.Size([2, 9, 10, 16])
    """
    grid, scale = _checked(qkv, bias_table, num_heads, window_size, shift_size, scale, logit_scale, pad_kv)
    (qkv,) = autocast_cast(qkv)
    logits = qkv.shape[0] * num_heads * grid.pairs if qkv.is_cpu else None
    chosen = choose("window_attention", impl, qkv, logits=logits, num_heads=num_heads, window_size=grid.window)
    multiplier = _logit_multiplier(logit_scale, qkv)
    if chosen == "triton":
        output: Tensor = kernels.window_attention(
            qkv,
            bias_table,
            num_heads=num_heads,
            window_size=grid.window,
            shift_size=grid.shift,
            scale=scale,
            logit_multiplier=multiplier,
            pad_kv=pad_kv,
        )
        return output
    implementation = reference.window_attention if chosen == "reference" else sdpa.window_attention
    with no_autocast(qkv):
        return implementation(
            qkv, bias_table, num_heads=num_heads, grid=grid, scale=scale, logit_multiplier=multiplier, pad_kv=pad_kv
        )


def window_attention_weights(
    qkv: Tensor,
    bias_table: Tensor | None = None,
    *,
    num_heads: int,
    window_size: int | Sequence[int],
    shift_size: int | Sequence[int] = 0,
    scale: float | None = None,
    logit_scale: Tensor | None = None,
    pad_kv: Tensor | None = None,
) -> Tensor:
    """Return the weights with which `window_attention` averages the values. Arguments as there.

    Args:
        qkv: (B, H, W, 3*C).
        bias_table: ((2h-1)*(2w-1), num_heads).
        num_heads: number of heads.
        window_size: tokens per window.
        shift_size: cyclic shift in tokens.
        scale: factor of the logits.
        logit_scale: (num_heads,) or (num_heads, 1, 1), the logarithm of the factor under cosine attention.
        pad_kv: (2, C), key and value of padded positions.

    Returns:
        (B, windows, num_heads, N, N), float32 or wider; rows sum to one. Windows are row-major on the padded and
        rolled map: row i of window (r, c) of size h x w is the query at padded row (r*h + i//w + shift) mod padded
        height, and likewise for columns.

    Raises:
        ValueError: an argument is out of its range.
    """
    grid, scale = _checked(qkv, bias_table, num_heads, window_size, shift_size, scale, logit_scale, pad_kv)
    (qkv,) = autocast_cast(qkv)
    with no_autocast(qkv):
        query, key, _ = split_windows(qkv, num_heads, grid, pad_kv)
        multiplier = _logit_multiplier(logit_scale, qkv)
        weights = reference.attention_weights(query, key, bias_table, grid, scale, multiplier)
    return row_major(weights, grid).transpose(0, 1)


def _checked(
    qkv: Tensor,
    bias_table: Tensor | None,
    num_heads: int,
    window_size: int | Sequence[int],
    shift_size: int | Sequence[int],
    scale: float | None,
    logit_scale: Tensor | None,
    pad_kv: Tensor | None,
) -> tuple[WindowGrid, float]:
    """Check all arguments and return the geometry and the factor of plain logits."""
    check_qkv(qkv, num_heads)
    check_scale(scale)
    rows, columns = as_pair("window_size", window_size, minimum=1)
    shift = as_pair("shift_size", shift_size, minimum=0)
    if shift[0] >= rows or shift[1] >= columns:
        raise ValueError(f"shift_size is {shift_size!r}; expected less than window_size {window_size!r} on each axis")
    channels = qkv.shape[3] // 3
    if bias_table is not None:
        check_parameter("bias_table", bias_table, qkv, ((2 * rows - 1) * (2 * columns - 1), num_heads))
    if pad_kv is not None:
        check_parameter("pad_kv", pad_kv, qkv, (2, channels))
    if logit_scale is not None:
        check_parameter("logit_scale", logit_scale, qkv, (num_heads,), (num_heads, 1, 1))
        if scale is not None:
            raise ValueError(f"scale is {scale!r}; expected None where logit_scale is given, which replaces it")
    grid = WindowGrid((qkv.shape[1], qkv.shape[2]), (rows, columns), shift)
    return grid, (channels // num_heads) ** -0.5 if scale is None else float(scale)


def _logit_multiplier(logit_scale: Tensor | None, qkv: Tensor) -> Tensor | None:
    """Return exp(min(logit_scale, log 100)), (num_heads,), in the wide dtype."""
    if logit_scale is None:
        return None
    wide = wide_dtype(torch.promote_types(qkv.dtype, logit_scale.dtype))
    return logit_scale.flatten().to(wide).clamp(max=MAX_LOG_MULTIPLIER).exp()
