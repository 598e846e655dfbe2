"""The scripts as a user starts them: our tools, the stock tools behind `python -m mmvisattn.hosts`, the shell files."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TIMEOUT = 300  # seconds, for importing both hosts on a busy machine


def run(*command, **environment):
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=TIMEOUT, env=variables)


def stock_script(name):
    """Path of one of MMDetection's own tools; its wheel carries them."""
    script = Path(importlib.util.find_spec("mmdet").origin).parent / ".mim" / "tools" / name
    if not script.is_file():
        pytest.skip("this MMDetection was installed without its tools")
    return script


def key_value(options):
    return [f"{key}={value}" for key, value in options.items()]


def test_train_then_the_stock_test_script(tiny_configs, data_options, generated_shapes, tmp_path):
    """MMDetection's test.py imports mmcv's operators before it reads a config; the checkpoint holds a training log."""
    options = key_value({**data_options("mmdet", generated_shapes), "train_cfg.max_epochs": 1})
    config = tiny_configs["mmdet"]
    trained = run(sys.executable, ROOT / "tools/train.py", config, "--work-dir", tmp_path, "--cfg-options", *options)
    assert (tmp_path / "epoch_1.pth").is_file(), trained.stderr[-3000:]
    arguments = [config, tmp_path / "epoch_1.pth", "--work-dir", tmp_path / "stock", "--cfg-options", *options]
    tested = run(sys.executable, "-m", "mmvisattn.hosts", stock_script("test.py"), *arguments)
    assert tested.returncode == 0, tested.stderr[-3000:]
    assert "coco/bbox_mAP" in tested.stdout + tested.stderr


def test_a_stock_script_sees_its_own_arguments():
    helped = run(sys.executable, "-m", "mmvisattn.hosts", stock_script("test.py"), "--help")
    assert helped.returncode == 0
    assert "usage: test.py [-h]" in helped.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "usage: python -m mmvisattn.hosts SCRIPT [ARGS...]"),
        (["lost.py"], "python -m mmvisattn.hosts: error: SCRIPT is 'lost.py', which is not a file."),
    ],
)
def test_no_script(arguments, sentence):
    done = run(sys.executable, "-m", "mmvisattn.hosts", *arguments)
    assert (done.returncode, done.stderr.strip()) == (1, sentence)


def test_an_input_error_is_one_line_without_a_traceback(tiny_configs, tmp_path):
    done = run(sys.executable, ROOT / "tools/test.py", tiny_configs["mmseg"], "lost.pth", "--work-dir", tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert (
        done.stderr.strip().splitlines()[-1] == "tools/test.py: error: checkpoint is 'lost.pth', which is not a file."
    )


# The shell files, with a stand-in for the launcher that prints its arguments


@pytest.fixture
def echo(tmp_path):
    """A folder with `srun` and `python` that print their arguments, one a line."""
    for name in ("srun", "python"):
        (tmp_path / name).write_text('#!/usr/bin/env bash\nprintf "%s\\n" "$@"\n')
        (tmp_path / name).chmod(0o755)
    return f"{tmp_path}{os.pathsep}{os.environ['PATH']}"


def test_dist_train_and_dist_test(echo):
    done = run(ROOT / "tools/dist_train.sh", "my config.py", 2, "--amp", "--resume", PATH=echo, PORT="1234")
    words = done.stdout.splitlines()
    assert words[:2] == ["-m", "torch.distributed.run"]
    assert {"--nproc_per_node=2", "--master_port=1234", "--nnodes=1"} <= set(words)
    script = words.index(str(ROOT / "tools" / "train.py"))
    assert words[script + 1 :] == ["my config.py", "--launcher", "pytorch", "--amp", "--resume"]
    done = run(ROOT / "tools/dist_test.sh", "config.py", "last.pth", 4, "--tta", PATH=echo)
    words = done.stdout.splitlines()
    assert "--nproc_per_node=4" in words
    assert words[-5:] == ["config.py", "last.pth", "--launcher", "pytorch", "--tta"]


@pytest.mark.parametrize(
    ("gpus_per_node", "allocation"),
    [("4", ["--gres=gpu:4", "--ntasks-per-node=4"]), ("0", ["--ntasks-per-node=1"])],
)
def test_slurm_train(echo, gpus_per_node, allocation):
    arguments = ["part", "job", "config.py", "work", "--amp"]
    done = run(ROOT / "tools/slurm_train.sh", *arguments, PATH=echo, GPUS_PER_NODE=gpus_per_node, SRUN_ARGS="--mem 4G")
    words = done.stdout.splitlines()
    assert {"--partition=part", "--job-name=job", "--ntasks=8", *allocation} <= set(words)
    assert any(word.startswith("--gres") for word in words) == (gpus_per_node != "0")
    assert words[words.index("--mem") + 1] == "4G"
    assert words[-6:] == ["config.py", "--work-dir", "work", "--launcher", "slurm", "--amp"]


@pytest.mark.parametrize("script", ["dist_train.sh", "dist_test.sh", "slurm_train.sh"])
def test_too_few_arguments(script):
    done = run(shutil.which("bash"), ROOT / "tools" / script, "config.py")
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--sizes", "0x64"], "argument --sizes: must be a whole number, 1 or more, got '0'"),
        (["--sizes", "64"], "argument --sizes: must be HEIGHTxWIDTH, such as 512x512, got '64'"),
        (["--against", "tim"], "argument --against: swin_tiny can be compared with "),
    ],
)
def test_faulty_argument_of_the_benchmark(arguments, sentence):
    done = run(sys.executable, ROOT / "tools/benchmark.py", "swin_tiny", *arguments)
    assert done.returncode == 2 and sentence in done.stderr
    assert "Traceback" not in done.stderr
