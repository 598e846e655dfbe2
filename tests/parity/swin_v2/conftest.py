"""A small Swin Transformer V2 of ours, of the sizes that the peers are built with."""

from collections.abc import Callable
from typing import Any

import pytest

from mmvisattn.backbones.swin_v2 import SwinTransformerV2

ARCH = {"embed_dim": 16, "depths": (2, 2, 2), "num_heads": (2, 4, 4)}


@pytest.fixture
def our_swin_v2() -> Callable[..., SwinTransformerV2]:
    def build(extra_norm_every_n_blocks: int = 0, **options: Any) -> SwinTransformerV2:
        arch = {name: options.pop(name, value) for name, value in ARCH.items()}
        arch["extra_norm_every_n_blocks"] = extra_norm_every_n_blocks
        return SwinTransformerV2(arch, **{"window_size": 4, "out_indices": (0, 1, 2), **options})

    return build
