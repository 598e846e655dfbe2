"""What all comparisons with other libraries need: random weights, weights through a name table, the error measure.

Everything runs in float64 on the CPU, so that the same function computed in another order agrees to about 1e-15 times
the number of operations; TOLERANCE leaves room for that and for nothing else.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from mmvisattn.checkpoints.key_map import KeyMap

TOLERANCE = 1e-9


def randomise(model: nn.Module, seed: int = 0) -> nn.Module:
    """Turn a model to float64 and eval mode, with every parameter random, norm weights and tables included."""
    generator = torch.Generator().manual_seed(seed)
    model.double()
    model.eval()  # not chained: mmpretrain's eval() returns nothing
    with torch.no_grad():
        for module in model.modules():
            for name, parameter in module.named_parameters(recurse=False):
                fan_in = parameter[0].numel() if parameter.ndim > 1 else 1
                parameter.normal_(0.0, min(0.5, fan_in**-0.5), generator=generator)
                if isinstance(module, nn.LayerNorm) and name == "weight":
                    parameter.add_(1.0)
    return model


def with_exact_coordinates(model: nn.Module) -> nn.Module:
    """Recompute in float64 the coordinates that a Swin V2 model stores in float32, (1, 2h-1, 2w-1, 2).

    What they mean is read from the numbers themselves: the largest one tells by what the offsets were divided.
    """
    for module in model.modules():
        if hasattr(module, "relative_coords_table"):
            stored, axes = module.relative_coords_table.double(), []
            for rounded in (stored[0, :, 0, 0], stored[0, 0, :, 1]):
                offsets = torch.arange(len(rounded)).double() - len(rounded) // 2
                divisor = (8 * offsets[-1] / (8 ** rounded[-1] - 1)).nan_to_num(1.0).round()
                axes.append(offsets.sign() * torch.log2(8 * offsets.abs() / divisor + 1) / 3)
            exact = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)[None]
            assert (exact - stored).abs().max() < 1e-6
            module.relative_coords_table = exact
    return model


def _transfer(state: Mapping[str, Tensor], model: nn.Module, key_map: KeyMap) -> None:
    """Load a peer's state dict into our model through its table; only output norms may be missing or left over.

    The way back through the table must lead to the peer's own tensors.
    """
    converted = key_map.convert(state)
    tensors, back = converted.tensors, key_map.inverse().convert(converted.tensors).tensors
    assert back.keys() | converted.dropped.keys() == set(state)
    assert all(torch.equal(back[key].nan_to_num(), state[key].nan_to_num()) for key in back)
    model.double().eval()
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert all(key_map.is_optional(name) for name in [*missing, *unexpected]), (missing, unexpected)


def _largest_error(ours: Sequence[Tensor], peers: Sequence[Tensor]) -> float:
    """Largest difference of any output, relative to the largest value of that output."""
    assert [tuple(x.shape) for x in ours] == [tuple(x.shape) for x in peers]
    return max(((a - b).abs().max() / b.abs().max()).item() for a, b in zip(ours, peers, strict=True))


def _without_out_norms(model: nn.Module) -> nn.Module:
    """Replace the output norms of our model by nothing, for peers that return the maps before a norm."""
    for index in list(model.out_norms):
        model.out_norms[index] = nn.Identity()
    return model


def _check_table(key_map: KeyMap, state: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check that a table turns a peer's state dict into exactly these parameters, and that it leads back bit by bit."""
    converted = key_map.convert(state)
    assert {name: tuple(tensor.shape) for name, tensor in converted.tensors.items()} == shapes
    back = key_map.inverse().convert(converted.tensors).tensors
    assert back.keys() | converted.dropped.keys() == set(state)
    assert [key for key in back if not torch.equal(back[key], state[key])] == []


@pytest.fixture
def check_table() -> Callable[..., None]:
    return _check_table


@pytest.fixture(name="randomise")
def randomise_fixture() -> Callable[..., nn.Module]:
    return randomise


@pytest.fixture(name="with_exact_coordinates")
def with_exact_coordinates_fixture() -> Callable[..., nn.Module]:
    return with_exact_coordinates


@pytest.fixture
def transfer() -> Callable[..., None]:
    return _transfer


@pytest.fixture
def largest_error() -> Callable[..., float]:
    return _largest_error


@pytest.fixture
def without_out_norms() -> Callable[..., nn.Module]:
    return _without_out_norms


@pytest.fixture
def image() -> Callable[..., Tensor]:
    def make(height: int, width: int, batch: int = 2) -> Tensor:
        return torch.randn(batch, 3, height, width, generator=torch.Generator().manual_seed(height + width)).double()

    return make


@pytest.fixture(scope="session")
def tolerance() -> float:
    return TOLERANCE


@pytest.fixture(scope="session")
def mmpretrain_results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """Weights, images and outputs of mmpretrain's models, computed by mmpretrain_peer.py in a process of its own.

    mmpretrain 1.2 cannot be imported where transformers 5 is, and mmdet imports it when it can. So it lives in a folder
    of its own beside the environment, and gets a process that hides transformers.
    """
    folder = tmp_path_factory.mktemp("mmpretrain")
    script = Path(__file__).with_name("mmpretrain_peer.py")
    command = [sys.executable, str(script), str(folder / "results.pth")]
    environment = {**os.environ, "PYTHONPATH": str(Path(sys.prefix) / "mmpretrain")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return torch.load(folder / "results.pth", weights_only=True)
