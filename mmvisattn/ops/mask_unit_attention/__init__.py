"""Self-attention inside mask units, with pooled queries (Hiera, SAM 2)."""

from mmvisattn.ops.mask_unit_attention.api import mask_unit_attention, mask_unit_attention_weights

__all__ = ["mask_unit_attention", "mask_unit_attention_weights"]
