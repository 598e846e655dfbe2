"""Learned absolute position embeddings."""

import torch
import torch.nn.functional as F
from torch import Tensor


def resize_position_embedding(embedding: Tensor, size: tuple[int, int]) -> Tensor:
    """Resize an embedding (1, C, H, W) to ``size`` tokens by bicubic interpolation.

    Computed in float32 or wider. An embedding that has the size already is returned as it is.

    Args:
        embedding: Embedding of shape (1, C, H, W).
        size: (rows, columns) in tokens.

    Returns:
        Embedding of shape (1, C, rows, columns), in the dtype of ``embedding``.
    """
    if embedding.shape[2:] == size:
        return embedding
    wide = embedding.to(torch.promote_types(embedding.dtype, torch.float32))
    return F.interpolate(wide, size=size, mode="bicubic", align_corners=False).to(embedding.dtype)


def add_position_embedding(x: Tensor, embedding: Tensor) -> Tensor:
    """Add an embedding (1, C, h, w), resized to the map, to a map ``x`` (B, H, W, C)."""
    resized = resize_position_embedding(embedding, (x.shape[1], x.shape[2]))
    return x + resized.permute(0, 2, 3, 1).to(x.dtype)
