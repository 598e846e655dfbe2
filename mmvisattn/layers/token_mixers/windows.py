"""What all attention in windows shares: sizes, shifts, and the rule for maps that are not larger than a window."""

from typing import Literal, get_args

from torch import Tensor, nn

from mmvisattn.layers.config_types import check_choice
from mmvisattn.ops.dispatch import Impl
from mmvisattn.ops.validation import as_pair

SmallMap = Literal["pad", "shrink"]
Pair = tuple[int, int]


class WindowMixer(nn.Module):
    """Base of the token mixers that attend within windows of a map.

    Args:
        dim: Channels in and out.
        num_heads: Number of heads; must divide ``dim``.
        window_size: Side of a window in tokens, or (rows, columns).
        shifted: Whether the windows are shifted by half a window on both axes.
        small_map: What to do with a map that is not larger than a window: ``'pad'`` it to one window and shift all
            the same (the rule in detection and segmentation), or ``'shrink'`` the window to the shorter side of the
            map and do not shift (the rule of the official classification code).
        impl: Implementation of :func:`mmvisattn.ops.window_attention`.

    Raises:
        ValueError: If ``num_heads`` does not divide ``dim``, or ``small_map`` or ``impl`` is unknown.
    """

    def __init__(
        self, dim: int, num_heads: int, *, window_size: int | Pair, shifted: bool, small_map: SmallMap, impl: Impl
    ) -> None:
        super().__init__()
        if dim % num_heads:
            raise ValueError(f"num_heads must divide the {dim} channels, got {num_heads}")
        check_choice("small_map", small_map, get_args(SmallMap))
        check_choice("impl", impl, get_args(Impl))
        self.num_heads = num_heads
        self.window_size = as_pair("window_size", window_size, minimum=1)
        self.shift_size = (self.window_size[0] // 2, self.window_size[1] // 2) if shifted else (0, 0)
        self.small_map = small_map
        self.impl = impl

    def window_and_shift(self, x: Tensor) -> tuple[Pair, Pair]:
        """Return the size and the shift of the windows for a map ``x`` (B, H, W, C), by the rule for small maps."""
        shortest = min(x.shape[1:3])
        if self.small_map == "shrink" and shortest <= min(self.window_size):
            return (shortest, shortest), (0, 0)
        return self.window_size, self.shift_size

    def extra_repr(self) -> str:
        """Return the sizes, for ``print(model)``."""
        return f"num_heads={self.num_heads}, window_size={self.window_size}, shift_size={self.shift_size}"
