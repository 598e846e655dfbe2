"""Vectors of unit length for cosine attention."""

import torch
from torch import Tensor

SMALLEST_NORM = 1e-12


def inverse_norm(vectors: Tensor) -> Tensor:
    """Return 1/max(norm, 1e-12) along the last axis, kept as an axis of size 1.

    A zero vector has no direction; its factor is 0, so that it stays zero and gets no gradient. (The derivative of
    x/max(norm, 1e-12) at zero is 1e12, which would drown every other gradient.)
    """
    norm = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return torch.where(norm > 0, 1 / norm.clamp_min(SMALLEST_NORM), 0)


def normalize(vectors: Tensor) -> Tensor:
    """Divide by max(norm, 1e-12) along the last axis."""
    return vectors * inverse_norm(vectors)
