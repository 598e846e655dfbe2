"""Telling tensors that are computed now from those that only stand for a computation."""

import torch
from torch import Tensor


def is_traced(tensor: Tensor) -> bool:
    """Return whether this call is recorded (compile, export, jit) or run on stand-ins for tensors.

    Such a call must not read values, keep tensors beyond itself, or take a path that only eager PyTorch can run.
    """
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return True
    return type(tensor) not in (Tensor, torch.nn.Parameter)
