"""The wheel, installed into a clean environment, trains a shipped config from outside the repository."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = "mask-rcnn_swin-nano_fpn_shapes"


def run(*command, cwd, check=True):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert not check or done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The built wheel; the build runs on a copy, so that the clone stays clean."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout.split("\0")
    for name in filter(None, sources):
        if not name.startswith(("tests/", "docs/")) and (ROOT / name).is_file():
            target = folder / "source" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    build = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, "."]
    run(sys.executable, *build, cwd=folder / "source")
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """Python of an environment that holds the wheel, and sees torch and the hosts of the running one."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    interpreter = folder / "bin" / "python"
    purelib = Path(
        run(interpreter, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).stdout.strip()
    )
    seen = [path for path in sys.path if path.endswith("site-packages")]  # of an environment layered on another, both
    (purelib / "base_environment.pth").write_text("\n".join(seen))
    install = ["-m", "pip", "--python", interpreter, "install", "--quiet", "--no-deps", "--no-index", wheel]
    run(sys.executable, *install, cwd=folder)
    return interpreter


def test_the_package_comes_from_the_wheel(python, tmp_path):
    code = "import mmvisattn, mmvisattn.registry as r; print(r.__file__)"
    assert str(python.parents[1]) in run(python, "-c", code, cwd=tmp_path).stdout


def test_configs_are_found_and_copied(python, tmp_path):
    command = [python, "-m", "mmvisattn", "configs"]
    assert CONFIG in run(*command, "list", cwd=tmp_path).stdout
    copied = Path(run(*command, "copy", CONFIG, "--to", tmp_path / "mine", cwd=tmp_path).stdout.strip())
    assert copied.is_file() and copied.is_relative_to(tmp_path)
    wrong = run(*command, "path", "mask-rcnn_swin-nono_fpn_shapes", cwd=tmp_path, check=False)
    assert wrong.returncode == 1 and CONFIG in wrong.stderr


def test_one_step_of_training(python, generated_shapes, tmp_path):
    config = Path(
        run(
            python, "-m", "mmvisattn", "configs", "copy", CONFIG, "--to", tmp_path / "mine", cwd=tmp_path
        ).stdout.strip()
    )
    tools = (
        Path(run(python, "-c", "import mmvisattn; print(mmvisattn.__path__[0])", cwd=tmp_path).stdout.strip()) / "tools"
    )
    options = [
        "train_cfg.max_iters=1",
        "train_cfg.val_interval=1",
        "train_dataloader.batch_size=1",
        f"train_dataloader.dataset.data_root={generated_shapes}/",
        f"val_dataloader.dataset.data_root={generated_shapes}/",
        f"val_evaluator.ann_file={generated_shapes}/annotations/instances_val.json",
        "default_hooks.checkpoint.interval=1",
    ]
    run(python, tools / "train.py", config, "--work-dir", tmp_path / "run", "--cfg-options", *options, cwd=tmp_path)
    assert (tmp_path / "run" / "iter_1.pth").is_file()
