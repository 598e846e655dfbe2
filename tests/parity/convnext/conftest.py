"""Small ConvNeXts of ours, V1 and V2, of the sizes that the peers are built with."""

from collections.abc import Callable
from typing import Any

import pytest

from mmvisattn.backbones.convnext import ConvNeXt, ConvNeXtV2

DEPTHS, DIMS = (1, 2, 2, 1), (8, 16, 16, 24)


@pytest.fixture
def our_convnext() -> Callable[..., ConvNeXt]:
    def build(version: int, **options: Any) -> ConvNeXt:
        return (ConvNeXt if version == 1 else ConvNeXtV2)({"depths": DEPTHS, "channels": DIMS}, **options)

    return build


@pytest.fixture
def sizes() -> dict[str, tuple[int, ...]]:
    return {"depths": DEPTHS, "dims": DIMS}
