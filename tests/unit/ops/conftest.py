"""What the tests of the ops share: random float64 inputs, and the comparison of two implementations."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor


@pytest.fixture
def randn() -> Callable[..., Tensor]:
    """Make seeded normal float64 tensors that require grad, one after another."""
    generator = torch.Generator().manual_seed(0)

    def make(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()

    return make


@pytest.fixture
def outputs_and_gradients() -> Callable[..., list[Tensor]]:
    """Return a function's output and the gradients of a fixed weighting of it, zeros where there is none."""

    def compute(function: Callable[[], Tensor], inputs: Sequence[Tensor | None]) -> list[Tensor]:
        output = function()
        present = [tensor for tensor in inputs if tensor is not None and tensor.requires_grad]
        weighting = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)
        gradients = torch.autograd.grad(output, present, weighting, allow_unused=True)
        filled = [torch.zeros_like(t) if g is None else g for t, g in zip(present, gradients, strict=True)]
        return [output.detach(), *filled]

    return compute


@pytest.fixture
def assert_close() -> Callable[..., None]:
    """Compare lists of tensors of unit scale in float64: 1e-12 is some thousand roundings."""

    def check(ours: Sequence[Tensor], theirs: Sequence[Tensor], tolerance: float = 1e-12) -> None:
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)

    return check
