"""Checks of the arguments that the ops share. Each raises in one sentence: the argument, its value, what is allowed."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check_float_tensor(name: str, tensor: object) -> None:
    """Raise unless `tensor` is a tensor of a floating dtype that the ops compute in."""
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{name} must be a tensor, not {type(tensor).__name__}")
    if tensor.dtype not in FLOATS:
        raise ValueError(f"{name} has dtype {tensor.dtype}; allowed are float16, bfloat16, float32 and float64")


def check_parameter(name: str, tensor: Tensor, like: Tensor, *shapes: tuple[int, ...]) -> None:
    """Raise unless `tensor` is a float tensor of one of `shapes`, on the device of `like`."""
    check_float_tensor(name, tensor)
    if tuple(tensor.shape) not in shapes:
        allowed = " or ".join(str(shape) for shape in shapes)
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected {allowed}")
    if tensor.device != like.device:
        raise ValueError(f"{name} is on {tensor.device}; expected {like.device}, the device of the activations")


def check_matrix(name: str, tensor: Tensor) -> None:
    """Raise unless `tensor` is a float tensor of two axes, neither empty."""
    check_float_tensor(name, tensor)
    if tensor.ndim != 2 or 0 in tensor.shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected two axes, neither empty")


def check_qkv(qkv: Tensor, num_heads: int) -> None:
    """Raise unless `qkv` is (B, H, W, 3*num_heads*D) with H, W >= 1."""
    check_float_tensor("qkv", qkv)
    if qkv.ndim != 4:
        raise ValueError(f"qkv has shape {tuple(qkv.shape)}; expected (B, H, W, 3*C)")
    if qkv.shape[1] < 1 or qkv.shape[2] < 1:
        raise ValueError(f"qkv has a map of {qkv.shape[1]} x {qkv.shape[2]} tokens; expected at least 1 x 1")
    check_count("num_heads", num_heads)
    if qkv.shape[3] < 3 or qkv.shape[3] % (3 * num_heads) != 0:
        raise ValueError(
            f"num_heads is {num_heads} and qkv has {qkv.shape[3]} channels; expected 3*C with num_heads dividing C"
        )


def check_scale(scale: float | None) -> None:
    """Raise unless `scale` is None or a finite number."""
    if scale is None:
        return
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not math.isfinite(scale):
        raise ValueError(f"scale is {scale!r}; expected a finite number, or None for D**-0.5")


def as_pair(name: str, value: int | Sequence[int], minimum: int) -> tuple[int, int]:
    """Return `value` as (rows, columns), each at least `minimum`."""
    pair = (value, value) if isinstance(value, int) else value
    is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
    if not is_pair or not is_count(pair[0], minimum) or not is_count(pair[1], minimum):
        raise ValueError(f"{name} is {value!r}; expected an int, or (rows, columns), of at least {minimum}")
    return pair[0], pair[1]


def check_count(name: str, value: int) -> None:
    """Raise unless `value` is an int of at least 1."""
    if not is_count(value, minimum=1):
        raise ValueError(f"{name} is {value!r}; expected an int of at least 1")


def is_count(value: object, minimum: int) -> bool:
    """Return whether `value` is an int, and no bool, of at least `minimum`."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= minimum
