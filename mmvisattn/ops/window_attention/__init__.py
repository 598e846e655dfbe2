"""Self-attention inside windows of a map (Swin, Swin V2)."""

from mmvisattn.ops.window_attention.api import window_attention, window_attention_weights

__all__ = ["window_attention", "window_attention_weights"]
