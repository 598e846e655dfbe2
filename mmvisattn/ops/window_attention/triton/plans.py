"""What a call launches: kernels, grids, sizes, compile-time constants and scratch memory, all but the tensors.

Calls of the same signature share one plan, from a bounded cache. The whole-window kernels run where the table of
configurations has a row for them, the tiled kernels elsewhere.
"""

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import torch
import triton

from mmvisattn.ops.window_attention.triton.configurations import (
    Configuration,
    architecture_of,
    cached_until_replaced,
    find_configuration,
)
from mmvisattn.ops.window_attention.triton.reduction import reduce_partials
from mmvisattn.ops.window_attention.triton.tiled_backward_keys import tiled_backward_keys_and_bias
from mmvisattn.ops.window_attention.triton.tiled_backward_queries import tiled_backward_queries
from mmvisattn.ops.window_attention.triton.tiled_forward import tiled_forward
from mmvisattn.ops.window_attention.triton.whole_window import whole_window_backward, whole_window_forward

SMALLEST_TILE = 16  # of a matrix instruction
INTERPRETED_PROCESSORS = 1  # few programs, so that the interpreter's loops over windows are loops

# Of the reduction: table entries and columns per program, rows per step. Small tiles, many programs.
REDUCTION = {"ENTRIES": 8, "COLUMNS": 32, "STEP": 128, "num_warps": 4}
OPTIONS = ("num_warps", "num_stages")


class Signature(NamedTuple):
    """What the launches of a call depend on."""

    size: torch.Size
    """(B, H, W, 3C), none of them zero."""
    dtype: torch.dtype
    device: torch.device
    heads: int
    window: tuple[int, int]
    shift: tuple[int, int]
    scale: float
    has_bias: bool
    cosine: bool
    has_pad: bool
    """Whether there are padded positions whose key and value are not zero."""
    allow_tf32: bool

    @property
    def head_dim(self) -> int:
        """Channels of a head."""
        return self.size[3] // (3 * self.heads)

    @property
    def tokens(self) -> int:
        """Tokens of a window."""
        return prod(self.window)

    @property
    def counts(self) -> tuple[int, int]:
        """Rows and columns of windows of one image."""
        return triton.cdiv(self.size[1], self.window[0]), triton.cdiv(self.size[2], self.window[1])

    @property
    def windows(self) -> int:
        """Windows of all images."""
        return self.size[0] * prod(self.counts)

    @property
    def precision(self) -> str:
        """Of products of float32 numbers."""
        return "tf32" if self.allow_tf32 else "ieee"

    def arguments(self) -> dict[str, Any]:
        """The arguments that all attention kernels share, without pointers."""
        return {
            "windows": self.windows,
            "height": self.size[1],
            "width": self.size[2],
            "heads": self.heads,
            "shift_y": self.shift[0],
            "shift_x": self.shift[1],
            "scale": self.scale,
            "HEAD_DIM": self.head_dim,
            "PADDED_DIM": _tile(self.head_dim),
            "WINDOW_H": self.window[0],
            "WINDOW_W": self.window[1],
            "HAS_BIAS": self.has_bias,
            "HAS_SHIFT": any(self.shift),
            "HAS_PAD": self.has_pad,
            "COSINE": self.cosine,
            "PRECISION": self.precision,
        }


class Launch(NamedTuple):
    """One kernel and all its arguments but the tensors."""

    kernel: Any
    programs: int
    pointers: tuple[str, ...]
    """Names of the arguments that are tensors, or None."""
    arguments: dict[str, Any]


class Plan(NamedTuple):
    """The launches of one pass over a layer."""

    launches: list[Launch]
    scratch: dict[str, tuple[int, ...]]
    """Shapes of the float32 buffers between launches, by the name of their pointer."""


@cached_until_replaced
def forward_plan(call: Signature) -> Plan:
    """One launch."""
    whole = _configuration("whole_forward", call)
    if whole is not None:
        splits = _splits(call, call.heads, whole)
        sizes = {"splits": splits, "SLOTS": _tile(call.tokens)}
        return Plan([_launch(whole_window_forward, splits * call.heads, call.arguments() | sizes | whole.options)], {})
    tiled = _tiled_configuration("tiled_forward", call)
    programs = call.windows * call.heads * triton.cdiv(call.tokens, tiled.block_q)
    return Plan([_launch(tiled_forward, programs, call.arguments() | tiled.blocks | tiled.options)], {})


@cached_until_replaced
def backward_plan(call: Signature, need_qkv: bool, need_table: bool, need_multiplier: bool, need_pad: bool) -> Plan:
    """At most three launches, without those that nothing needs: the last sums what the programs before it left."""
    needs = {
        "NEED_QKV": need_qkv,
        "NEED_TABLE": need_table,
        "NEED_MULTIPLIER": need_multiplier,
        "NEED_PAD": need_pad,
    }
    whole = _configuration("whole_backward" if call.has_bias else "whole_backward_no_table", call)
    if whole is not None:
        launches, scratch, stride = _whole_backward(call, whole, needs)
    else:
        launches, scratch, stride = _tiled_backward(call, needs)
    if need_table or need_multiplier or need_pad:
        launches.append(_reduction(call, scratch, stride, needs))
    return Plan(launches, scratch)


Launches = tuple[list[Launch], dict[str, tuple[int, ...]], int]
"""Launches, their scratch memory, and the side of the (query, key) matrices of the bias in it."""


def _whole_backward(call: Signature, configuration: Configuration, needs: dict[str, bool]) -> Launches:
    slots = _tile(call.tokens)
    splits = _splits(call, call.heads, configuration)
    scratch: dict[str, tuple[int, ...]] = {}
    if needs["NEED_TABLE"]:
        scratch["bias_partial_ptr"] = (splits, call.heads, slots, slots)
    if needs["NEED_MULTIPLIER"]:
        scratch["multiplier_partial_ptr"] = (splits, call.heads)
    if needs["NEED_PAD"]:
        scratch["pad_partial_ptr"] = (_windows_that_may_pad(call), 2, call.heads * call.head_dim)
    arguments = call.arguments() | needs | {"splits": splits, "SLOTS": slots} | configuration.options
    return [_launch(whole_window_backward, splits * call.heads, arguments)], scratch, slots


def _tiled_backward(call: Signature, needs: dict[str, bool]) -> Launches:
    queries = _tiled_configuration("tiled_backward_queries", call)
    keys = _tiled_configuration("tiled_backward_keys", call)
    tokens, heads, windows = call.tokens, call.heads, call.windows
    query_blocks, key_blocks = triton.cdiv(tokens, queries.block_q), triton.cdiv(tokens, keys.block_k)
    tiles = key_blocks * triton.cdiv(tokens, keys.block_q)
    bias_splits = _splits(call, heads * tiles, keys) if needs["NEED_TABLE"] else 0

    scratch: dict[str, tuple[int, ...]] = {"statistics_ptr": (windows, heads, 2, tokens)}
    if needs["NEED_TABLE"]:
        scratch["bias_partial_ptr"] = (bias_splits, heads, tokens, tokens)
    if needs["NEED_MULTIPLIER"]:
        scratch["multiplier_partial_ptr"] = (windows, query_blocks, heads)
    if needs["NEED_PAD"]:
        scratch["pad_partial_ptr"] = (_windows_that_may_pad(call), key_blocks, 2, heads * call.head_dim)

    arguments = call.arguments() | needs | {"bias_splits": bias_splits}
    by_query = _launch(
        tiled_backward_queries, windows * heads * query_blocks, arguments | queries.blocks | queries.options
    )
    programs = bias_splits * heads * tiles
    if needs["NEED_QKV"] or needs["NEED_PAD"]:
        programs += windows * heads * key_blocks
    by_key = _launch(tiled_backward_keys_and_bias, programs, arguments | keys.blocks | keys.options)
    return [by_query, by_key] if programs else [by_query], scratch, tokens


def _reduction(call: Signature, scratch: dict[str, tuple[int, ...]], stride: int, needs: dict[str, bool]) -> Launch:
    heads, channels = call.heads, call.heads * call.head_dim
    programs = 0
    if needs["NEED_TABLE"]:
        entries = (2 * call.window[0] - 1) * (2 * call.window[1] - 1)
        programs += heads * triton.cdiv(entries, REDUCTION["ENTRIES"])
    if needs["NEED_MULTIPLIER"]:
        programs += triton.cdiv(heads, REDUCTION["COLUMNS"])
    if needs["NEED_PAD"]:
        programs += triton.cdiv(2 * channels, REDUCTION["COLUMNS"])
    sizes = {
        "bias_rows": scratch.get("bias_partial_ptr", (0,))[0],
        "multiplier_rows": prod(scratch.get("multiplier_partial_ptr", (0,))) // heads,
        "pad_rows": prod(scratch.get("pad_partial_ptr", (0,))) // (2 * channels),
        "channels": channels,
        "STRIDE": stride,
    }
    return _launch(reduce_partials, programs, call.arguments() | needs | sizes | REDUCTION)


def _launch(kernel: Any, programs: int, arguments: dict[str, Any]) -> Launch:
    """The launch with those of the arguments that its kernel has, and the launch options."""
    pointers = tuple(name for name in kernel.arg_names if name.endswith("_ptr"))
    taken = {name: value for name, value in arguments.items() if name in kernel.arg_names or name in OPTIONS}
    return Launch(kernel, programs, pointers, taken)


def _configuration(op: str, call: Signature) -> Configuration | None:
    numbers = call.precision if call.dtype == torch.float32 else "half"
    return find_configuration(op, call.tokens, call.head_dim, numbers, architecture_of(call.device))


def _tiled_configuration(op: str, call: Signature) -> Configuration:
    found = _configuration(op, call)
    assert found is not None, "the table of configurations covers every call of the tiled kernels"
    return found


def _splits(call: Signature, programs_per_split: int, configuration: Configuration) -> int:
    """Programs that share the windows: enough to fill the device, each with the same number of windows but the last."""
    wanted = configuration.programs * _processors(call.device) // programs_per_split
    windows_each = triton.cdiv(call.windows, max(1, min(call.windows, wanted)))
    return triton.cdiv(call.windows, windows_each)


def _windows_that_may_pad(call: Signature) -> int:
    """Those in the last two rows and columns of windows, where `addressing.padded_window_number` counts them."""
    down, across = call.counts
    return call.size[0] * (down * across - max(down - 2, 0) * max(across - 2, 0))


@lru_cache
def _processors(device: torch.device) -> int:
    if device.type != "cuda":
        return INTERPRETED_PROCESSORS
    return torch.cuda.get_device_properties(device).multi_processor_count


def _tile(size: int) -> int:
    return max(SMALLEST_TILE, triton.next_power_of_2(size))
