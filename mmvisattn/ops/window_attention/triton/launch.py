"""Running the kernels on tensors: allocate, hand over pointers, launch what `plans.py` planned."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mmvisattn.ops.window_attention.triton.plans import Plan, Signature, backward_plan, forward_plan

GRADIENT_POINTERS = ("grad_qkv_ptr", "grad_table_ptr", "grad_multiplier_ptr", "grad_pad_ptr")


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
    batch, height, width, channels = qkv.shape
    out = qkv.new_empty((batch, height, width, channels // 3))
    if batch > 0:
        call = _signature(qkv, bias_table, multiplier, pad_kv, num_heads, window_size, shift_size, scale)
        pointers = _pointers(qkv, bias_table, multiplier, pad_kv if call.has_pad else None)
        pointers["out_ptr"] = out
        _run(forward_plan(call), pointers, qkv)
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
) -> list[Tensor]:
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
        The wanted gradients, that of qkv in its dtype, the others in float32.
    """
    call = _signature(qkv, bias_table, multiplier, pad_kv, num_heads, window_size, shift_size, scale)
    some = qkv.shape[0] > 0
    computed = [some and needed for needed in (*needs[:3], needs[3] and call.has_pad)]
    grads = {}
    inputs = (qkv, bias_table, multiplier, pad_kv)
    for name, tensor, needed, is_computed in zip(GRADIENT_POINTERS, inputs, needs, computed, strict=True):
        if needed:
            make = torch.empty if is_computed else torch.zeros
            dtype = qkv.dtype if tensor is qkv else torch.float32
            grads[name] = make(tensor.shape, dtype=dtype, device=qkv.device)
    if any(computed):
        plan = backward_plan(call, *computed)
        pointers = _pointers(qkv, bias_table, multiplier, pad_kv if call.has_pad else None) | grads
        pointers["grad_out_ptr"] = grad_out.contiguous()
        for name, shape in plan.scratch.items():
            pointers[name] = qkv.new_empty(shape, dtype=torch.float32)
        _run(plan, pointers, qkv)
    return list(grads.values())


def _run(plan: Plan, pointers: dict[str, Tensor | None], qkv: Tensor) -> None:
    with torch.cuda.device_of(qkv):
        for launch in plan.launches:
            tensors = {name: pointers.get(name) for name in launch.pointers}
            launch.kernel[(launch.programs,)](**tensors, **launch.arguments)


def _signature(
    qkv: Tensor,
    bias_table: Tensor | None,
    multiplier: Tensor | None,
    pad_kv: Tensor | None,
    num_heads: int,
    window_size: Sequence[int],
    shift_size: Sequence[int],
    scale: float,
) -> Signature:
    size, (rows, columns) = qkv.shape, window_size
    return Signature(
        size,
        qkv.dtype,
        qkv.device,
        num_heads,
        (rows, columns),
        tuple(shift_size),
        scale,
        bias_table is not None,
        multiplier is not None,
        pad_kv is not None and (size[1] % rows > 0 or size[2] % columns > 0),
        torch.backends.cuda.matmul.allow_tf32,
    )


def _pointers(
    qkv: Tensor, bias_table: Tensor | None, multiplier: Tensor | None, pad_kv: Tensor | None
) -> dict[str, Any]:
    """The inputs as the kernels read them, by the name of their pointer."""
    return {
        "qkv_ptr": qkv.contiguous(),
        "table_ptr": None if bias_table is None else bias_table.contiguous(),
        "multiplier_ptr": None if multiplier is None else multiplier.contiguous(),
        "pad_kv_ptr": None if pad_kv is None else pad_kv.to(qkv.dtype).contiguous(),
    }
