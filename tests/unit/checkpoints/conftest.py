"""A small Swin Transformer and its weights under the names of any source."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from mmvisattn.backbones.swin import SwinTransformer
from mmvisattn.checkpoints.key_map import KeyMap


@pytest.fixture
def swin() -> Callable[..., SwinTransformer]:
    def build(embed_dim: int = 8, depths: tuple[int, ...] = (1, 2), **options: Any) -> SwinTransformer:
        torch.manual_seed(0)
        arch = {"embed_dim": embed_dim, "depths": depths, "num_heads": (2,) * len(depths)}
        return SwinTransformer(arch, **{"window_size": 3, "out_indices": tuple(range(len(depths))), **options})

    return build


@pytest.fixture
def public() -> Callable[..., dict[str, Tensor]]:
    """Random weights of a model under a source's names, as a classifier's file has them: without output norms."""

    def rename(model: SwinTransformer, key_map: KeyMap, seed: int = 1) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        state = {
            name: torch.randn(tensor.shape, generator=generator)
            for name, tensor in model.state_dict().items()
            if not key_map.is_optional(name)
        }
        return key_map.inverse().convert(state).tensors

    return rename
