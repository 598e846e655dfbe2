"""Swin Transformer: who calls its parameters what.

Sources: github.com/microsoft/Swin-Transformer (and its detection and segmentation forks), timm, transformers,
torchvision, and the OpenMMLab libraries. They differ in three ways that shapes do not show. Patch merging stands at
the end of a stage or, as here, at the start of the next one. OpenMMLab merges 2x2 pixels in the order of nn.Unfold,
the others column by column. And mmdet, mmseg and we keep one output norm per level where classifiers have a final one.
"""

from __future__ import annotations

from mmvisattn.checkpoints.key_map import Drop, KeyMap, Rename, own_names
from mmvisattn.checkpoints.transforms import TOKENS_TO_GRID, UNFOLD_TO_OFFICIAL

_BLOCK = "stages.{s}.blocks.{b}."
_TABLE = _BLOCK + "token_mixer.relative_position_bias_table"
_OPTIONAL = ("out_norms.{s}.{param}",)

_REBUILT = "a buffer that follows from the window size"
_FINAL_NORM = "the classifier's final norm; dense models learn one output norm per level"
_HEAD = "classification head"
_PRETRAINING = "used in masked pretraining only"


def _official(downsample: str) -> tuple[Rename | Drop, ...]:
    block = "layers.{s}.blocks.{b}."
    return (
        Rename("patch_embed.{unit}.{param}", "patch_embed.{unit:proj|norm}.{param}"),
        Rename("absolute_pos_embed", "absolute_pos_embed", TOKENS_TO_GRID),
        Rename(downsample, "stages.{s}.downsample.{unit:norm|reduction}.{param}"),
        Rename(block + "{unit}.{param}", _BLOCK + "{unit:norm1|norm2|mlp.fc1|mlp.fc2}.{param}"),
        Rename(block + "attn.{unit}.{param}", _BLOCK + "token_mixer.{unit:qkv|proj}.{param}"),
        Rename(block + "attn.relative_position_bias_table", _TABLE),
        Rename("norm{s}.{param}", "out_norms.{s}.{param}"),
        Drop(block + "attn.relative_position_index", _REBUILT),
        Drop(block + "attn_mask", _REBUILT),
        Drop("norm.{param}", _FINAL_NORM),
        Drop("head.{*}", _HEAD),
        Drop("mask_token", _PRETRAINING),
    )


OFFICIAL = KeyMap("official", _official("layers.{s-1}.downsample.{unit}.{param}"), _OPTIONAL)
TIMM = KeyMap("timm", _official("layers.{s}.downsample.{unit}.{param}"), _OPTIONAL)


def _transformers(
    query: str, key: str, value: str, output: str, table: str, fc1: str, fc2: str
) -> tuple[Rename | Drop, ...]:
    block = "encoder.layers.{s}.blocks.{b}."
    return (
        Rename("embeddings.patch_embeddings.projection.{param}", "patch_embed.proj.{param}"),
        Rename("embeddings.norm.{param}", "patch_embed.norm.{param}"),
        Rename("embeddings.position_embeddings", "absolute_pos_embed", TOKENS_TO_GRID),
        Rename("encoder.layers.{s-1}.downsample.{unit}.{param}", "stages.{s}.downsample.{unit:norm|reduction}.{param}"),
        Rename(block + "layernorm_before.{param}", _BLOCK + "norm1.{param}"),
        Rename(block + "layernorm_after.{param}", _BLOCK + "norm2.{param}"),
        Rename(
            tuple(block + f"attention.{part}.{{param}}" for part in (query, key, value)),
            _BLOCK + "token_mixer.qkv.{param}",
        ),
        Rename(block + f"attention.{output}.{{param}}", _BLOCK + "token_mixer.proj.{param}"),
        Rename(block + f"attention.{table}.relative_position_bias_table", _TABLE),
        Rename(block + fc1 + ".{param}", _BLOCK + "mlp.fc1.{param}"),
        Rename(block + fc2 + ".{param}", _BLOCK + "mlp.fc2.{param}"),
        Rename("hidden_states_norms.stage{s+1}.{param}", "out_norms.{s}.{param}"),
        Drop(block + f"attention.{table}.relative_position_index", _REBUILT),
        Drop("embeddings.mask_token", _PRETRAINING),
        Drop("layernorm.{param}", _FINAL_NORM),
        Drop("swin.layernorm.{param}", _FINAL_NORM),  # files of SwinBackbone have the prefix on this key alone
        Drop("classifier.{param}", _HEAD),
    )


# What the hub stores and `save_pretrained` writes.
TRANSFORMERS = KeyMap(
    "transformers",
    _transformers("self.query", "self.key", "self.value", "output.dense", "self", "intermediate.dense", "output.dense"),
    _OPTIONAL,
)
# What `state_dict()` of a model of transformers 5 returns.
TRANSFORMERS_IN_MEMORY = KeyMap(
    "transformers in memory",
    _transformers("q_proj", "k_proj", "v_proj", "o_proj", "relative_position_bias", "mlp.fc1", "mlp.fc2"),
    _OPTIONAL,
)

TORCHVISION = KeyMap(
    "torchvision",
    (
        Rename("features.0.0.{param}", "patch_embed.proj.{param}"),
        Rename("features.0.2.{param}", "patch_embed.norm.{param}"),
        Rename("features.{2s}.{unit}.{param}", "stages.{s}.downsample.{unit:norm|reduction}.{param}"),
        Rename("features.{2s+1}.{b}.{unit}.{param}", _BLOCK + "{unit:norm1|norm2}.{param}"),
        Rename("features.{2s+1}.{b}.attn.{unit}.{param}", _BLOCK + "token_mixer.{unit:qkv|proj}.{param}"),
        Rename("features.{2s+1}.{b}.attn.relative_position_bias_table", _TABLE),
        Rename("features.{2s+1}.{b}.mlp.0.{param}", _BLOCK + "mlp.fc1.{param}"),
        Rename("features.{2s+1}.{b}.mlp.3.{param}", _BLOCK + "mlp.fc2.{param}"),
        Drop("features.{2s+1}.{b}.attn.relative_position_index", _REBUILT),
        Drop("norm.{param}", _FINAL_NORM),
        Drop("head.{param}", _HEAD),
    ),
    _OPTIONAL,
)

OPENMMLAB = KeyMap(
    "OpenMMLab",
    (
        Rename("patch_embed.projection.{param}", "patch_embed.proj.{param}"),
        Rename("patch_embed.norm.{param}", "patch_embed.norm.{param}"),
        Rename("absolute_pos_embed", "absolute_pos_embed", TOKENS_TO_GRID),
        Rename(
            "stages.{s-1}.downsample.{unit}.{param}",
            "stages.{s}.downsample.{unit:norm|reduction}.{param}",
            UNFOLD_TO_OFFICIAL,
        ),
        Rename("stages.{s}.blocks.{b}.{unit}.{param}", _BLOCK + "{unit:norm1|norm2}.{param}"),
        Rename("stages.{s}.blocks.{b}.attn.w_msa.{unit}.{param}", _BLOCK + "token_mixer.{unit:qkv|proj}.{param}"),
        Rename("stages.{s}.blocks.{b}.attn.w_msa.relative_position_bias_table", _TABLE),
        Rename("stages.{s}.blocks.{b}.ffn.layers.0.0.{param}", _BLOCK + "mlp.fc1.{param}"),
        Rename("stages.{s}.blocks.{b}.ffn.layers.1.{param}", _BLOCK + "mlp.fc2.{param}"),
        Rename("norm{s}.{param}", "out_norms.{s}.{param}"),
        Drop("stages.{s}.blocks.{b}.attn.w_msa.relative_position_index", _REBUILT),
        Drop("stages.{s}.blocks.{b}.attn.attn_mask", _REBUILT),
        Drop("head.{*}", _HEAD),
    ),
    _OPTIONAL,
)

KEY_MAPS = (own_names(OPENMMLAB), OFFICIAL, TIMM, TRANSFORMERS, TRANSFORMERS_IN_MEMORY, TORCHVISION, OPENMMLAB)
