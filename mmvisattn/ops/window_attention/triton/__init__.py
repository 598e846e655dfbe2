"""Fused window attention on NVIDIA GPUs, in Triton. Importing this registers the ops; it does not import Triton."""

from mmvisattn.ops.dispatch import TRITON_REFUSALS
from mmvisattn.ops.window_attention.triton.registration import window_attention
from mmvisattn.ops.window_attention.triton.support import why_not

__all__ = ["why_not", "window_attention"]

TRITON_REFUSALS["window_attention"] = why_not
