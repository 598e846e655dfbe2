"""Swin Transformer V2: Swin with cosine attention, continuous position biases and norms after the branches.

Liu et al., "Swin Transformer V2: Scaling Up Capacity and Resolution", CVPR 2022, arXiv:2111.09883. Official code and
weights: https://github.com/microsoft/Swin-Transformer (MIT).

The official code has classification only. What it leaves open for dense prediction is decided here as in the official
detection code of Swin V1: maps are padded to whole windows, odd blocks always shift (``small_map='pad'``), every
returned stage has a norm of its own, and a frozen stage takes the patch merging after it along.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from mmvisattn.backbones.arch import resolve_arch
from mmvisattn.backbones.initialization import InitConfig
from mmvisattn.backbones.options import Only, Ported, accepts_host_options
from mmvisattn.backbones.shifted_windows import SHIFTED_WINDOW_OPTIONS, Position, ShiftedWindowBackbone, SwinArch
from mmvisattn.layers.downsample import PatchMerging, merge_2x2
from mmvisattn.layers.drop_path import DropPath, drop_path_rates
from mmvisattn.layers.mlp import Mlp
from mmvisattn.layers.norm import build_norm
from mmvisattn.layers.patch_embed import PatchEmbed
from mmvisattn.layers.stage import Stage
from mmvisattn.layers.token_mixers.cosine_window_attention import CosineWindowAttention
from mmvisattn.layers.token_mixers.windows import SmallMap
from mmvisattn.ops.dispatch import Impl
from mmvisattn.ops.validation import as_pair


@dataclass(frozen=True)
class SwinV2Arch(SwinArch):
    """Sizes of a Swin Transformer V2: those of V1, and how often a stage normalises its main branch.

    Args:
        extra_norm_every_n_blocks: Every how many blocks of a stage a further norm follows, on the sum of the branch
            and the block's input; 0 for never.

    Raises:
        ValueError: If it is negative, or as in :class:`mmvisattn.backbones.shifted_windows.SwinArch`.
    """

    extra_norm_every_n_blocks: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.extra_norm_every_n_blocks < 0:
            raise ValueError(f"extra_norm_every_n_blocks must be at least 0, got {self.extra_norm_every_n_blocks}")


# Sections 3.5 and 4.1 of the paper, except the heads of huge and giant, which it does not give: MMPretrain's.
SWIN_V2_ARCHS = {
    "tiny": SwinV2Arch(embed_dim=96, depths=(2, 2, 6, 2), num_heads=(3, 6, 12, 24)),
    "small": SwinV2Arch(embed_dim=96, depths=(2, 2, 18, 2), num_heads=(3, 6, 12, 24)),
    "base": SwinV2Arch(embed_dim=128, depths=(2, 2, 18, 2), num_heads=(4, 8, 16, 32)),
    "large": SwinV2Arch(embed_dim=192, depths=(2, 2, 18, 2), num_heads=(6, 12, 24, 48)),
    "huge": SwinV2Arch(embed_dim=352, depths=(2, 2, 18, 2), num_heads=(8, 16, 32, 64), extra_norm_every_n_blocks=6),
    "giant": SwinV2Arch(embed_dim=512, depths=(2, 2, 42, 4), num_heads=(16, 32, 64, 128), extra_norm_every_n_blocks=6),
}

# Options of SwinTransformerV2 in MMPretrain, and of V1 in all hosts, that go by another name here.
PORTED: Ported = {
    **SHIFTED_WINDOW_OPTIONS,
    "stage_cfgs": Only(({},), instead="give window_size one entry per stage"),
}


class PostNormBlock(nn.Module):
    """Two residual branches, each of which normalises last: a token mixer, then an MLP (section 3.2).

    The norms start as zero, so that a new block passes its input on.

    Args:
        token_mixer: Module that maps (B, H, W, C) to (B, H, W, C).
        norm1: Norm after the token mixer.
        mlp: Module that maps (..., C) to (..., C).
        norm2: Norm after the MLP.
        norm3: Norm of the main branch, after both sums; None for none.
        drop_path_rate: Probability that a branch is left out for an image in training.
    """

    def __init__(
        self,
        token_mixer: nn.Module,
        norm1: nn.Module,
        mlp: nn.Module,
        norm2: nn.Module,
        norm3: nn.Module | None,
        drop_path_rate: float,
    ) -> None:
        super().__init__()
        self.token_mixer = token_mixer
        self.norm1 = norm1
        self.mlp = mlp
        self.norm2 = norm2
        self.norm3 = nn.Identity() if norm3 is None else norm3
        self.drop_path = DropPath(drop_path_rate)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, H, W, C) to (B, H, W, C)."""
        x = x + self.drop_path(self.norm1(self.token_mixer(x)))
        x = x + self.drop_path(self.norm2(self.mlp(x)))
        y: Tensor = self.norm3(x)
        return y


class ReducingPatchMerging(PatchMerging):
    """Patch merging that reduces 4C to ``out_dim`` channels before it normalises these."""

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, H, W, C) to (B, ceil(H / 2), ceil(W / 2), out_dim)."""
        y: Tensor = self.norm(self.reduction(merge_2x2(x)))
        return y


class SwinTransformerV2(ShiftedWindowBackbone):
    """Swin Transformer V2 that returns the maps of its stages, at strides 4, 8, 16 and 32.

    Each map has ``ceil(side / stride)`` tokens along a side, for images of any size. In every precision the position
    biases, the norms of queries and keys, logits and softmax are float32 or wider, so training in bfloat16 follows
    float32 as it is, and in float16 with loss scaling.

    Args:
        arch: ``'tiny'``, ``'small'``, ``'base'``, ``'large'``, ``'huge'``, ``'giant'``, or a dict with the fields of
            :class:`SwinV2Arch`.
        in_channels: Channels of the image.
        window_size: Side of a window in tokens, or (rows, columns), or one such entry per stage, as in
            ``(16, 16, 16, 8)``. Two numbers are rows and columns.
        pretrained_window_sizes: Side, in tokens, of the windows that the position biases were trained with, for all
            stages or one per stage; 0 for the windows of this model. ``(12, 12, 12, 6)`` for the published models
            that were first trained with windows of 12 (``12to16``, ``12to24``), and to give their weights before
            that (``12_192_22k``) a new window.
        position: As in Swin V1: ``'relative'``, ``'absolute'``, ``'relative+absolute'`` or ``'none'``.
        pretrain_img_size: Side in pixels, or (height, width), of the images for which the absolute position embedding
            is stored. It is resized to the map at hand.
        drop_path_rate: Stochastic depth rate of the last block; the others rise to it linearly.
        norm_cfg: All norms of the backbone, see :func:`mmvisattn.layers.norm.build_norm`.
        act_cfg: Activation of the MLPs, see :func:`mmvisattn.layers.mlp.build_activation`.
        out_indices: Stages to return, in rising order.
        small_map: ``'pad'`` or ``'shrink'``, see :class:`mmvisattn.layers.token_mixers.windows.WindowMixer`. The
            published classifiers were trained with ``'shrink'``.
        frozen_stages: As in Swin V1: ``k < 4`` also freezes the patch merging after stage ``k - 1``. MMPretrain
            counts one stage further.
        norm_eval: Whether batch norms stay in eval mode.
        with_cp: Recompute each block in the backward pass, which saves memory.
        impl: Implementation of the attention, see :func:`mmvisattn.ops.window_attention`.
        init_cfg: Pretrained weights or initialisers, applied by :meth:`init_weights`.

    Raises:
        ValueError: If an option has a value that is not allowed.
        TypeError: If an option is unknown or of another type. The hosts' option names are known, see ``PORTED`` here.

    Example:
        >>> import torch
        >>> nano = dict(embed_dim=8, depths=(1, 1), num_heads=(1, 2))
        >>> backbone = SwinTransformerV2(nano, window_size=4, out_indices=(0, 1))
        >>> [tuple(features.shape) for features in backbone(torch.rand(1, 3, 50, 64))]
        [(1, 8, 13, 16), (1, 16, 7, 8)]
    """

    archs = SWIN_V2_ARCHS
    no_decay_words = ("cpb_mlp", "logit_scale", "absolute_pos_embed")

    @accepts_host_options(PORTED)
    def __init__(
        self,
        arch: str | Mapping[str, Any] | SwinV2Arch = "tiny",
        in_channels: int = 3,
        window_size: int | Sequence[Any] = 8,
        pretrained_window_sizes: int | Sequence[int] = 0,
        position: Position = "relative",
        pretrain_img_size: int | tuple[int, int] = 256,
        drop_path_rate: float = 0.1,
        norm_cfg: Mapping[str, Any] = {"type": "LN"},  # noqa: B006 (never changed)
        act_cfg: Mapping[str, Any] = {"type": "GELU"},  # noqa: B006
        out_indices: int | Sequence[int] = (0, 1, 2, 3),
        small_map: SmallMap = "pad",
        frozen_stages: int = -1,
        norm_eval: bool = False,
        with_cp: bool = False,
        impl: Impl = "auto",
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
        norm = partial(build_norm, norm_cfg)
        patch_norm = norm if arch.patch_norm else nn.Identity
        windows = window_of_each_stage(window_size, len(arch.depths))
        pretrained = pretrained_window_of_each_stage(pretrained_window_sizes, len(arch.depths))
        self.patch_embed = PatchEmbed(in_channels, arch.embed_dim, arch.patch_size, patch_norm(arch.embed_dim))
        self.absolute_pos_embed = self.build_position_embedding(position, pretrain_img_size, arch)
        self.stages = nn.ModuleList()
        for stage, rates in enumerate(drop_path_rates(drop_path_rate, arch.depths)):
            dim = arch.dims[stage]
            attention = partial(
                CosineWindowAttention,
                dim,
                arch.num_heads[stage],
                window_size=windows[stage],
                pretrained_window_size=pretrained[stage],
                qkv_bias=arch.qkv_bias,
                relative_position_bias="relative" in position,
                small_map=small_map,
                impl=impl,
            )
            every = arch.extra_norm_every_n_blocks
            blocks = [
                PostNormBlock(
                    token_mixer=attention(shifted=block % 2 == 1),
                    norm1=norm(dim),
                    mlp=Mlp(dim, int(arch.mlp_ratio * dim), act_cfg),
                    norm2=norm(dim),
                    norm3=norm(dim) if every and (block + 1) % every == 0 else None,
                    drop_path_rate=rate,
                )
                for block, rate in enumerate(rates)
            ]
            downsample = ReducingPatchMerging(dim // 2, dim, patch_norm(dim)) if stage else nn.Identity()
            self.stages.append(Stage(downsample, blocks, with_cp))
        self.out_norms = self.build_out_norms(norm)
        self.finish()

    def reset_parameters(self) -> None:
        """Initialise as the official code: as V1, but with zero for the norms of the branches."""
        super().reset_parameters()
        for module in self.modules():
            if isinstance(module, PostNormBlock):
                for parameter in (*module.norm1.parameters(), *module.norm2.parameters()):
                    nn.init.zeros_(parameter)


def window_of_each_stage(window_size: int | Sequence[Any], stages: int) -> list[tuple[int, int]]:
    """Return the (rows, columns) of the windows of each stage.

    Args:
        window_size: One number, a pair of numbers, or a sequence with one of these for each stage.
        stages: Number of stages.

    Raises:
        ValueError: If ``window_size`` is none of these.

    Example:
        >>> window_of_each_stage((16, 16, 16, 8), stages=4)
        [(16, 16), (16, 16), (16, 16), (8, 8)]
    """
    is_pair = isinstance(window_size, Sequence) and len(window_size) == 2 and isinstance(window_size[0], int)
    if isinstance(window_size, int) or is_pair:
        return [as_pair("window_size", window_size, minimum=1)] * stages
    if not isinstance(window_size, Sequence) or len(window_size) != stages:
        raise ValueError(
            f"window_size must be a number, (rows, columns), or {stages} of these, one per stage, got {window_size!r}"
        )
    return [as_pair("window_size", window, minimum=1) for window in window_size]


def pretrained_window_of_each_stage(sizes: int | Sequence[int], stages: int) -> list[int]:
    """Return the side of the windows that each stage was trained with, 0 for those at hand.

    Raises:
        ValueError: If ``sizes`` is neither one number nor one per stage, or a number is negative.
    """
    each = [sizes] * stages if isinstance(sizes, int) else list(sizes)
    if len(each) != stages or any(type(size) is not int or size < 0 for size in each):
        raise ValueError(
            f"pretrained_window_sizes must be a number >= 0, or {stages} of them, one per stage, got {sizes!r}"
        )
    return each
