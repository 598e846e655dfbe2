"""ConvNeXt V1 and V2: convolutional networks with the shape of a hierarchical vision transformer.

Liu et al., "A ConvNet for the 2020s", CVPR 2022, arXiv:2201.03545. Official code and weights:
https://github.com/facebookresearch/ConvNeXt (MIT). Woo et al., "ConvNeXt V2: Co-designing and Scaling ConvNets with
Masked Autoencoders", CVPR 2023, arXiv:2301.00808. Official code: https://github.com/facebookresearch/ConvNeXt-V2
(MIT); its ImageNet weights are under CC BY-NC 4.0.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from mmvisattn.backbones.arch import per_stage, resolve_arch
from mmvisattn.backbones.base import Backbone
from mmvisattn.backbones.initialization import InitConfig
from mmvisattn.backbones.options import Becomes, IntoArch, Only, Ported, accepts_host_options
from mmvisattn.layers.drop_path import DropPath, drop_path_rates
from mmvisattn.layers.global_response_norm import GlobalResponseNorm
from mmvisattn.layers.mlp import Mlp
from mmvisattn.layers.norm import build_norm
from mmvisattn.layers.stage import Stage
from mmvisattn.layers.strided_conv import ConvStem, StridedConv
from mmvisattn.layers.token_mixers.depthwise_conv import DepthwiseConv
from mmvisattn.ops.validation import check_count


@dataclass(frozen=True)
class ConvNeXtArch:
    """Sizes of a ConvNeXt, which has four stages.

    Args:
        depths: Number of blocks of each stage.
        channels: Channels of each stage.
        patch_size: Side of a patch in pixels.

    Raises:
        ValueError: If a size is not a positive integer, or ``depths`` or ``channels`` are not four.
    """

    depths: Sequence[int]
    channels: Sequence[int]
    patch_size: int = 4

    def __post_init__(self) -> None:
        object.__setattr__(self, "depths", per_stage("depths", self.depths, stages=4))
        object.__setattr__(self, "channels", per_stage("channels", self.channels, stages=4))
        check_count("patch_size", self.patch_size)

    @property
    def dims(self) -> tuple[int, ...]:
        """Channels of each stage."""
        return tuple(self.channels)

    @property
    def strides(self) -> tuple[int, ...]:
        """Stride of each stage, in pixels."""
        return tuple(self.patch_size * 2**stage for stage in range(4))


def _doubling(channels: int, depths: tuple[int, ...]) -> ConvNeXtArch:
    return ConvNeXtArch(depths, tuple(channels * 2**stage for stage in range(4)))


# V1 paper, section 3 and appendix A; V2 paper, appendix A (atto to nano and huge, which it trains in both versions).
CONVNEXT_ARCHS = {
    "atto": _doubling(40, (2, 2, 6, 2)),
    "femto": _doubling(48, (2, 2, 6, 2)),
    "pico": _doubling(64, (2, 2, 6, 2)),
    "nano": _doubling(80, (2, 2, 8, 2)),
    "tiny": _doubling(96, (3, 3, 9, 3)),
    "small": _doubling(96, (3, 3, 27, 3)),
    "base": _doubling(128, (3, 3, 27, 3)),
    "large": _doubling(192, (3, 3, 27, 3)),
    "xlarge": _doubling(256, (3, 3, 27, 3)),
    "huge": _doubling(352, (3, 3, 27, 3)),
}

# Options of ConvNeXt in MMPretrain that go by another name here, or are not a choice.
PORTED: Ported = {
    "depths": IntoArch("depths"),
    "channels": IntoArch("channels"),
    "stem_patch_size": IntoArch("patch_size"),
    "linear_pw_conv": Only((True, False)),  # two ways to compute the same; checkpoints of both load
    "gap_before_final_norm": Only((False,), instead="feature maps have no global pooling"),
    "layer_scale_init": Becomes("layer_scale_init_value"),
    "pretrained": Only((None,), instead="write init_cfg=dict(type='Pretrained', checkpoint=...)"),
}


class ConvNeXtMlp(Mlp):
    """The MLP of a block, in V2 with global response normalisation after the activation.

    Args:
        dim: Channels in and out; four times as many lie between.
        act_cfg: Activation.
        use_grn: Whether to normalise the response.
    """

    def __init__(self, dim: int, act_cfg: Mapping[str, Any], use_grn: bool) -> None:
        super().__init__(dim, 4 * dim, act_cfg)
        self.grn = GlobalResponseNorm(4 * dim) if use_grn else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, H, W, C) to (B, H, W, C)."""
        y: Tensor = self.fc2(self.grn(self.act(self.fc1(x))))
        return y


class ConvNeXtBlock(nn.Module):
    """Depthwise convolution, norm, MLP and layer scale, in one residual branch.

    Args:
        dim: Channels in and out.
        norm: Norm between the convolution and the MLP.
        act_cfg: Activation of the MLP.
        use_grn: Whether the MLP has global response normalisation.
        layer_scale_init_value: First value of the learned scale of the branch; 0 for no scale.
        drop_path_rate: Probability that the branch is left out for an image in training.
    """

    def __init__(
        self,
        dim: int,
        norm: nn.Module,
        act_cfg: Mapping[str, Any],
        use_grn: bool,
        layer_scale_init_value: float,
        drop_path_rate: float,
    ) -> None:
        super().__init__()
        self.token_mixer = DepthwiseConv(dim)
        self.norm = norm
        self.mlp = ConvNeXtMlp(dim, act_cfg, use_grn)
        self.layer_scale_init_value = layer_scale_init_value
        scale = nn.Parameter(torch.empty(dim)) if layer_scale_init_value > 0 else None
        self.register_parameter("gamma", scale)
        self.drop_path = DropPath(drop_path_rate)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set what belongs to no submodule, the scale, to its first value."""
        if self.gamma is not None:
            nn.init.constant_(self.gamma, self.layer_scale_init_value)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, H, W, C) to (B, H, W, C)."""
        branch: Tensor = self.mlp(self.norm(self.token_mixer(x)))
        if self.gamma is not None:
            branch = branch * self.gamma
        return x + self.drop_path(branch)


class ConvNeXt(Backbone):
    """ConvNeXt that returns the maps of its stages, at strides 4, 8, 16 and 32.

    Each map has ``side // stride`` tokens along a side, at least one, as in every published implementation.

    Args:
        arch: A name in ``CONVNEXT_ARCHS`` (``'tiny'``, ``'small'``, ...), or a dict with the fields of
            :class:`ConvNeXtArch`.
        in_channels: Channels of the image.
        drop_path_rate: Stochastic depth rate of the last block; the others rise to it linearly.
        layer_scale_init_value: First value of each block's learned scale; 0 for no scale. 1e-6 in the published
            classifiers, 1.0 in the published detectors and segmentors.
        use_grn: Whether blocks have global response normalisation, as in :class:`ConvNeXtV2`.
        norm_cfg: All norms of the backbone, see :func:`mmvisattn.layers.norm.build_norm`.
        act_cfg: Activation of the MLPs, see :func:`mmvisattn.layers.mlp.build_activation`.
        out_indices: Stages to return, in rising order.
        frozen_stages: As in :class:`mmvisattn.backbones.base.Backbone`. MMPretrain's 0 freezes nothing; here that is
            -1, and 0 freezes the stem.
        norm_eval: Whether batch norms stay in eval mode.
        with_cp: Recompute each block in the backward pass, which saves memory.
        init_cfg: Pretrained weights or initialisers, applied by :meth:`init_weights`.

    Raises:
        ValueError: If an option has a value that is not allowed.
        TypeError: If an option is unknown or of another type. The hosts' option names are known, see ``PORTED`` here.

    Example:
        >>> nano = dict(depths=(1, 1, 1, 1), channels=(8, 16, 24, 32))
        >>> backbone = ConvNeXt(nano, out_indices=(0, 3))
        >>> [tuple(features.shape) for features in backbone(torch.rand(1, 3, 50, 64))]
        [(1, 8, 12, 16), (1, 32, 1, 2)]
    """

    archs = CONVNEXT_ARCHS

    @accepts_host_options(PORTED)
    def __init__(
        self,
        arch: str | Mapping[str, Any] | ConvNeXtArch = "tiny",
        in_channels: int = 3,
        drop_path_rate: float = 0.0,
        layer_scale_init_value: float = 1e-6,
        use_grn: bool = False,
        norm_cfg: Mapping[str, Any] = {"type": "LN", "eps": 1e-6},  # noqa: B006 (never changed)
        act_cfg: Mapping[str, Any] = {"type": "GELU"},  # noqa: B006
        out_indices: int | Sequence[int] = (0, 1, 2, 3),
        frozen_stages: int = -1,
        norm_eval: bool = False,
        with_cp: bool = False,
        init_cfg: InitConfig = None,
    ) -> None:
        arch = resolve_arch(arch, self.archs)
        super().__init__(
            dims=arch.dims,
            strides=arch.strides,
            out_indices=out_indices,
            frozen_stages=frozen_stages,
            norm_eval=norm_eval,
            init_cfg=init_cfg,
        )
        if not 0 <= layer_scale_init_value < math.inf:
            raise ValueError(f"layer_scale_init_value must be at least 0 and finite, got {layer_scale_init_value}")
        norm = partial(build_norm, norm_cfg)
        self.patch_embed = ConvStem(in_channels, self.dims[0], arch.patch_size, norm(self.dims[0]))
        self.stages = nn.ModuleList()
        for stage, rates in enumerate(drop_path_rates(drop_path_rate, arch.depths)):
            dim, before = self.dims[stage], self.dims[max(stage - 1, 0)]
            blocks = [ConvNeXtBlock(dim, norm(dim), act_cfg, use_grn, layer_scale_init_value, rate) for rate in rates]
            downsample = StridedConv(norm(before), before, dim, stride=2) if stage else nn.Identity()
            self.stages.append(Stage(downsample, blocks, with_cp))
        self.out_norms = self.build_out_norms(norm)
        self.finish()

    def reset_parameters(self) -> None:
        """Initialise as the official code: weights normal with deviation 0.02, biases zero."""
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Conv2d)):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif module is not self and hasattr(module, "reset_parameters"):
                module.reset_parameters()

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        """Map an image (B, in_channels, H, W) to one map (B, C_i, H // stride_i, W // stride_i) per output.

        Raises:
            ValueError: If the image does not have that shape.
            TypeError: If its dtype is not that of the weights and autocast is off.
        """
        x = self.patch_embed(image)
        features = []
        for index, stage in enumerate(self.levels_in_use()):
            x = stage(x)
            if index in self.out_indices:
                features.append(self.export(index, x))
        return tuple(features)

    @property
    def num_decay_layers(self) -> int:
        """Number of layers for learning-rate decay: three blocks of the third stage count as one."""
        return 3 + -(-len(self.stages[2].blocks) // 3)

    def parameter_depth(self, name: str, decay_type: Literal["layer_wise", "stage_wise"] = "layer_wise") -> int:
        """Return the layer id of a parameter for learning-rate decay by depth, as in the official code.

        Stage-wise as in :meth:`mmvisattn.backbones.base.Backbone.parameter_depth`. Layer-wise, the stem has id 0, the
        first stage 1, the second 2 with the downsampling before it, the third 3 for its downsampling and 3, 4, ... for
        every three blocks, and the fourth ``num_decay_layers``.

        Args:
            name: Name of the parameter, as in ``named_parameters``.
            decay_type: ``'layer_wise'`` or ``'stage_wise'``.
        """
        parts = name.split(".")
        if decay_type == "stage_wise" or parts[0] != "stages":
            return super().parameter_depth(name, decay_type)
        stage = int(parts[1])
        if stage < 2:
            return stage + 1
        if stage == 3:
            return self.num_decay_layers
        return 3 + int(parts[3]) // 3 if parts[2] == "blocks" else 3


CONVNEXT_V2_ARCHS = {name: CONVNEXT_ARCHS[name] for name in CONVNEXT_ARCHS if name not in ("small", "xlarge")}


class ConvNeXtV2(ConvNeXt):
    """ConvNeXt V2: :class:`ConvNeXt` with global response normalisation in place of layer scale.

    Args:
        arch: ``'atto'``, ``'femto'``, ``'pico'``, ``'nano'``, ``'tiny'``, ``'base'``, ``'large'``, ``'huge'``, or a
            dict with the fields of :class:`ConvNeXtArch`.
        **options: Options of :class:`ConvNeXt`.

    Raises:
        ValueError: If an option has a value that is not allowed.
        TypeError: If an option is unknown or of another type.

    Example:
        >>> backbone = ConvNeXtV2(dict(depths=(1, 1, 1, 1), channels=(8, 8, 8, 8)))
        >>> backbone.stages[0].blocks[0].mlp.grn
        GlobalResponseNorm()
    """

    archs = CONVNEXT_V2_ARCHS

    def __init__(self, arch: str | Mapping[str, Any] | ConvNeXtArch = "tiny", **options: Any) -> None:
        if options.setdefault("use_grn", True) is not True:
            raise ValueError(f"use_grn must be True in ConvNeXtV2, got {options['use_grn']!r}; use ConvNeXt")
        options.setdefault("layer_scale_init_value", 0.0)
        super().__init__(arch, **options)
