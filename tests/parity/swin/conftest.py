"""A small Swin Transformer of ours, of the sizes that the peers are built with."""

from collections.abc import Callable
from typing import Any

import pytest

from mmvisattn.backbones.swin import SwinTransformer

ARCH = {"embed_dim": 16, "depths": (2, 2, 2), "num_heads": (2, 4, 4)}


@pytest.fixture
def our_swin() -> Callable[..., SwinTransformer]:
    def build(**options: Any) -> SwinTransformer:
        arch = {name: options.pop(name, value) for name, value in ARCH.items()}
        return SwinTransformer(arch, **{"window_size": 4, "out_indices": (0, 1, 2), **options})

    return build
