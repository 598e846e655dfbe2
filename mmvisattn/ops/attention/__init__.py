"""Attention of any queries to any keys, with an optional dense bias (ViT, BEiT, cross attention)."""

from mmvisattn.ops.attention.api import attention, attention_weights

__all__ = ["attention", "attention_weights"]
