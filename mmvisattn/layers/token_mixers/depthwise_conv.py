"""Depthwise convolution, the token mixer of ConvNeXt (Liu et al., "A ConvNet for the 2020s", 2022, section 2.3)."""

from torch import Tensor, nn


class DepthwiseConv(nn.Conv2d):
    """7 x 7 convolution of every channel alone, on a (B, H, W, C) map.

    Args:
        dim: Channels in and out.
    """

    def __init__(self, dim: int) -> None:
        super().__init__(dim, dim, kernel_size=7, padding=3, groups=dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, H, W, C) to (B, H, W, C); no copy is made, the permuted map is channels-last in memory."""
        return super().forward(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
