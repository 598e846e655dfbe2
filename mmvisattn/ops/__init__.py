"""Attention on maps of tokens: functions on tensors that need PyTorch and nothing else.

Every op takes `impl="auto" | "reference" | "sdpa" | "triton"`. The reference is the specification; the others are
judged against it. A named implementation never falls back to another. `*_weights` gives the weights that a fused
implementation never stores.
"""

from mmvisattn.ops.attention import attention, attention_weights
from mmvisattn.ops.dispatch import Impl, why_not
from mmvisattn.ops.mask_unit_attention import mask_unit_attention, mask_unit_attention_weights
from mmvisattn.ops.relative_position_attention import relative_position_attention, relative_position_attention_weights
from mmvisattn.ops.window_attention import window_attention, window_attention_weights
from mmvisattn.ops.windows import SHIFT_MASK

__all__ = [
    "Impl",
    "SHIFT_MASK",
    "attention",
    "attention_weights",
    "mask_unit_attention",
    "mask_unit_attention_weights",
    "relative_position_attention",
    "relative_position_attention_weights",
    "why_not",
    "window_attention",
    "window_attention_weights",
]
