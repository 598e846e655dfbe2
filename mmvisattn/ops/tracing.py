"""Telling tensors that are computed now from those that only stand for a computation."""

from typing import Any

import torch
from torch import Tensor

_is_exporting: Any = getattr(torch.compiler, "is_exporting", lambda: False)  # PyTorch 2.6 cannot tell


def is_traced(tensor: Tensor) -> bool:
    """Return whether this call is recorded (compile, export, jit) or run on stand-ins for tensors.

    Such a call must not read values, keep tensors beyond itself, or take a path that only eager PyTorch can run.
    """
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return True
    return type(tensor) not in (Tensor, torch.nn.Parameter)


def is_compiled() -> bool:
    """Return whether `torch.compile` records this call, into a graph that runs in this process and may hold our ops."""
    return torch.compiler.is_dynamo_compiling() and not _is_exporting()
