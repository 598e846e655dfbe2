"""Swin Transformer V2: who calls its parameters what.

Outside attention all sources use their names of V1, with two exceptions in OpenMMLab: patch merging stands at the
start of a stage, and its norm, which follows the reduction in V2, is not permuted. In attention the bias of queries
and values is a parameter each and keys have none: sources that store one bias for all three do not use its middle.
The released SimMIM files are those of the official code, some with an older name for the position network.
"""

from __future__ import annotations

from mmvisattn.checkpoints.key_map import Drop, KeyMap, Rename, own_names
from mmvisattn.checkpoints.maps.swin import (
    BLOCK,
    OPTIONAL,
    REBUILT,
    Rules,
    official_rules,
    openmmlab_rules,
    torchvision_rules,
    transformers_rules,
)
from mmvisattn.checkpoints.transforms import UNFOLD_TO_OFFICIAL

_MIXER = BLOCK + "token_mixer."
_POSITION_NETWORK = _MIXER + "cpb_mlp.{layer:0|2}.{param}"


def _mixer(block: str) -> Rules:
    return (
        Rename(block + "qkv.weight", _MIXER + "qkv.weight"),
        Rename(block + "proj.{param}", _MIXER + "proj.{param}"),
        Rename(block + "{unit}", _MIXER + "{unit:q_bias|v_bias|logit_scale}"),
        Rename(block + "cpb_mlp.{layer}.{param}", _POSITION_NETWORK),
        Drop(block + "relative_coords_table", REBUILT),
    )


def _official_mixer() -> Rules:
    block = "layers.{s}.blocks.{b}."
    return (
        *_mixer(block + "attn."),
        Rename(block + "attn.rpe_mlp.{layer}.{param}", _POSITION_NETWORK, legacy=True),
        Rename(block + "norm3.{param}", BLOCK + "norm3.{param}"),
    )


def _transformers_mixer() -> Rules:
    attention = "encoder.layers.{s}.blocks.{b}.attention."
    pieces = tuple(attention + f"self.{name}.weight" for name in ("query", "key", "value"))
    return (
        Rename(pieces, _MIXER + "qkv.weight"),
        Rename(attention + "self.query.bias", _MIXER + "q_bias"),
        Rename(attention + "self.value.bias", _MIXER + "v_bias"),
        Rename(attention + "self.logit_scale", _MIXER + "logit_scale"),
        Rename(attention + "self.continuous_position_bias_mlp.{layer}.{param}", _POSITION_NETWORK),
        Rename(attention + "output.dense.{param}", _MIXER + "proj.{param}"),
        Drop(attention + "self.{unit:relative_coords_table|relative_position_index}", REBUILT),
        Drop("swinv2.layernorm.{param}", "the final norm of a file whose other keys have no prefix"),
    )


def _torchvision_mixer() -> Rules:
    block = "features.{2s+1}.{b}.attn."
    return (
        Rename(block + "qkv.weight", _MIXER + "qkv.weight"),
        # its forward sets the keys' third of the bias to zero
        Rename(block + "qkv.bias", (_MIXER + "q_bias", None, _MIXER + "v_bias")),
        Rename(block + "proj.{param}", _MIXER + "proj.{param}"),
        Rename(block + "logit_scale", _MIXER + "logit_scale"),
        Rename(block + "cpb_mlp.{layer}.{param}", _POSITION_NETWORK),
        Drop(block + "relative_coords_table", REBUILT),
    )


def _openmmlab_mixer() -> Rules:
    block = "stages.{s}.blocks.{b}."
    return (*_mixer(block + "attn.w_msa."), Rename(block + "norm3.{param}", BLOCK + "norm3.{param}"))


_UNFOLDED_REDUCTION = (
    Rename("stages.{s}.downsample.reduction.weight", "stages.{s}.downsample.reduction.weight", UNFOLD_TO_OFFICIAL),
    Rename("stages.{s}.downsample.norm.{param}", "stages.{s}.downsample.norm.{param}"),
)

OFFICIAL = KeyMap("official", official_rules("layers.{s-1}.downsample.{unit}.{param}", _official_mixer()), OPTIONAL)
TIMM = KeyMap("timm", official_rules("layers.{s}.downsample.{unit}.{param}", _official_mixer()), OPTIONAL)
TRANSFORMERS = KeyMap(
    "transformers", transformers_rules("intermediate.dense", "output.dense", _transformers_mixer()), OPTIONAL
)
TORCHVISION = KeyMap("torchvision", torchvision_rules(_torchvision_mixer()), OPTIONAL)
OPENMMLAB = KeyMap("OpenMMLab", openmmlab_rules(_UNFOLDED_REDUCTION, _openmmlab_mixer()), OPTIONAL)

KEY_MAPS = (own_names(OPENMMLAB), OFFICIAL, TIMM, TRANSFORMERS, TORCHVISION, OPENMMLAB)
