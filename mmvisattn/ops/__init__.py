"""Attention on maps of tokens: functions on tensors that need PyTorch and nothing else.

Every op takes `impl="auto" | "reference" | "sdpa" | "triton"`. The reference is the specification; the others are
judged against it. A named implementation never falls back to another.
"""

from mmvisattn.ops.dispatch import Impl, why_not
from mmvisattn.ops.window_attention import window_attention, window_attention_weights
from mmvisattn.ops.windows import SHIFT_MASK

__all__ = ["Impl", "SHIFT_MASK", "why_not", "window_attention", "window_attention_weights"]
