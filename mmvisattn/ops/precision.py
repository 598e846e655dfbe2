"""Which dtype the ops compute in."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

AUTOCAST_DEVICES = ("cpu", "cuda", "xpu", "mps", "hpu")


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of tables, softmax and sums: float32, or float64 for float64."""
    return torch.promote_types(dtype, torch.float32)


def autocast_is_on(tensor: Tensor) -> bool:
    """Return whether autocast is on where a tensor lives (torch cannot be asked on the meta device)."""
    device = tensor.device.type
    return device in AUTOCAST_DEVICES and torch.is_autocast_enabled(device)


def autocast_cast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Cast activations to the autocast dtype where autocast is on. float64 stays, as in PyTorch's own ops."""
    if not autocast_is_on(tensors[0]):
        return tensors
    dtype = torch.get_autocast_dtype(tensors[0].device.type)
    return tuple(t if t.dtype == torch.float64 else t.to(dtype) for t in tensors)


def no_autocast(tensor: Tensor) -> AbstractContextManager[object]:
    """Return a context in which the ops choose every dtype themselves."""
    return torch.autocast(tensor.device.type, enabled=False) if autocast_is_on(tensor) else nullcontext()
