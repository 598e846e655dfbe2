"""Self-attention with decomposed relative positions (MViT, ViTDet, SAM)."""

from mmvisattn.ops.relative_position_attention.api import (
    relative_position_attention,
    relative_position_attention_weights,
)

__all__ = ["relative_position_attention", "relative_position_attention_weights"]
