from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("mmcv")

from mmvisattn.hosts import mmcv_ops  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def stand_in():
    if not mmcv_ops.install():
        pytest.skip("mmcv has compiled ops here, so there is nothing to stand in for")


@pytest.fixture(scope="session")
def compiled():
    """Inputs, outputs and gradients of mmcv's own code, by `case/array`; what several cases share, by `op/array`.

    Boxes, RoIAlign and deformable convolutions: the compiled CPU ops of mmcv 2.3.6. The others: the CPU sources of
    mmcv 2.1.0 and, where it has CUDA kernels only, those kernels built as C++ for the host; float64, stored in float32.
    """
    with np.load(Path(__file__).parent / "compiled_values.npz") as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


@pytest.fixture
def random():
    """Tensors of normal values in float64, the same in every run."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape, dtype=torch.float64):
        return torch.randn(*shape, generator=generator, dtype=dtype)

    return draw
