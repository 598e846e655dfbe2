"""What both versions of Swin Transformer share: sizes, the hosts' option names, and the way through the backbone."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from mmvisattn.backbones.arch import per_stage
from mmvisattn.backbones.base import Backbone
from mmvisattn.backbones.options import Becomes, IntoArch, Only, Ported, one_of
from mmvisattn.layers.config_types import check_types
from mmvisattn.layers.position import add_position_embedding
from mmvisattn.ops.validation import as_pair, check_count

Position = Literal["relative", "absolute", "relative+absolute", "none"]


@dataclass(frozen=True)
class SwinArch:
    """Sizes of a Swin Transformer.

    Args:
        embed_dim: Channels of the first stage; every further stage has twice as many.
        depths: Number of blocks of each stage.
        num_heads: Number of attention heads of each stage.
        mlp_ratio: Hidden channels of the MLP over its input channels.
        patch_size: Side of a patch in pixels.
        qkv_bias: Whether the qkv projections have a bias.
        patch_norm: Whether the patch embedding and the patch mergings normalise.

    Raises:
        ValueError: If ``depths`` and ``num_heads`` are not positive integers, one per stage, the heads of a stage do
            not divide its channels, or another number is too small.
        TypeError: If a field has another type.
    """

    embed_dim: int
    depths: Sequence[int]
    num_heads: Sequence[int]
    mlp_ratio: float = 4.0
    patch_size: int = 4
    qkv_bias: bool = True
    patch_norm: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "depths", per_stage("depths", self.depths))
        object.__setattr__(self, "num_heads", per_stage("num_heads", self.num_heads, len(self.depths)))
        check_types(vars(self), type(self))
        check_count("embed_dim", self.embed_dim)
        check_count("patch_size", self.patch_size)
        if not 1 <= self.mlp_ratio * self.embed_dim < math.inf:
            raise ValueError(f"mlp_ratio must give an MLP at least one hidden channel, got {self.mlp_ratio}")
        if any(dim % heads for dim, heads in zip(self.dims, self.num_heads, strict=True)):
            raise ValueError(f"num_heads must divide the channels {self.dims} of the stages, got {self.num_heads}")

    @property
    def dims(self) -> tuple[int, ...]:
        """Channels of each stage."""
        return tuple(self.embed_dim * 2**stage for stage in range(len(self.depths)))

    @property
    def strides(self) -> tuple[int, ...]:
        """Stride of each stage, in pixels."""
        return tuple(self.patch_size * 2**stage for stage in range(len(self.depths)))


def _patch_size_from_strides(strides: Sequence[int]) -> int:
    match strides:
        case [int(patch_size), *steps] if all(step == 2 for step in steps):
            return patch_size
    raise ValueError("it must be the side of a patch, then 2 for every further stage")


# Options of Swin in MMDetection, MMSegmentation and MMPretrain that go by another name here.
SHIFTED_WINDOW_OPTIONS: Ported = {
    "embed_dims": IntoArch("embed_dim"),
    "depths": IntoArch("depths"),
    "num_heads": IntoArch("num_heads"),
    "mlp_ratio": IntoArch("mlp_ratio"),
    "patch_size": IntoArch("patch_size"),
    "qkv_bias": IntoArch("qkv_bias"),
    "patch_norm": IntoArch("patch_norm"),
    "img_size": Becomes("pretrain_img_size"),
    "use_abs_pos_embed": Becomes("position", one_of({True: "relative+absolute", False: "relative"})),
    "pad_small_map": Becomes("small_map", one_of({True: "pad", False: "shrink"})),
    "convert_weights": Only((True, False)),
    "qk_scale": Only((None,)),
    "strides": IntoArch("patch_size", _patch_size_from_strides),
    "drop_rate": Only((0.0,)),
    "attn_drop_rate": Only((0.0,)),
    "out_after_downsample": Only((False,)),
    "interpolate_mode": Only(("bicubic",)),
    "patch_cfg": Only(({},)),
    "pretrained": Only((None,), instead="write init_cfg=dict(type='Pretrained', checkpoint=...)"),
}


class ShiftedWindowBackbone(Backbone):
    """Base of Swin Transformer V1 and V2: a pyramid of stages of windowed blocks, with patch merging between them."""

    absolute_pos_embed: nn.Parameter | None

    def build_position_embedding(
        self, position: Position, pretrain_img_size: int | tuple[int, int], arch: SwinArch
    ) -> nn.Parameter | None:
        """Return an absolute position embedding (1, C, rows, columns) if ``position`` asks for one.

        Args:
            position: How tokens know where they are.
            pretrain_img_size: Side in pixels, or (height, width), of the images that the embedding is stored for.
            arch: Sizes of the backbone.

        Raises:
            ValueError: If ``pretrain_img_size`` is smaller than a patch.
        """
        height, width = as_pair("pretrain_img_size", pretrain_img_size, minimum=arch.patch_size)
        if "absolute" not in position:
            return None
        return nn.Parameter(torch.zeros(1, arch.embed_dim, height // arch.patch_size, width // arch.patch_size))

    def reset_parameters(self) -> None:
        """Initialise as the official code: linear weights and embeddings normal with deviation 0.02, biases zero."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif module is not self and hasattr(module, "reset_parameters"):
                module.reset_parameters()
        if self.absolute_pos_embed is not None:
            nn.init.trunc_normal_(self.absolute_pos_embed, std=0.02)

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        """Map an image (B, in_channels, H, W) to one map (B, C_i, ceil(H / stride_i), ceil(W / stride_i)) per output.

        Raises:
            ValueError: If the image does not have that shape.
            TypeError: If its dtype is not that of the weights and autocast is off.
        """
        x = self.patch_embed(image)
        if self.absolute_pos_embed is not None:
            x = add_position_embedding(x, self.absolute_pos_embed)
        features = []
        for index, stage in enumerate(self.levels_in_use()):
            x = stage(x)
            if index in self.out_indices:
                features.append(self.export(index, x))
        return tuple(features)

    def frozen_parts(self) -> Iterator[nn.Module | nn.Parameter]:
        """Yield what ``frozen_stages`` freezes, with the patch merging that follows the last frozen stage."""
        yield from super().frozen_parts()
        if 0 < self.frozen_stages < len(self.stages):
            yield self.stages[self.frozen_stages].downsample
