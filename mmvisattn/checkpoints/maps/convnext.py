"""ConvNeXt V1 and V2: who calls their parameters what.

Sources: github.com/facebookresearch/ConvNeXt and ConvNeXt-V2, timm, transformers, torchvision, mmpretrain, DINOv3, and
the sparse encoders that ConvNeXt V2's masked pretraining (FCMAE) saves. The two layers of an MLP are linear in our
models; timm and mmpretrain have variants that store them as 1x1 convolutions. Some keep extra axes of length 1 on
layer scales and on the parameters of global response normalisation (GRN).
"""

from __future__ import annotations

from mmvisattn.checkpoints.key_map import Drop, KeyMap, Rename, own_names
from mmvisattn.checkpoints.transforms import CONV_TO_LINEAR, SPARSE_TO_DENSE, vector

Rules = tuple[Rename | Drop, ...]

_BLOCK = "stages.{s}.blocks.{b}."
_NORM, _CONV = "stages.{s}.downsample.norm.{param}", "stages.{s}.downsample.conv.{param}"
# The same for sources whose item 0 is the patch embedding.
_LATER_NORM, _LATER_CONV = "stages.{s+1}.downsample.norm.{param}", "stages.{s+1}.downsample.conv.{param}"
_GRN = _BLOCK + "mlp.grn.{unit:gamma|beta}"
_OUT_NORM = "out_norms.{s}.{param}"
_OPTIONAL = (_OUT_NORM,)

_FINAL_NORM = "the classifier's final norm; dense models learn one output norm per level"
_HEAD = "classification head"


def _mlp(fc1: str, fc2: str, convolutions: bool = False) -> Rules:
    if not convolutions:
        return (
            Rename(fc1 + ".{param}", _BLOCK + "mlp.fc1.{param}"),
            Rename(fc2 + ".{param}", _BLOCK + "mlp.fc2.{param}"),
        )
    return (
        Rename(fc1 + ".weight", _BLOCK + "mlp.fc1.weight", CONV_TO_LINEAR),
        Rename(fc1 + ".bias", _BLOCK + "mlp.fc1.bias"),
        Rename(fc2 + ".weight", _BLOCK + "mlp.fc2.weight", CONV_TO_LINEAR),
        Rename(fc2 + ".bias", _BLOCK + "mlp.fc2.bias"),
    )


def _official_stem_and_levels() -> Rules:
    return (
        Rename("downsample_layers.0.0.{param}", "patch_embed.proj.{param}"),
        Rename("downsample_layers.0.1.{param}", "patch_embed.norm.{param}"),
        Rename("norm{s}.{param}", _OUT_NORM),
        Drop("norm.{param}", _FINAL_NORM),
        Drop("norms.{s}.{param}", _FINAL_NORM),  # DINOv3's other name for it
        Drop("head.{*}", _HEAD),
    )


def _official() -> Rules:
    block = "stages.{s}.{b}."
    return (
        *_official_stem_and_levels(),
        Rename("downsample_layers.{s+1}.0.{param}", _LATER_NORM),
        Rename("downsample_layers.{s+1}.1.{param}", _LATER_CONV),
        Rename(block + "dwconv.{param}", _BLOCK + "token_mixer.{param}"),
        Rename(block + "norm.{param}", _BLOCK + "norm.{param}"),
        *_mlp(block + "pwconv1", block + "pwconv2"),
        Rename(block + "grn.{unit}", _GRN, vector(1, 1, 1, -1)),
        Rename(block + "gamma", _BLOCK + "gamma"),
    )


def _fcmae() -> Rules:
    block = "stages.{s}.{b}."
    return (
        *_official_stem_and_levels(),
        Rename("downsample_layers.{s+1}.0.ln.{param}", _LATER_NORM),
        Rename("downsample_layers.{s+1}.1.kernel", "stages.{s+1}.downsample.conv.weight", SPARSE_TO_DENSE),
        Rename("downsample_layers.{s+1}.1.bias", "stages.{s+1}.downsample.conv.bias", vector(1, -1)),
        Rename(block + "dwconv.kernel", _BLOCK + "token_mixer.weight", SPARSE_TO_DENSE),
        Rename(block + "dwconv.bias", _BLOCK + "token_mixer.bias", vector(1, -1)),
        Rename(block + "norm.ln.{param}", _BLOCK + "norm.{param}"),
        *_mlp(block + "pwconv1.linear", block + "pwconv2.linear"),
        Rename(block + "grn.{unit}", _GRN, vector(1, -1)),
        # files of which a part has the names of the dense model already
        Rename("downsample_layers.{s+1}.0.{param}", _LATER_NORM, legacy=True),
        Rename("downsample_layers.{s+1}.1.weight", "stages.{s+1}.downsample.conv.weight", legacy=True),
        Rename(block + "dwconv.weight", _BLOCK + "token_mixer.weight", legacy=True),
        Rename(block + "norm.{param}", _BLOCK + "norm.{param}", legacy=True),
        Rename(block + "pwconv1.{param}", _BLOCK + "mlp.fc1.{param}", legacy=True),
        Rename(block + "pwconv2.{param}", _BLOCK + "mlp.fc2.{param}", legacy=True),
    )


def _timm(convolutions: bool) -> Rules:
    block = "stages.{s}.blocks.{b}."
    return (
        Rename("stem.0.{param}", "patch_embed.proj.{param}"),
        Rename("stem.1.{param}", "patch_embed.norm.{param}"),
        Rename("stages.{s}.downsample.0.{param}", _NORM),
        Rename("stages.{s}.downsample.1.{param}", _CONV),
        Rename(block + "conv_dw.{param}", _BLOCK + "token_mixer.{param}"),
        Rename(block + "norm.{param}", _BLOCK + "norm.{param}"),
        *_mlp(block + "mlp.fc1", block + "mlp.fc2", convolutions),
        Rename(block + "mlp.grn.weight", _BLOCK + "mlp.grn.gamma"),
        Rename(block + "mlp.grn.bias", _BLOCK + "mlp.grn.beta"),
        Rename(block + "gamma", _BLOCK + "gamma"),
        Drop("norm_pre.{param}", _FINAL_NORM),
        Drop("head.{*}", _HEAD),
    )


def _transformers() -> Rules:
    block = "encoder.stages.{s}.layers.{b}."
    return (
        Rename("embeddings.patch_embeddings.{param}", "patch_embed.proj.{param}"),
        Rename("embeddings.layernorm.{param}", "patch_embed.norm.{param}"),
        Rename("encoder.stages.{s}.downsampling_layer.0.{param}", _NORM),
        Rename("encoder.stages.{s}.downsampling_layer.1.{param}", _CONV),
        Rename(block + "dwconv.{param}", _BLOCK + "token_mixer.{param}"),
        Rename(block + "layernorm.{param}", _BLOCK + "norm.{param}"),
        *_mlp(block + "pwconv1", block + "pwconv2"),
        Rename(block + "grn.weight", _BLOCK + "mlp.grn.gamma", vector(1, 1, 1, -1)),
        Rename(block + "grn.bias", _BLOCK + "mlp.grn.beta", vector(1, 1, 1, -1)),
        Rename(block + "layer_scale_parameter", _BLOCK + "gamma"),
        Rename("hidden_states_norms.stage{s+1}.{param}", _OUT_NORM),
        Drop("layernorm.{param}", _FINAL_NORM),
        Drop("classifier.{param}", _HEAD),
    )


def _transformers_dinov3() -> Rules:
    block = "stages.{s}.layers.{b}."
    return (
        Rename("stages.0.downsample_layers.0.{param}", "patch_embed.proj.{param}"),
        Rename("stages.0.downsample_layers.1.{param}", "patch_embed.norm.{param}"),
        Rename("stages.{s+1}.downsample_layers.0.{param}", _LATER_NORM),
        Rename("stages.{s+1}.downsample_layers.1.{param}", _LATER_CONV),
        Rename(block + "depthwise_conv.{param}", _BLOCK + "token_mixer.{param}"),
        Rename(block + "layer_norm.{param}", _BLOCK + "norm.{param}"),
        *_mlp(block + "pointwise_conv1", block + "pointwise_conv2"),
        Rename(block + "gamma", _BLOCK + "gamma"),
        Drop("layer_norm.{param}", _FINAL_NORM),
    )


def _torchvision() -> Rules:
    block = "features.{2s+1}.{b}."
    return (
        Rename("features.0.0.{param}", "patch_embed.proj.{param}"),
        Rename("features.0.1.{param}", "patch_embed.norm.{param}"),
        Rename("features.{2s+2}.0.{param}", _LATER_NORM),
        Rename("features.{2s+2}.1.{param}", _LATER_CONV),
        Rename(block + "block.0.{param}", _BLOCK + "token_mixer.{param}"),
        Rename(block + "block.2.{param}", _BLOCK + "norm.{param}"),
        *_mlp(block + "block.3", block + "block.5"),
        Rename(block + "layer_scale", _BLOCK + "gamma", vector(-1, 1, 1)),
        Drop("classifier.{*}", _HEAD),
    )


def _mmpretrain(convolutions: bool) -> Rules:
    block = "stages.{s}.{b}."
    return (
        Rename("downsample_layers.0.0.{param}", "patch_embed.proj.{param}"),
        Rename("downsample_layers.0.1.{param}", "patch_embed.norm.{param}"),
        Rename("downsample_layers.{s+1}.0.{param}", _LATER_NORM),
        Rename("downsample_layers.{s+1}.1.{param}", _LATER_CONV),
        Rename(block + "depthwise_conv.{param}", _BLOCK + "token_mixer.{param}"),
        Rename(block + "norm.{param}", _BLOCK + "norm.{param}"),
        *_mlp(block + "pointwise_conv1", block + "pointwise_conv2", convolutions),
        Rename(block + "grn.{unit}", _GRN),
        Rename(block + "gamma", _BLOCK + "gamma"),
        Rename("norm{s}.{param}", _OUT_NORM),
        Drop("head.{*}", _HEAD),
    )


OFFICIAL = KeyMap("official", _official(), _OPTIONAL)
FCMAE = KeyMap("FCMAE", _fcmae(), _OPTIONAL)
TIMM = KeyMap("timm", _timm(convolutions=False), _OPTIONAL)
TIMM_CONV_MLP = KeyMap("timm with conv_mlp", _timm(convolutions=True), _OPTIONAL)
TRANSFORMERS = KeyMap("transformers", _transformers(), _OPTIONAL)
TRANSFORMERS_DINOV3 = KeyMap("transformers DINOv3", _transformers_dinov3(), _OPTIONAL)
TORCHVISION = KeyMap("torchvision", _torchvision(), _OPTIONAL)
MMPRETRAIN = KeyMap("mmpretrain", _mmpretrain(convolutions=False), _OPTIONAL)
MMPRETRAIN_CONV_MLP = KeyMap("mmpretrain with 1x1 convolutions", _mmpretrain(convolutions=True), _OPTIONAL)

KEY_MAPS = (
    own_names(OFFICIAL),
    OFFICIAL,
    FCMAE,
    TIMM,
    TIMM_CONV_MLP,
    TRANSFORMERS,
    TRANSFORMERS_DINOV3,
    TORCHVISION,
    MMPRETRAIN,
    MMPRETRAIN_CONV_MLP,
)
