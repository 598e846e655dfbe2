"""Self-attention in shifted windows, the token mixer of Swin Transformer."""

import torch
from torch import Tensor, nn

from mmvisattn.layers.token_mixers.windows import SmallMap, WindowMixer
from mmvisattn.ops.dispatch import Impl
from mmvisattn.ops.window_attention import window_attention


class WindowAttention(WindowMixer):
    """Multi-head self-attention within windows, with a learned bias per relative position and head.

    Liu et al., "Swin Transformer", 2021, section 3.2. A map is padded to whole windows *before* the qkv projection,
    as in the official code, so padded positions are attended: their key and value are the qkv bias.

    Args:
        dim: Channels in and out.
        num_heads: Number of heads; must divide ``dim``.
        window_size: Side of a window in tokens, or (rows, columns).
        shifted: Whether the windows are shifted by half a window on both axes.
        qkv_bias: Whether the qkv projection has a bias.
        relative_position_bias: Whether the logits get a learned bias. A shrunken window uses the biases of the
            relative positions that it still contains.
        small_map: As in :class:`mmvisattn.layers.token_mixers.windows.WindowMixer`.
        impl: Implementation of :func:`mmvisattn.ops.window_attention`.

    Raises:
        ValueError: If ``num_heads`` does not divide ``dim``, or ``small_map`` or ``impl`` is unknown.
    """

    relative_position_bias_table: nn.Parameter | None

    def __init__(
        self,
        dim: int,
        num_heads: int,
        *,
        window_size: int | tuple[int, int],
        shifted: bool,
        qkv_bias: bool = True,
        relative_position_bias: bool = True,
        small_map: SmallMap = "pad",
        impl: Impl = "auto",
    ) -> None:
        super().__init__(dim, num_heads, window_size=window_size, shifted=shifted, small_map=small_map, impl=impl)
        rows, columns = self.window_size
        self.qkv = nn.Linear(dim, 3 * dim, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)
        table = nn.Parameter(torch.empty((2 * rows - 1) * (2 * columns - 1), num_heads))
        self.register_parameter("relative_position_bias_table", table if relative_position_bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set what belongs to no submodule: the biases of relative positions, normal with deviation 0.02."""
        if self.relative_position_bias_table is not None:
            nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, H, W, C) to (B, H, W, C)."""
        window_size, shift_size = self.window_and_shift(x)
        table: Tensor | None = self.relative_position_bias_table
        if table is not None:
            table = crop_bias_table(table, self.window_size, window_size)
        bias = self.qkv.bias
        mixed = window_attention(
            self.qkv(x),
            table,
            num_heads=self.num_heads,
            window_size=window_size,
            shift_size=shift_size,
            pad_kv=None if bias is None else bias.view(3, -1)[1:],
            impl=self.impl,
        )
        y: Tensor = self.proj(mixed)
        return y


def crop_bias_table(table: Tensor, window_size: tuple[int, int], smaller: tuple[int, int]) -> Tensor:
    """Take the biases of the relative positions that occur in a smaller window.

    Args:
        table: Biases of shape ((2h - 1) * (2w - 1), num_heads) for windows of h x w tokens.
        window_size: (h, w).
        smaller: Window size, in tokens, whose relative positions are wanted.

    Returns:
        Biases for the smaller window, in the same row order.

    Example:
        >>> crop_bias_table(torch.arange(9).view(9, 1), (2, 2), (1, 1))
        tensor([[4]])
    """
    if window_size == smaller:
        return table
    (height, width), (rows, columns) = window_size, smaller
    grid = table.view(2 * height - 1, 2 * width - 1, -1)
    grid = grid[height - rows : height + rows - 1, width - columns : width + columns - 1]
    return grid.reshape((2 * rows - 1) * (2 * columns - 1), -1)
