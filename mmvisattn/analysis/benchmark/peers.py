"""The same backbones in other libraries, with our weights in them.

A peer is built at a size, loaded through its own name table, and called for the maps of all stages. The libraries are
imported only when they are asked for.
"""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor, nn

from mmvisattn.checkpoints.key_map import KeyMap
from mmvisattn.checkpoints.maps import convnext, swin, swin_v2

Size = tuple[int, int]  # height and width of the image in pixels
Stages = Callable[[nn.Module, Tensor], Sequence[Tensor]]


@dataclass(frozen=True)
class Peer:
    """How to build and call a backbone of another library.

    Attributes:
        library: Its import name.
        build: The model for images of a size.
        stages: The maps (B, C, H, W) of all stages.
        key_map: The table from its names to ours.
        out_norms: Whether it normalises the maps it returns, as ours does.
        prefix: What its state dict puts before the names of the table.
        norm_names: Its names of the norms of stage 1, 2, ..., where they stand outside the prefix.
    """

    library: str
    build: Callable[[Size], nn.Module]
    stages: Stages
    key_map: KeyMap
    out_norms: bool = False
    prefix: str = ""
    norm_names: str = ""

    def load(self, model: nn.Module, state: dict[str, Tensor]) -> None:
        """Copy our state dict into the peer's model.

        Raises:
            ValueError: If a parameter of the peer gets no value, apart from its classifier's.
        """
        norms = {name: tensor for name, tensor in state.items() if name.startswith("out_norms.")}
        if not self.out_norms or self.norm_names:
            state = {name: tensor for name, tensor in state.items() if name not in norms}
        theirs = {self.prefix + name: tensor for name, tensor in self.key_map.inverse().convert(state).tensors.items()}
        if self.norm_names:
            for name, tensor in norms.items():
                _, stage, parameter = name.split(".")
                theirs[f"{self.norm_names.format(int(stage) + 1)}.{parameter}"] = tensor
        missing, unexpected = model.load_state_dict(theirs, strict=False)
        parameters = {name for name, _ in model.named_parameters()}
        lost = [name for name in missing if name in parameters and not name.removeprefix(self.prefix).startswith(HEADS)]
        if lost or unexpected:
            raise ValueError(
                f"{self.library}'s model does not take our weights: missing {lost}, left over {unexpected}"
            )


HEADS = ("norm.", "head", "layernorm.", "classifier", "avgpool")


def _mmdet_swin(size: Size) -> nn.Module:
    return importlib.import_module("mmdet.models.backbones.swin").SwinTransformer(drop_path_rate=0.0)


def _timm_swin(size: Size) -> nn.Module:
    timm = importlib.import_module("timm")
    return timm.create_model("swin_tiny_patch4_window7_224", img_size=size, drop_path_rate=0.0)


def _timm_swin_stages(model: nn.Module, image: Tensor) -> list[Tensor]:
    maps, x = [], model.patch_embed(image)
    for layer in model.layers:
        x = layer(x)
        maps.append(x.permute(0, 3, 1, 2))
    return maps


def _torchvision_swin(size: Size) -> nn.Module:
    swin = importlib.import_module("torchvision.models.swin_transformer")
    return swin.SwinTransformer([4, 4], 96, [2, 2, 6, 2], [3, 6, 12, 24], [7, 7], stochastic_depth_prob=0.0)


def _torchvision_stages(last_axis: bool) -> Stages:
    def stages(model: nn.Module, image: Tensor) -> list[Tensor]:
        maps, x = [], image
        for index, layer in enumerate(model.features):
            x = layer(x)
            if index % 2:  # patch embedding, stage, downsampling, stage, ...
                maps.append(x.permute(0, 3, 1, 2) if last_axis else x)
        return maps

    return stages


def _timm_swin_v2(size: Size) -> nn.Module:
    timm = importlib.import_module("timm")
    return timm.create_model("swinv2_tiny_window8_256", img_size=size, drop_path_rate=0.0)


def _torchvision_swin_v2(size: Size) -> nn.Module:
    swin = importlib.import_module("torchvision.models.swin_transformer")
    return swin.SwinTransformer(
        [4, 4],
        96,
        [2, 2, 6, 2],
        [3, 6, 12, 24],
        [8, 8],
        stochastic_depth_prob=0.0,
        block=swin.SwinTransformerBlockV2,
        downsample_layer=swin.PatchMergingV2,
    )


def _transformers_swin(size: Size) -> nn.Module:
    transformers = importlib.import_module("transformers")
    stages = [f"stage{stage}" for stage in (1, 2, 3, 4)]
    return transformers.SwinBackbone(transformers.SwinConfig(drop_path_rate=0.0, out_features=stages))


def _timm_convnext(size: Size) -> nn.Module:
    return importlib.import_module("timm").create_model("convnext_tiny")


def _timm_convnext_stages(model: nn.Module, image: Tensor) -> list[Tensor]:
    maps, x = [], model.stem(image)
    for stage in model.stages:
        x = stage(x)
        maps.append(x)
    return maps


def _timm_convnext_v2(size: Size) -> nn.Module:
    return importlib.import_module("timm").create_model("convnextv2_tiny")


def _torchvision_convnext(size: Size) -> nn.Module:
    return importlib.import_module("torchvision.models").convnext_tiny(stochastic_depth_prob=0.0)


APART = str(Path(sys.prefix) / "mmpretrain")
"""Folder of the environment for packages that must not be seen by default."""


def is_installed(library: str) -> bool:
    """Whether a library can be imported, by default or from :data:`APART`.

    Example:
        >>> is_installed("torch"), is_installed("tourch")
        (True, False)
    """
    return importlib.util.find_spec(library) is not None or (Path(APART) / library).is_dir()


def import_mmpretrain() -> ModuleType:
    """Import mmpretrain's backbones beside a newer transformers than it knows.

    It may be installed into :data:`APART`, to stay out of the way of mmdet, which imports it when it can. It is made to
    believe that transformers is not installed, and so leaves its language models out.
    """
    if APART not in sys.path:
        sys.path.append(APART)
    metadata = importlib.import_module("importlib_metadata")
    distribution = metadata.distribution

    def without_transformers(name: str) -> Any:
        if name == "transformers":
            raise metadata.PackageNotFoundError(name)
        return distribution(name)

    metadata.distribution = without_transformers
    try:
        return importlib.import_module("mmpretrain.models.backbones")
    finally:
        metadata.distribution = distribution


ALL_STAGES = (0, 1, 2, 3)


def _mmpretrain_swin_v2(size: Size) -> nn.Module:
    build = import_mmpretrain().SwinTransformerV2
    return build("tiny", img_size=size, window_size=8, drop_path_rate=0.0, out_indices=ALL_STAGES, pad_small_map=True)


def _mmpretrain_convnext(**version: Any) -> Callable[[Size], nn.Module]:
    dense = {"out_indices": ALL_STAGES, "gap_before_final_norm": False}
    return lambda size: import_mmpretrain().ConvNeXt("tiny", **dense, **version)


def _mmpretrain(build: Callable[[Size], nn.Module], key_map: KeyMap) -> Peer:
    return Peer("mmpretrain", build, lambda model, image: model(image), key_map, out_norms=True)


PEERS: dict[str, tuple[Peer, ...]] = {
    "swin_tiny": (
        Peer("mmdet", _mmdet_swin, lambda model, image: model(image), swin.OPENMMLAB, out_norms=True),
        Peer("timm", _timm_swin, _timm_swin_stages, swin.TIMM),
        Peer("torchvision", _torchvision_swin, _torchvision_stages(last_axis=True), swin.TORCHVISION),
        Peer(
            "transformers",
            _transformers_swin,
            lambda model, image: model(image).feature_maps,
            swin.TRANSFORMERS_IN_MEMORY,
            out_norms=True,
            prefix="swin.",
            norm_names="hidden_states_norms.stage{}",
        ),
    ),
    "swin_v2_tiny": (
        Peer("timm", _timm_swin_v2, _timm_swin_stages, swin_v2.TIMM),
        Peer("torchvision", _torchvision_swin_v2, _torchvision_stages(last_axis=True), swin_v2.TORCHVISION),
        _mmpretrain(_mmpretrain_swin_v2, swin_v2.OPENMMLAB),
    ),
    "convnext_tiny": (
        Peer("timm", _timm_convnext, _timm_convnext_stages, convnext.TIMM),
        Peer("torchvision", _torchvision_convnext, _torchvision_stages(last_axis=False), convnext.TORCHVISION),
        _mmpretrain(_mmpretrain_convnext(layer_scale_init_value=1.0), convnext.MMPRETRAIN),
    ),
    "convnext_v2_tiny": (
        Peer("timm", _timm_convnext_v2, _timm_convnext_stages, convnext.TIMM),
        _mmpretrain(_mmpretrain_convnext(layer_scale_init_value=0.0, use_grn=True), convnext.MMPRETRAIN),
    ),
}
