"""Cosine self-attention in shifted windows, the token mixer of Swin Transformer V2."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvisattn.layers.continuous_position_bias import ContinuousPositionBias
from mmvisattn.layers.token_mixers.windows import SmallMap, WindowMixer
from mmvisattn.ops.dispatch import Impl
from mmvisattn.ops.window_attention import window_attention


class CosineWindowAttention(WindowMixer):
    """Multi-head self-attention within windows whose logits are cosines, times a learned factor for each head.

    Liu et al., "Swin Transformer V2", 2022, sections 3.2 and 3.3. Queries and values have a learned bias, keys have
    none: a constant added to all keys would change cosines. A map is padded to whole windows *before* the qkv
    projection, so padded positions are attended: their key is zero, which gives the logit of their position bias
    alone, and their value is the bias of the values.

    Args:
        dim: Channels in and out.
        num_heads: Number of heads; must divide ``dim``.
        window_size: Side of a window in tokens, or (rows, columns).
        shifted: Whether the windows are shifted by half a window on both axes.
        pretrained_window_size: Side, in tokens, of the windows that the position biases were trained with; 0 for
            ``window_size``.
        qkv_bias: Whether queries and values have a bias.
        relative_position_bias: Whether the logits get a learned bias, see
            :class:`mmvisattn.layers.continuous_position_bias.ContinuousPositionBias`. A shrunken window computes its
            coordinates anew, as the official code does.
        small_map: As in :class:`mmvisattn.layers.token_mixers.windows.WindowMixer`.
        impl: Implementation of :func:`mmvisattn.ops.window_attention`.

    Raises:
        ValueError: If ``num_heads`` does not divide ``dim``, or ``small_map`` or ``impl`` is unknown.
    """

    q_bias: nn.Parameter | None
    v_bias: nn.Parameter | None

    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        window_size: int | tuple[int, int],
        shifted: bool,
        pretrained_window_size: int = 0,
        qkv_bias: bool = True,
        relative_position_bias: bool = True,
        small_map: SmallMap = "pad",
        impl: Impl = "auto",
    ) -> None:
        super().__init__(dim, num_heads, window_size=window_size, shifted=shifted, small_map=small_map, impl=impl)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.register_parameter("q_bias", nn.Parameter(torch.empty(dim)) if qkv_bias else None)
        self.register_parameter("v_bias", nn.Parameter(torch.empty(dim)) if qkv_bias else None)
        self.proj = nn.Linear(dim, dim)
        self.logit_scale = nn.Parameter(torch.empty(num_heads, 1, 1))
        self.cpb_mlp = ContinuousPositionBias(num_heads, pretrained_window_size) if relative_position_bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set what belongs to no submodule: the factor of the cosines, stored as its logarithm, to 10; biases to 0."""
        nn.init.constant_(self.logit_scale, math.log(10))
        for bias in (self.q_bias, self.v_bias):
            if bias is not None:
                nn.init.zeros_(bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, H, W, C) to (B, H, W, C)."""
        window_size, shift_size = self.window_and_shift(x)
        bias = pad_kv = None
        if self.q_bias is not None and self.v_bias is not None:
            no_bias = torch.zeros_like(self.v_bias)
            bias = torch.cat((self.q_bias, no_bias, self.v_bias))
            pad_kv = torch.stack((no_bias, self.v_bias))
        mixed = window_attention(
            F.linear(x, self.qkv.weight, bias),
            None if self.cpb_mlp is None else self.cpb_mlp(window_size),
            num_heads=self.num_heads,
            window_size=window_size,
            shift_size=shift_size,
            logit_scale=self.logit_scale,
            pad_kv=pad_kv,
            impl=self.impl,
        )
        y: Tensor = self.proj(mixed)
        return y
