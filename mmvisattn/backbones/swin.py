"""Swin Transformer: a hierarchical vision transformer with shifted windows.

Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", ICCV 2021, arXiv:2103.14030.
Official code and weights: https://github.com/microsoft/Swin-Transformer (MIT).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from torch import nn

from mmvisattn.backbones.arch import resolve_arch
from mmvisattn.backbones.initialization import InitConfig
from mmvisattn.backbones.options import Becomes, Ported, accepts_host_options
from mmvisattn.backbones.shifted_windows import SHIFTED_WINDOW_OPTIONS, Position, ShiftedWindowBackbone, SwinArch
from mmvisattn.layers.blocks import PreNormBlock
from mmvisattn.layers.downsample import PatchMerging
from mmvisattn.layers.drop_path import drop_path_rates
from mmvisattn.layers.mlp import Mlp
from mmvisattn.layers.norm import build_norm
from mmvisattn.layers.patch_embed import PatchEmbed
from mmvisattn.layers.stage import Stage
from mmvisattn.layers.token_mixers.window_attention import WindowAttention
from mmvisattn.layers.token_mixers.windows import SmallMap
from mmvisattn.ops.dispatch import Impl

# Section 3.3 and table 7 of the paper.
SWIN_ARCHS = {
    "tiny": SwinArch(embed_dim=96, depths=(2, 2, 6, 2), num_heads=(3, 6, 12, 24)),
    "small": SwinArch(embed_dim=96, depths=(2, 2, 18, 2), num_heads=(3, 6, 12, 24)),
    "base": SwinArch(embed_dim=128, depths=(2, 2, 18, 2), num_heads=(4, 8, 16, 32)),
    "large": SwinArch(embed_dim=192, depths=(2, 2, 18, 2), num_heads=(6, 12, 24, 48)),
}


def _window_from_stage_cfgs(stage_cfgs: Any) -> int:
    match stage_cfgs:
        case {"block_cfgs": {"window_size": int(window_size), **more_block}, **more} if not more_block and not more:
            return window_size
    raise ValueError("only dict(block_cfgs=dict(window_size=N)), which means window_size=N, is possible")


# Options of SwinTransformer in MMDetection, MMSegmentation and MMPretrain that go by another name here.
PORTED: Ported = {**SHIFTED_WINDOW_OPTIONS, "stage_cfgs": Becomes("window_size", _window_from_stage_cfgs)}


class SwinTransformer(ShiftedWindowBackbone):
    """Swin Transformer that returns the maps of its stages, at strides 4, 8, 16 and 32.

    Each map has ``ceil(side / stride)`` tokens along a side, for images of any size. Windows are padded before the qkv
    projection, and always shifted in odd blocks, as in the official detection code.

    Args:
        arch: ``'tiny'``, ``'small'``, ``'base'``, ``'large'``, or a dict with the fields of :class:`SwinArch`.
        in_channels: Channels of the image.
        window_size: Side of a window in tokens, or (rows, columns); 7 in most published models, 12 in some.
        position: How tokens know where they are: a learned bias per relative position (``'relative'``, the published
            models), an embedding added to the patches (``'absolute'``), both (``'relative+absolute'``, what the hosts
            call ``use_abs_pos_embed``), or not at all (``'none'``). These are the rows of table 4 of the paper.
        pretrain_img_size: Side in pixels, or (height, width), of the images for which the absolute position embedding
            is stored. It is resized to the map at hand.
        drop_path_rate: Stochastic depth rate of the last block; the others rise to it linearly.
        norm_cfg: All norms of the backbone, see :func:`mmvisattn.layers.norm.build_norm`.
        act_cfg: Activation of the MLPs, see :func:`mmvisattn.layers.mlp.build_activation`.
        out_indices: Stages to return, in rising order.
        small_map: ``'pad'`` or ``'shrink'``, see
            :class:`mmvisattn.layers.token_mixers.windows.WindowMixer`.
        frozen_stages: As in :class:`mmvisattn.backbones.base.Backbone`; ``k < 4`` also freezes the patch merging
            after stage ``k - 1``, which MMDetection counts to that stage. MMPretrain counts one stage further.
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
        >>> backbone = SwinTransformer(nano, out_indices=(0, 1))
        >>> [tuple(features.shape) for features in backbone(torch.rand(1, 3, 50, 64))]
        [(1, 8, 13, 16), (1, 16, 7, 8)]
        >>> backbone.out_channels, backbone.out_strides
        ((8, 16), (4, 8))
    """

    archs = SWIN_ARCHS
    no_decay_words = ("relative_position_bias_table", "absolute_pos_embed")

    @accepts_host_options(PORTED)
    def __init__(
        self,
        arch: str | Mapping[str, Any] | SwinArch = "tiny",
        in_channels: int = 3,
        window_size: int | tuple[int, int] = 7,
        position: Position = "relative",
        pretrain_img_size: int | tuple[int, int] = 224,
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
        attention = partial(
            WindowAttention,
            window_size=window_size,
            qkv_bias=arch.qkv_bias,
            relative_position_bias="relative" in position,
            small_map=small_map,
            impl=impl,
        )
        self.patch_embed = PatchEmbed(in_channels, arch.embed_dim, arch.patch_size, patch_norm(arch.embed_dim))
        self.absolute_pos_embed = self.build_position_embedding(position, pretrain_img_size, arch)
        self.stages = nn.ModuleList()
        for stage, rates in enumerate(drop_path_rates(drop_path_rate, arch.depths)):
            dim, heads = arch.dims[stage], arch.num_heads[stage]
            blocks = [
                PreNormBlock(
                    norm1=norm(dim),
                    token_mixer=attention(dim, heads, shifted=block % 2 == 1),
                    norm2=norm(dim),
                    mlp=Mlp(dim, int(arch.mlp_ratio * dim), act_cfg),
                    drop_path_rate=rate,
                )
                for block, rate in enumerate(rates)
            ]
            downsample = PatchMerging(dim // 2, dim, patch_norm(2 * dim)) if stage else nn.Identity()
            self.stages.append(Stage(downsample, blocks, with_cp))
        self.out_norms = self.build_out_norms(norm)
        self.finish()
