"""Cut an image into patches and embed each of them."""

import torch.nn.functional as F
from torch import Tensor, nn

from mmvisattn.ops.precision import autocast_is_on
from mmvisattn.ops.validation import check_count


class PatchEmbed(nn.Module):
    """Embed every non-overlapping patch of an image with one linear map (Dosovitskiy et al., 2021, section 3.1).

    Images whose sides are no multiple of the patch are padded with zeros at the bottom and on the right, so a map
    has ``ceil(side / patch_size)`` tokens along each side.

    Args:
        in_channels: Channels of the image.
        embed_dim: Channels of a token.
        patch_size: Side of a patch in pixels.
        norm: Layer applied to the tokens.
    """

    def __init__(self, in_channels: int, embed_dim: int, patch_size: int, norm: nn.Module) -> None:
        super().__init__()
        self.patch_size = patch_size
        self.proj = patch_projection(in_channels, embed_dim, patch_size)
        self.norm = norm

    def forward(self, image: Tensor) -> Tensor:
        """Map an image (B, in_channels, H, W) in pixels to tokens (B, H / patch, W / patch, embed_dim).

        Raises:
            ValueError: If ``image`` does not have that shape.
            TypeError: If the dtype of ``image`` is not that of the weights and autocast is off.
        """
        check_image(image, self.proj)
        # The convolution leaves out what does not fill a patch. A padding that depends on the remainder would make
        # torch.compile with changing sizes very slow.
        image = F.pad(image, (0, self.patch_size - 1, 0, self.patch_size - 1))
        tokens: Tensor = self.norm(self.proj(image).permute(0, 2, 3, 1).contiguous())
        return tokens


def patch_projection(in_channels: int, embed_dim: int, patch_size: int) -> nn.Conv2d:
    """Return the convolution that maps every patch of an image to ``embed_dim`` channels.

    Raises:
        ValueError: If a number is not a positive integer.
    """
    check_count("in_channels", in_channels)
    check_count("embed_dim", embed_dim)
    check_count("patch_size", patch_size)
    return nn.Conv2d(in_channels, embed_dim, kernel_size=patch_size, stride=patch_size)


def check_image(image: Tensor, proj: nn.Conv2d) -> None:
    """Check that an image suits the convolution that reads it.

    Raises:
        ValueError: If ``image`` is not a non-empty tensor of shape (B, in_channels, H, W).
        TypeError: If it is no tensor, or its dtype is not that of the weights and autocast is off.
    """
    if not isinstance(image, Tensor):
        raise TypeError(f"image must be a tensor, got {type(image).__name__}")
    if image.ndim != 4 or image.shape[1] != proj.in_channels or 0 in image.shape[2:]:
        raise ValueError(
            f"image must have shape (B, {proj.in_channels}, H, W) with H, W >= 1, got {tuple(image.shape)}; "
            "the number of channels is set by in_channels"
        )
    casts_itself = autocast_is_on(image) and image.is_floating_point()
    if image.dtype != proj.weight.dtype and not casts_itself:
        raise TypeError(f"image must have the dtype of the weights, {proj.weight.dtype}, got {image.dtype}")
