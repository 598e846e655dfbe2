"""MMEngine checkpoints load with torch's safe loader; anything that would run code is refused."""

import os
import pathlib
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch
from mmengine.logging import HistoryBuffer
from mmengine.registry import PARAM_SCHEDULERS

from mmvisattn.hosts import checkpoint_safety


@pytest.fixture(autouse=True)
def installed():
    before = torch.serialization.get_safe_globals()
    checkpoint_safety.install()
    yield
    torch.serialization.clear_safe_globals()
    torch.serialization.add_safe_globals(before)


@pytest.fixture
def mmengine_checkpoint(tmp_path):
    """What MMEngine writes besides weights: the log with its statistics, NumPy scalars among the runtime values."""
    history = HistoryBuffer([1.0, 2.0, 6.0], [1, 1, 1])
    content = {
        "state_dict": {"weight": torch.arange(3.0)},
        "message_hub": {
            "log_scalars": {"train/loss": history},
            "runtime_info": {"best_score": np.float64(0.5), "flag": np.bool_(True), "iters": np.arange(2)},
        },
    }
    path = tmp_path / "epoch_1.pth"
    torch.save(content, path)
    return path


class Calls:
    """Pickles as a call of a function."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call

    def __call__(self):
        """pickle asks that what is called be callable, also where it is the result of a call."""


def test_a_checkpoint_loads_and_its_log_still_works(mmengine_checkpoint):
    content = torch.load(mmengine_checkpoint, weights_only=True)
    history = content["message_hub"]["log_scalars"]["train/loss"]
    assert [history.statistics(name) for name in checkpoint_safety.STATISTICS] == [3.0, 6.0, 1.0, 6.0]
    history.update(7.0)
    assert history.current() == 7.0
    runtime = content["message_hub"]["runtime_info"]
    assert (runtime["best_score"], runtime["flag"], runtime["iters"].tolist()) == (0.5, True, [0, 1])
    assert torch.equal(content["state_dict"]["weight"], torch.arange(3.0))


def test_without_the_list_it_does_not_load(mmengine_checkpoint):
    torch.serialization.clear_safe_globals()
    with pytest.raises(pickle.UnpicklingError, match="Unsupported global"):
        torch.load(mmengine_checkpoint, weights_only=True)


def test_installing_twice_changes_nothing():
    before = torch.serialization.get_safe_globals()
    checkpoint_safety.install()
    assert torch.serialization.get_safe_globals() == before


@pytest.mark.parametrize("module", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_arrays_written_by_numpy_1_and_2(tmp_path, module):
    torch.save({"scores": np.arange(3.0)}, tmp_path / "written.pth", pickle_protocol=2)
    renamed = tmp_path / "renamed.pth"
    rewrite_pickle(tmp_path / "written.pth", renamed, np.ndarray.__reduce__(np.arange(3.0))[0].__module__, module)
    assert torch.load(renamed, weights_only=True)["scores"].tolist() == [0.0, 1.0, 2.0]


def rewrite_pickle(source, target, old, new):
    """Copy a checkpoint with one module name in its pickle replaced."""
    with zipfile.ZipFile(source) as read, zipfile.ZipFile(target, "w") as write:
        for name in read.namelist():
            content = read.read(name)
            write.writestr(name, content.replace(f"c{old}\n".encode(), f"c{new}\n".encode()))


@pytest.mark.parametrize(
    "attack",
    [
        Calls(os.system, "touch executed"),
        Calls(getattr, pathlib.Path, "touch"),
        Calls(getattr, HistoryBuffer, "__init__"),
        Calls(getattr, HistoryBuffer, "update"),
        Calls(Calls(getattr, pathlib.Path, "touch"), pathlib.Path("executed")),
        Calls(eval, "open('executed', 'w')"),
    ],
    ids=["os.system", "getattr on a path", "constructor", "a method that is no statistic", "getattr then call", "eval"],
)
def test_a_file_that_asks_for_more_is_refused(tmp_path, monkeypatch, attack):
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": {}, "hook": attack}, "evil.pth")
    with pytest.raises((pickle.UnpicklingError, ValueError)):
        torch.load("evil.pth", weights_only=True)
    assert not (tmp_path / "executed").exists()


def test_the_stand_in_says_what_it_refused():
    with pytest.raises(ValueError, match=r"asks for getattr\(<module 'os'.*'system'\), but only mean, max"):
        checkpoint_safety.mmengine_method(os, "system")
    with pytest.raises(ValueError, match=r"asks for getattr\(<class '.*HistoryBuffer'>, 'update'\)"):
        checkpoint_safety.mmengine_method(HistoryBuffer, "update")


SCHEDULERS = {
    "ConstantLR": {},
    "CosineAnnealingLR": dict(T_max=4),
    "CosineRestartLR": dict(periods=[2, 2], restart_weights=[1, 1], eta_min=0.0),
    "ExponentialLR": dict(gamma=0.9),
    "LinearLR": {},
    "MultiStepLR": dict(milestones=[2]),
    "OneCycleLR": dict(eta_max=0.1, total_steps=4),
    "PolyLR": {},
    "ReduceOnPlateauLR": dict(monitor="loss"),
    "StepLR": dict(step_size=2),
}


def test_every_learning_rate_schedule_of_mmengine_is_tried():
    registered = {name for name in PARAM_SCHEDULERS.module_dict if name.endswith("LR")}
    assert registered - {"LinearInterpolationLR"} == set(SCHEDULERS)


@pytest.mark.parametrize("name", SCHEDULERS)
def test_the_state_of_every_schedule_loads(name, tmp_path):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    state = PARAM_SCHEDULERS.build(dict(type=name, optimizer=optimizer, **SCHEDULERS[name])).state_dict()
    torch.save({"param_schedulers": [state]}, tmp_path / "epoch_1.pth")
    loaded = torch.load(tmp_path / "epoch_1.pth", weights_only=True)["param_schedulers"][0]
    assert loaded.keys() == state.keys()
    if "anneal_func" in state:
        assert loaded["anneal_func"](0.0, 1.0, 0.5) == state["anneal_func"](0.0, 1.0, 0.5)


def test_mmengine_itself_loads_with_the_registry_imported(mmengine_checkpoint):
    """In a process of its own, as a user meets it."""
    code = (
        "import mmvisattn.registry, sys\n"
        "from mmengine.runner.checkpoint import _load_checkpoint\n"
        "print(_load_checkpoint(sys.argv[1])['message_hub']['log_scalars']['train/loss'].mean())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(mmengine_checkpoint)], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.split()[-1:] == ["3.0"], done.stderr[-2000:]
