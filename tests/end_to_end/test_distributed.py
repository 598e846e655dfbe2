"""Two processes on the CPU train both hosts to equal parameters, with frozen stages and SyncBatchNorm in the config."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parent / "processes" / "train_and_digest.py"
TIMEOUT = 600  # seconds; two processes import both hosts on what may be one busy core

pytestmark = pytest.mark.xdist_group("distributed")  # one process shares the trainings below


@pytest.fixture(scope="module")
def digests(tiny_configs, data_options, generated_shapes, tmp_path_factory):
    """Run -> what ranks 0 and 1 ended with, and the log."""
    if torch.cuda.is_available():
        pytest.skip("the processes would train on the GPU")
    output = tmp_path_factory.mktemp("distributed")
    runs = {}
    for host, shorter in (("mmdet", {"train_cfg.max_epochs": 2}), ("mmseg", {"train_cfg.max_iters": 2})):
        options = {
            **data_options(host, generated_shapes),
            **shorter,
            "model.backbone.frozen_stages": 1,
            "find_unused_parameters": False,
            "custom_hooks": [dict(type="mmvisattn.ExactResume")],
        }
        runs[host] = dict(config=tiny_configs[host], work_dir=str(output / host), cfg_options=options)
    checkpoint = str(output / "mmdet" / "epoch_1.pth")
    runs["resumed"] = {**runs["mmdet"], "work_dir": str(output / "resumed"), "resume": checkpoint}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(SCRIPT)]
    done = subprocess.run(
        [*command, str(output), json.dumps(list(runs.values()))],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return {
        name: dict(
            ranks=[json.loads((output / f"run{index}_rank{rank}.json").read_text()) for rank in (0, 1)],
            log=next((output / name).glob("*/*.log")).read_text(),
        )
        for index, name in enumerate(runs)
    }


@pytest.mark.parametrize("host", ["mmdet", "mmseg"])
def test_ranks_end_with_equal_parameters(digests, host):
    first, second = digests[host]["ranks"]
    assert first == second
    assert first["wrapper"] == "CpuDistributedDataParallel"


@pytest.mark.parametrize("host", ["mmdet", "mmseg"])
def test_frozen_stages_stay_out_of_it(digests, host):
    """Without find_unused_parameters, as in the hosts' default: stages frozen after the wrapping would stop the run."""
    first = digests[host]["ranks"][0]
    assert any(".stages.0." in name for name in first["frozen"])
    assert not any(".stages.1.blocks" in name for name in first["frozen"])
    assert sorted(first["frozen"] + first["stepped"]) == first["all"]


@pytest.mark.parametrize("host", ["mmdet", "mmseg"])
def test_sync_batch_norm_is_replaced_and_said(digests, host):
    assert "SyncBatchNorm needs a GPU: " in digests[host]["log"]


def test_each_process_resumes_exactly(digests):
    """The processes see other images and draw other numbers; each gets its own generator states back."""
    assert digests["resumed"]["ranks"] == digests["mmdet"]["ranks"]
