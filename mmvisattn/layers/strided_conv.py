"""Convolutions of non-overlapping squares: the stem and the downsampling of convolutional backbones."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvisattn.layers.patch_embed import check_image, patch_projection


class StridedConv(nn.Module):
    """Norm and convolution of non-overlapping squares, the downsampling between two stages.

    A side that is no multiple of the stride loses its remainder, as in the official code; a side shorter than the
    stride is padded with zeros to it, so that no map is ever empty.

    Args:
        norm: Norm before the convolution.
        dim: Channels in.
        out_dim: Channels out.
        stride: Side of a square, in tokens.
    """

    def __init__(self, norm: nn.Module, dim: int, out_dim: int, stride: int) -> None:
        super().__init__()
        self.norm = norm
        self.conv = nn.Conv2d(dim, out_dim, kernel_size=stride, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, H, W, C) to (B, max(1, H // stride), max(1, W // stride), out_dim)."""
        return strided_conv(self.norm(x).permute(0, 3, 1, 2), self.conv)


class ConvStem(nn.Module):
    """Convolution of non-overlapping patches and norm; sides as in :class:`StridedConv`.

    Args:
        in_channels: Channels of the image.
        dim: Channels of a token.
        patch_size: Side of a patch in pixels.
        norm: Norm after the convolution.
    """

    def __init__(self, in_channels: int, dim: int, patch_size: int, norm: nn.Module) -> None:
        super().__init__()
        self.proj = patch_projection(in_channels, dim, patch_size)
        self.norm = norm

    def forward(self, image: Tensor) -> Tensor:
        """Map an image (B, in_channels, H, W) to tokens (B, max(1, H // patch), max(1, W // patch), dim)."""
        check_image(image, self.proj)
        tokens: Tensor = self.norm(strided_conv(image.contiguous(memory_format=torch.channels_last), self.proj))
        return tokens


def strided_conv(x: Tensor, conv: nn.Conv2d) -> Tensor:
    """Convolve (B, C, H, W), channels-last in memory, to (B, H', W', C'); a side shorter than the kernel is padded."""
    kernel = conv.kernel_size[0]
    missing_rows, missing_columns = (max(0, kernel - side) for side in x.shape[2:])
    if missing_rows or missing_columns:
        x = F.pad(x, (0, missing_columns, 0, missing_rows))
    y: Tensor = conv(x)
    return y.permute(0, 2, 3, 1).contiguous()
