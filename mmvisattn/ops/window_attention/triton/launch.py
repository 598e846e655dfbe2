"""Launchers: allocate, choose a configuration and call the kernels. The only module that knows both torch and kernels.

The whole-window kernels run where the table of configurations has an entry for them, the tiled kernels elsewhere.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import torch
import triton
from torch import Tensor

from mmvisattn.ops.window_attention.triton.configurations import Configuration, architecture_of, find_configuration
from mmvisattn.ops.window_attention.triton.reduction import reduce_partials
from mmvisattn.ops.window_attention.triton.tiled_backward_keys import tiled_backward_keys_and_bias
from mmvisattn.ops.window_attention.triton.tiled_backward_queries import tiled_backward_queries
from mmvisattn.ops.window_attention.triton.tiled_forward import tiled_forward
from mmvisattn.ops.window_attention.triton.whole_window import whole_window_backward, whole_window_forward

SMALLEST_TILE = 16  # of a matrix instruction
INTERPRETED_PROCESSORS = 1  # few programs, so that the interpreter's loops over windows are loops

# Of the reduction: table entries and columns per program, rows per step. Small tiles, many programs.
REDUCTION = {"ENTRIES": 8, "COLUMNS": 32, "STEP": 128, "num_warps": 4}


def forward(
    qkv: Tensor,
    bias_table: Tensor | None,
    multiplier: Tensor | None,
    pad_kv: Tensor | None,
    num_heads: int,
    window_size: Sequence[int],
    shift_size: Sequence[int],
    scale: float,
) -> Tensor:
    """Window attention, (B, H, W, 3C) to (B, H, W, C), in one launch.

    Args:
        qkv: (B, H, W, 3C), float32, float16 or bfloat16.
        bias_table: ((2h-1)*(2w-1), num_heads) or None.
        multiplier: (num_heads,) factor of cosine logits, or None for plain logits.
        pad_kv: (2, C) key and value of padded positions; None for zeros.
        num_heads: Number of heads.
        window_size: Rows and columns of a window, in tokens.
        shift_size: Rows and columns of the cyclic shift, in tokens.
        scale: Factor of plain logits.
    """
    out = torch.empty((*qkv.shape[:3], qkv.shape[3] // 3), dtype=qkv.dtype, device=qkv.device)
    if out.numel() == 0:
        return out
    arguments = _arguments(qkv, bias_table, multiplier, pad_kv, num_heads, window_size, shift_size, scale)
    tokens = prod(window_size)
    whole = _configuration("whole_forward", qkv, arguments)
    with torch.cuda.device_of(qkv):
        if whole is not None:
            splits = _splits(arguments["windows"], num_heads, whole, qkv.device)
            whole_window_forward[(splits * num_heads,)](
                out_ptr=out, splits=splits, SLOTS=_tile(tokens), **arguments, **whole.options
            )
        else:
            tiled = _configuration("tiled_forward", qkv, arguments)
            assert tiled is not None, "the table of configurations covers every call of the tiled kernels"
            blocks = triton.cdiv(tokens, tiled.block_q)
            tiled_forward[(arguments["windows"] * num_heads * blocks,)](
                out_ptr=out, **arguments, **tiled.blocks, **tiled.options
            )
    return out


def backward(
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
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of `forward`, in at most three launches, without atomics: the same bits on every run.

    Args:
        grad_out: (B, H, W, C).
        qkv: As in `forward`.
        bias_table: As in `forward`.
        multiplier: As in `forward`.
        pad_kv: As in `forward`.
        num_heads: As in `forward`.
        window_size: As in `forward`.
        shift_size: As in `forward`.
        scale: As in `forward`.
        needs: Which of the gradients of qkv, bias_table, multiplier and pad_kv are wanted.

    Returns:
        The four gradients, that of qkv in its dtype, the others in float32; empty where not wanted.
    """
    arguments = _arguments(qkv, bias_table, multiplier, pad_kv, num_heads, window_size, shift_size, scale)
    need_qkv, need_table, need_multiplier, need_pad = needs
    grads = (
        _empty(qkv.shape if need_qkv else (0,), qkv, qkv.dtype),
        _zeros(bias_table if need_table else None, qkv),
        _zeros(multiplier if need_multiplier else None, qkv),
        _zeros(pad_kv if need_pad else None, qkv),
    )
    need_pad = need_pad and arguments["HAS_PAD"]
    if qkv.numel() == 0 or not any((need_qkv, need_table, need_multiplier, need_pad)):
        return grads
    arguments.update(grad_out_ptr=grad_out.contiguous(), grad_qkv_ptr=grads[0])
    flags = {"NEED_TABLE": need_table, "NEED_MULTIPLIER": need_multiplier, "NEED_PAD": need_pad}
    op = "whole_backward" if arguments["HAS_BIAS"] else "whole_backward_no_table"
    whole = _configuration(op, qkv, arguments)
    with torch.cuda.device_of(qkv):
        if whole is not None:
            partials, stride = _launch_whole_backward(qkv, whole, arguments, need_qkv, flags)
        else:
            partials, stride = _launch_tiled_backward(qkv, arguments, need_qkv, flags)
        if any(flags.values()):
            _launch_reduction(partials, grads[1:], stride, arguments, flags)
    return grads


def _launch_whole_backward(
    qkv: Tensor, configuration: Configuration, arguments: dict[str, Any], need_qkv: bool, flags: dict[str, bool]
) -> tuple[list[Tensor | None], int]:
    """One launch. Returns the partial gradients of table, multiplier and padding, and the side of the bias tiles."""
    heads, slots = arguments["heads"], _tile(arguments["WINDOW_H"] * arguments["WINDOW_W"])
    splits = _splits(arguments["windows"], heads, configuration, qkv.device)
    pad_shape = (_windows_that_may_pad(qkv, arguments), 2, heads * arguments["HEAD_DIM"])
    partials = [
        _empty((splits, heads, slots, slots), qkv) if flags["NEED_TABLE"] else None,
        _empty((splits, heads), qkv) if flags["NEED_MULTIPLIER"] else None,
        _empty(pad_shape, qkv) if flags["NEED_PAD"] else None,
    ]
    whole_window_backward[(splits * heads,)](
        bias_partial_ptr=partials[0],
        multiplier_partial_ptr=partials[1],
        pad_partial_ptr=partials[2],
        splits=splits,
        SLOTS=slots,
        NEED_QKV=need_qkv,
        **flags,
        **arguments,
        **configuration.options,
    )
    return partials, slots


def _launch_tiled_backward(
    qkv: Tensor, arguments: dict[str, Any], need_qkv: bool, flags: dict[str, bool]
) -> tuple[list[Tensor | None], int]:
    """Two launches. Returns as `_launch_whole_backward`."""
    heads, windows = arguments["heads"], arguments["windows"]
    tokens = arguments["WINDOW_H"] * arguments["WINDOW_W"]
    queries = _configuration("tiled_backward_queries", qkv, arguments)
    keys = _configuration("tiled_backward_keys", qkv, arguments)
    assert queries is not None and keys is not None, "the table of configurations covers every call of tiled kernels"
    statistics = _empty((windows, heads, 2, tokens), qkv)

    query_blocks = triton.cdiv(tokens, queries.block_q)
    multiplier_partial = _empty((windows, query_blocks, heads), qkv) if flags["NEED_MULTIPLIER"] else None
    tiled_backward_queries[(windows * heads * query_blocks,)](
        statistics_ptr=statistics,
        multiplier_partial_ptr=multiplier_partial,
        NEED_QKV=need_qkv,
        NEED_MULTIPLIER=flags["NEED_MULTIPLIER"],
        **arguments,
        **queries.blocks,
        **queries.options,
    )

    key_blocks = triton.cdiv(tokens, keys.block_k)
    tiles = key_blocks * triton.cdiv(tokens, keys.block_q)
    programs = windows * heads * key_blocks if need_qkv or flags["NEED_PAD"] else 0
    bias_splits = _splits(windows, heads * tiles, keys, qkv.device) if flags["NEED_TABLE"] else 0
    bias_partial = _empty((bias_splits, heads, tokens, tokens), qkv) if flags["NEED_TABLE"] else None
    pad_shape = (_windows_that_may_pad(qkv, arguments), key_blocks, 2, heads * arguments["HEAD_DIM"])
    pad_partial = _empty(pad_shape, qkv) if flags["NEED_PAD"] else None
    programs += bias_splits * heads * tiles
    if programs:
        tiled_backward_keys_and_bias[(programs,)](
            statistics_ptr=statistics,
            bias_partial_ptr=bias_partial,
            pad_partial_ptr=pad_partial,
            bias_splits=bias_splits,
            NEED_QKV=need_qkv,
            NEED_TABLE=flags["NEED_TABLE"],
            NEED_PAD=flags["NEED_PAD"],
            **arguments,
            **keys.blocks,
            **keys.options,
        )
    return [bias_partial, multiplier_partial, pad_partial], tokens


def _launch_reduction(
    partials: list[Tensor | None],
    grads: Sequence[Tensor],
    stride: int,
    arguments: dict[str, Any],
    flags: dict[str, bool],
) -> None:
    """One launch: sum the partial gradients of table, multiplier and padding in a fixed order."""
    heads, channels = arguments["heads"], arguments["heads"] * arguments["HEAD_DIM"]
    bias, multiplier, pad = partials
    programs = 0
    if flags["NEED_TABLE"]:
        programs += heads * triton.cdiv(grads[0].shape[0], REDUCTION["ENTRIES"])
    if flags["NEED_MULTIPLIER"]:
        programs += triton.cdiv(heads, REDUCTION["COLUMNS"])
    if flags["NEED_PAD"]:
        programs += triton.cdiv(2 * channels, REDUCTION["COLUMNS"])
    reduce_partials[(programs,)](
        bias_partial_ptr=bias,
        multiplier_partial_ptr=multiplier,
        pad_partial_ptr=pad,
        grad_table_ptr=grads[0] if bias is not None else None,
        grad_multiplier_ptr=grads[1] if multiplier is not None else None,
        grad_pad_ptr=grads[2] if pad is not None else None,
        bias_rows=0 if bias is None else bias.shape[0],
        multiplier_rows=0 if multiplier is None else multiplier.numel() // heads,
        pad_rows=0 if pad is None else pad.numel() // (2 * channels),
        heads=heads,
        channels=channels,
        WINDOW_H=arguments["WINDOW_H"],
        WINDOW_W=arguments["WINDOW_W"],
        STRIDE=stride,
        **flags,
        **REDUCTION,
    )


def _arguments(
    qkv: Tensor,
    bias_table: Tensor | None,
    multiplier: Tensor | None,
    pad_kv: Tensor | None,
    num_heads: int,
    window_size: Sequence[int],
    shift_size: Sequence[int],
    scale: float,
) -> dict[str, Any]:
    """The arguments that all attention kernels share, by name."""
    batch, height, width, channels = qkv.shape
    rows, columns = window_size
    head_dim = channels // (3 * num_heads)
    padded = height % rows > 0 or width % columns > 0
    return {
        "qkv_ptr": qkv.contiguous(),
        "table_ptr": None if bias_table is None else bias_table.contiguous(),
        "multiplier_ptr": None if multiplier is None else multiplier.contiguous(),
        "pad_kv_ptr": pad_kv.to(qkv.dtype).contiguous() if padded and pad_kv is not None else None,
        "windows": batch * triton.cdiv(height, rows) * triton.cdiv(width, columns),
        "height": height,
        "width": width,
        "heads": num_heads,
        "shift_y": shift_size[0],
        "shift_x": shift_size[1],
        "scale": scale,
        "HEAD_DIM": head_dim,
        "PADDED_DIM": _tile(head_dim),
        "WINDOW_H": rows,
        "WINDOW_W": columns,
        "HAS_BIAS": bias_table is not None,
        "HAS_SHIFT": any(shift_size),
        "HAS_PAD": padded and pad_kv is not None,
        "COSINE": multiplier is not None,
        "PRECISION": "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee",
    }


def _configuration(op: str, qkv: Tensor, arguments: dict[str, Any]) -> Configuration | None:
    tokens = arguments["WINDOW_H"] * arguments["WINDOW_W"]
    numbers = arguments["PRECISION"] if qkv.dtype == torch.float32 else "half"
    return find_configuration(op, tokens, arguments["HEAD_DIM"], numbers, architecture_of(qkv.device))


def _splits(windows: int, programs_per_split: int, configuration: Configuration, device: torch.device) -> int:
    """Programs that share the windows: enough to fill the device, each with the same number of windows but the last."""
    wanted = configuration.programs * _processors(device) // programs_per_split
    windows_each = triton.cdiv(windows, max(1, min(windows, wanted)))
    return triton.cdiv(windows, windows_each)


def _windows_that_may_pad(qkv: Tensor, arguments: dict[str, Any]) -> int:
    """Those in the last two rows and columns of windows, where `addressing.padded_window_number` counts them."""
    down = triton.cdiv(qkv.shape[1], arguments["WINDOW_H"])
    across = triton.cdiv(qkv.shape[2], arguments["WINDOW_W"])
    return qkv.shape[0] * (down * across - max(down - 2, 0) * max(across - 2, 0))


@lru_cache
def _processors(device: torch.device) -> int:
    if device.type != "cuda":
        return INTERPRETED_PROCESSORS
    return torch.cuda.get_device_properties(device).multi_processor_count


def _tile(size: int) -> int:
    return max(SMALLEST_TILE, triton.next_power_of_2(size))


def _empty(shape: Sequence[int], like: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, dtype=dtype, device=like.device)


def _zeros(parameter: Tensor | None, like: Tensor) -> Tensor:
    shape = (0,) if parameter is None else parameter.shape
    return torch.zeros(shape, dtype=torch.float32, device=like.device)
