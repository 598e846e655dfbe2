"""Swin Transformer: who calls its parameters what.

Sources: github.com/microsoft/Swin-Transformer (and its detection and segmentation forks), timm, transformers,
torchvision, and the OpenMMLab libraries (mmdet, mmseg, mmpretrain). They differ in three ways that shapes do not show.
Patch merging stands at the end of a stage or, as here, at the start of the next one. OpenMMLab merges 2x2 pixels in
the order of nn.Unfold, the others column by column. And dense models keep one output norm per level where classifiers
have a final one.

Each function gives the names that one source uses in Swin V1 and V2 alike; what differs is passed in.
"""

from __future__ import annotations

from mmvisattn.checkpoints.key_map import Drop, KeyMap, Rename, own_names
from mmvisattn.checkpoints.transforms import TOKENS_TO_GRID, UNFOLD_TO_OFFICIAL

Rules = tuple[Rename | Drop, ...]

BLOCK = "stages.{s}.blocks.{b}."
DOWNSAMPLE = "stages.{s}.downsample.{unit:norm|reduction}.{param}"
OPTIONAL = ("out_norms.{s}.{param}",)

REBUILT = "a buffer that follows from the window size"
_FINAL_NORM = "the classifier's final norm; dense models learn one output norm per level"
_HEAD = "classification head"
_PRETRAINING = "used in masked pretraining only"

_TABLE = BLOCK + "token_mixer.relative_position_bias_table"
_QKV_AND_PROJ = BLOCK + "token_mixer.{unit:qkv|proj}.{param}"


def official_rules(downsample: str, mixer: Rules) -> Rules:
    """Return the rules of the official code, which timm shares but for the place of `downsample`."""
    block = "layers.{s}.blocks.{b}."
    return (
        Rename("patch_embed.{unit}.{param}", "patch_embed.{unit:proj|norm}.{param}"),
        Rename("absolute_pos_embed", "absolute_pos_embed", TOKENS_TO_GRID),
        Rename(downsample, DOWNSAMPLE),
        Rename(block + "{unit}.{param}", BLOCK + "{unit:norm1|norm2|mlp.fc1|mlp.fc2}.{param}"),
        Rename("norm{s}.{param}", "out_norms.{s}.{param}"),
        Drop(block + "attn.relative_position_index", REBUILT),
        Drop(block + "attn_mask", REBUILT),
        Drop("norm.{param}", _FINAL_NORM),
        Drop("head.{*}", _HEAD),
        Drop("mask_token", _PRETRAINING),
        *mixer,
    )


def transformers_rules(fc1: str, fc2: str, mixer: Rules) -> Rules:
    """Return the rules of transformers, for its names of the two layers of the MLP."""
    block = "encoder.layers.{s}.blocks.{b}."
    return (
        Rename("embeddings.patch_embeddings.projection.{param}", "patch_embed.proj.{param}"),
        Rename("embeddings.norm.{param}", "patch_embed.norm.{param}"),
        Rename("embeddings.position_embeddings", "absolute_pos_embed", TOKENS_TO_GRID),
        Rename("encoder.layers.{s-1}.downsample.{unit}.{param}", DOWNSAMPLE),
        Rename(block + "layernorm_before.{param}", BLOCK + "norm1.{param}"),
        Rename(block + "layernorm_after.{param}", BLOCK + "norm2.{param}"),
        Rename(block + fc1 + ".{param}", BLOCK + "mlp.fc1.{param}"),
        Rename(block + fc2 + ".{param}", BLOCK + "mlp.fc2.{param}"),
        Rename("hidden_states_norms.stage{s+1}.{param}", "out_norms.{s}.{param}"),
        Drop("embeddings.mask_token", _PRETRAINING),
        Drop("layernorm.{param}", _FINAL_NORM),
        Drop("swin.layernorm.{param}", _FINAL_NORM),  # files of SwinBackbone have the prefix on this key alone
        Drop("classifier.{param}", _HEAD),
        *mixer,
    )


def torchvision_rules(mixer: Rules) -> Rules:
    """Return the rules of torchvision."""
    block = "features.{2s+1}.{b}."
    return (
        Rename("features.0.0.{param}", "patch_embed.proj.{param}"),
        Rename("features.0.2.{param}", "patch_embed.norm.{param}"),
        Rename("features.{2s}.{unit}.{param}", DOWNSAMPLE),
        Rename(block + "{unit}.{param}", BLOCK + "{unit:norm1|norm2}.{param}"),
        Rename(block + "mlp.0.{param}", BLOCK + "mlp.fc1.{param}"),
        Rename(block + "mlp.3.{param}", BLOCK + "mlp.fc2.{param}"),
        Drop(block + "attn.relative_position_index", REBUILT),
        Drop("norm.{param}", _FINAL_NORM),
        Drop("head.{param}", _HEAD),
        *mixer,
    )


def openmmlab_rules(downsample: Rules, mixer: Rules) -> Rules:
    """Return the rules of mmdet, mmseg and mmpretrain."""
    block = "stages.{s}.blocks.{b}."
    return (
        Rename("patch_embed.projection.{param}", "patch_embed.proj.{param}"),
        Rename("patch_embed.norm.{param}", "patch_embed.norm.{param}"),
        Rename("absolute_pos_embed", "absolute_pos_embed", TOKENS_TO_GRID),
        Rename(block + "{unit}.{param}", BLOCK + "{unit:norm1|norm2}.{param}"),
        Rename(block + "ffn.layers.0.0.{param}", BLOCK + "mlp.fc1.{param}"),
        Rename(block + "ffn.layers.1.{param}", BLOCK + "mlp.fc2.{param}"),
        Rename("norm{s}.{param}", "out_norms.{s}.{param}"),
        Drop(block + "attn.w_msa.relative_position_index", REBUILT),
        Drop(block + "attn.attn_mask", REBUILT),
        Drop("head.{*}", _HEAD),
        *downsample,
        *mixer,
    )


def _own_mixer(block: str) -> Rules:
    return (
        Rename(block + "{unit}.{param}", _QKV_AND_PROJ),
        Rename(block + "relative_position_bias_table", _TABLE),
    )


def _transformers_mixer(query: str, key: str, value: str, output: str, table: str) -> Rules:
    attention = "encoder.layers.{s}.blocks.{b}.attention."
    pieces = tuple(attention + name + ".{param}" for name in (query, key, value))
    return (
        Rename(pieces, BLOCK + "token_mixer.qkv.{param}"),
        Rename(attention + output + ".{param}", BLOCK + "token_mixer.proj.{param}"),
        Rename(attention + table + ".relative_position_bias_table", _TABLE),
        Drop(attention + table + ".relative_position_index", REBUILT),
    )


_OFFICIAL_MIXER = _own_mixer("layers.{s}.blocks.{b}.attn.")
_HUB_MIXER = _transformers_mixer("self.query", "self.key", "self.value", "output.dense", "self")
_MEMORY_MIXER = _transformers_mixer("q_proj", "k_proj", "v_proj", "o_proj", "relative_position_bias")
_UNFOLDED = (Rename("stages.{s-1}.downsample.{unit}.{param}", DOWNSAMPLE, UNFOLD_TO_OFFICIAL),)

OFFICIAL = KeyMap("official", official_rules("layers.{s-1}.downsample.{unit}.{param}", _OFFICIAL_MIXER), OPTIONAL)
TIMM = KeyMap("timm", official_rules("layers.{s}.downsample.{unit}.{param}", _OFFICIAL_MIXER), OPTIONAL)
# What the hub stores and `save_pretrained` writes; and what `state_dict()` returns since transformers 5.
TRANSFORMERS = KeyMap("transformers", transformers_rules("intermediate.dense", "output.dense", _HUB_MIXER), OPTIONAL)
TRANSFORMERS_IN_MEMORY = KeyMap(
    "transformers in memory", transformers_rules("mlp.fc1", "mlp.fc2", _MEMORY_MIXER), OPTIONAL
)
TORCHVISION = KeyMap("torchvision", torchvision_rules(_own_mixer("features.{2s+1}.{b}.attn.")), OPTIONAL)
OPENMMLAB = KeyMap("OpenMMLab", openmmlab_rules(_UNFOLDED, _own_mixer("stages.{s}.blocks.{b}.attn.w_msa.")), OPTIONAL)

KEY_MAPS = (own_names(OPENMMLAB), OFFICIAL, TIMM, TRANSFORMERS, TRANSFORMERS_IN_MEMORY, TORCHVISION, OPENMMLAB)
