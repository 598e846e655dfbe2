"""Which calls the kernels take. Torch only: asking costs no import of Triton."""

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from mmvisattn.ops.tracing import is_traced
from mmvisattn.ops.window_attention.triton.registration import INTERPRETED

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
MAX_WINDOW = 32
MIN_HEAD_DIM, MAX_HEAD_DIM = 8, 128
MIN_CAPABILITY = (8, 0)
TRITON_IS_INSTALLED = find_spec("triton") is not None


def why_not(qkv: Tensor, *, num_heads: int, window_size: Sequence[int], **others: Any) -> str | None:
    """Return the sentence why the Triton kernels refuse a call of window attention, or None where they take it.

    Args:
        qkv: (B, H, W, 3C).
        num_heads: Number of heads.
        window_size: Rows and columns of a window, in tokens.
        others: The other arguments of the op; the kernels take all that the op's own checks let pass.
    """
    # A compiler looks through a cache and warns of it.
    refusal = _refused_device(qkv.device) if is_traced(qkv) else _remembered_device(qkv.device)
    if refusal is not None:
        return refusal
    if qkv.dtype not in DTYPES:
        return f"impl 'triton' refuses qkv of {qkv.dtype}; allowed are float32, float16 and bfloat16"
    if qkv.dtype == torch.bfloat16 and qkv.device.type == "cpu":
        return "impl 'triton' refuses bfloat16 on the CPU: Triton's interpreter does not compute with it correctly"
    head_dim = qkv.shape[3] // (3 * num_heads)
    if not MIN_HEAD_DIM <= head_dim <= MAX_HEAD_DIM:
        return f"impl 'triton' refuses heads of {head_dim} channels; allowed are {MIN_HEAD_DIM} to {MAX_HEAD_DIM}"
    if max(window_size) > MAX_WINDOW:
        return f"impl 'triton' refuses window_size {tuple(window_size)}; allowed are at most {MAX_WINDOW} per side"
    return None


@lru_cache
def _remembered_device(device: torch.device) -> str | None:
    """What `_refused_device` said; asking a GPU what it is takes longer than all else here."""
    return _refused_device(device)


def _refused_device(device: torch.device) -> str | None:
    if not TRITON_IS_INSTALLED:
        return "impl 'triton' needs the package triton, which is not installed"
    if device.type == "cpu":
        if INTERPRETED:
            return None
        return "impl 'triton' runs on a CPU only in Triton's interpreter: set TRITON_INTERPRET=1 before the import"
    if device.type != "cuda" or torch.version.hip is not None:
        return f"impl 'triton' refuses the device {device}; allowed are NVIDIA GPUs"
    capability = torch.cuda.get_device_capability(device)
    if capability < MIN_CAPABILITY:
        return f"impl 'triton' refuses compute capability {capability}; allowed is {MIN_CAPABILITY} or newer"
    return None
