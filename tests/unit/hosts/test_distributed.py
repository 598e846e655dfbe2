"""What each launcher is expected to set, and what becomes of a config on the CPU."""

import os
import socket
import subprocess
import sys

import pytest
import torch
from mmengine.config import Config
from torch import distributed as torch_distributed

from mmvisattn.hosts import distributed
from mmvisattn.hosts.input_error import InputError

ENVIRONMENT = {
    "pytorch": {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"},
    "slurm": {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_LOCALID": "1", "SLURM_NODELIST": "node[7-8]"},
    "mpi": {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1"},
}


@pytest.fixture
def started(monkeypatch):
    """The calls of `init_process_group`, which is not really made."""
    calls = []
    monkeypatch.setattr(
        torch_distributed,
        "init_process_group",
        lambda backend, rank, world_size: calls.append((backend, rank, world_size)),
    )
    monkeypatch.setattr(distributed.atexit, "register", lambda function: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name in ("MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(name, "")  # so that what the code sets is undone afterwards
        monkeypatch.delenv(name)
    return calls


@pytest.mark.parametrize("launcher", ["pytorch", "slurm", "mpi"])
def test_gloo_on_the_cpu(started, monkeypatch, launcher):
    for name, value in ENVIRONMENT[launcher].items():
        monkeypatch.setenv(name, value)
    if launcher == "slurm":
        answer = type("Answer", (), {"stdout": "node7\nnode8\n"})
        monkeypatch.setattr(distributed.subprocess, "run", lambda command, **_: answer)
    cfg = Config(dict(launcher=launcher, sync_bn="torch", find_unused_parameters=True))
    distributed.prepare_processes(cfg)
    assert started == [("gloo", 3, 4)]
    assert cfg.model_wrapper_cfg == dict(
        type="mmvisattn.CpuDistributedDataParallel",
        device_ids=None,
        broadcast_buffers=False,
        find_unused_parameters=True,
    )
    assert "sync_bn" not in cfg
    assert distributed.os.environ["LOCAL_RANK"] == "1"
    if launcher == "slurm":
        assert distributed.os.environ["MASTER_ADDR"] == "node7"


def test_the_group_ends_before_the_process():
    """Its threads, left running, abort the process now and then: `terminate called without an active exception`."""
    script = """
import atexit
from torch import distributed
atexit.register(lambda: print("left running:", distributed.is_initialized()))
from mmvisattn.hosts.distributed import start_gloo
start_gloo("pytorch", rank=0, world_size=1)
print("started:", distributed.is_initialized())
"""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    environment = {**os.environ, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["started: True", "left running: False"]


def test_without_a_launcher_nothing_changes(started):
    cfg = Config(dict(launcher="none", sync_bn="torch"))
    distributed.prepare_processes(cfg)
    assert (started, cfg.sync_bn) == ([], "torch")


def test_a_launcher_that_did_not_start_the_process(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(
        ValueError, match=r"^--launcher pytorch needs the environment variables RANK, WORLD_SIZE, LOCAL_RANK"
    ):
        distributed.prepare_processes(Config(dict(launcher="pytorch")))


def test_more_processes_than_gpus(monkeypatch):
    for name, value in ENVIRONMENT["pytorch"].items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(InputError, match=r"^process 1 on this machine has no GPU: there are 1;"):
        distributed.prepare_processes(Config(dict(launcher="pytorch")))


def test_options_of_the_configs_own_wrapper_are_kept():
    own = dict(type="MMDistributedDataParallel", static_graph=True, broadcast_buffers=True)
    wrapper = distributed.cpu_wrapper(Config(dict(model_wrapper_cfg=own)))
    assert (wrapper["static_graph"], wrapper["broadcast_buffers"], wrapper["device_ids"]) == (True, True, None)


def test_a_wrapper_that_needs_gpus():
    cfg = Config(dict(model_wrapper_cfg=dict(type="MMFullyShardedDataParallel")))
    with pytest.raises(InputError, match=r"^model_wrapper_cfg.type is 'MMFullyShardedDataParallel', which needs GPUs"):
        distributed.cpu_wrapper(cfg)
