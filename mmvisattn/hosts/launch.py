"""Training and testing with either host, on CPU and GPU, in one process or several.

``tools/train.py`` and ``tools/test.py`` are the command lines of :func:`train` and :func:`test`. The host is the
config's ``default_scope``: ``'mmdet'`` or ``'mmseg'``.
"""

import zipfile

from mmengine.config import Config
from mmengine.logging import print_log
from mmengine.registry import RUNNERS
from mmengine.runner import Runner, find_latest_checkpoint

from mmvisattn.hosts import input_checks, precision
from mmvisattn.hosts.backbone_check import check_backbones, check_pretrained
from mmvisattn.hosts.config_file import read_config
from mmvisattn.hosts.distributed import prepare_processes
from mmvisattn.hosts.earlier_runs import forget_earlier_runs
from mmvisattn.hosts.input_error import InputError, check_is_file
from mmvisattn.hosts.prediction_outputs import save_predictions, show_predictions
from mmvisattn.hosts.tta import enable_tta

CHECKS = ("ChannelContractHook", "LabelCheck")  # hooks every run gets


def train(
    config: str,
    work_dir: str | None = None,
    amp: bool = False,
    auto_scale_lr: bool = False,
    resume: str | None = None,
    cfg_options: dict[str, object] | None = None,
    launcher: str = "none",
) -> Runner:
    """Train the model of a config.

    Args:
        config: The config file.
        work_dir: Where logs and checkpoints go; None = the config's ``work_dir``, else ``work_dirs/<config name>``.
        amp: Mixed precision: float16 on a GPU, bfloat16 on the CPU.
        auto_scale_lr: Scale the learning rate by batch size / ``auto_scale_lr.base_batch_size``.
        resume: A checkpoint to continue from; ``'auto'`` = the latest in ``work_dir``, or a fresh start when there is
            none; None = a fresh start.
        cfg_options: Options laid over the config: dotted key to value.
        launcher: What started this process: ``'none'``, ``'pytorch'`` (torchrun), ``'slurm'`` or ``'mpi'``.

    Returns:
        The runner, after training.

    Raises:
        InputError: If the config, an option, a path or the data is faulty.
        CheckpointError: If pretrained weights cannot be read or do not fit the backbone.
    """
    forget_earlier_runs()
    cfg = read_config(config, cfg_options, work_dir, launcher)
    check_sections(cfg, "train")
    check_backbones(cfg)
    check_pretrained(cfg)
    if amp:
        precision.enable_amp(cfg)
    precision.check_device(cfg)
    if auto_scale_lr:
        enable_lr_scaling(cfg)
    if resume is not None:
        choose_checkpoint(cfg, resume)
    check_checkpoint(cfg.get("load_from"), "--resume" if cfg.get("resume") else "load_from")
    for loader in (cfg.train_dataloader, cfg.get("val_dataloader")):
        input_checks.check_paths(loader, cfg.default_scope)
    runner = build_runner(cfg)
    read_data(runner, "train")
    if cfg.get("val_dataloader"):
        read_data(runner, "val")
    runner.train()
    return runner


def test(
    config: str,
    checkpoint: str,
    work_dir: str | None = None,
    out: str | None = None,
    show: bool = False,
    show_dir: str | None = None,
    wait_time: float = 2.0,
    tta: bool = False,
    cfg_options: dict[str, object] | None = None,
    launcher: str = "none",
) -> dict[str, float]:
    """Test a checkpoint on the test data of a config.

    Args:
        config: The config file.
        checkpoint: The weights: a path, or an address that MMEngine can open.
        work_dir: Where the log and the scores go; None = the config's ``work_dir``, else ``work_dirs/<config name>``.
        out: Where predictions go: a ``.pkl`` file for a detector, a folder of label maps for a segmentor.
        show: Open a window per image.
        show_dir: A folder to save painted images in.
        wait_time: How long a window stays, in seconds.
        tta: Test-time augmentation: merge the predictions on the image and its mirror image.
        cfg_options: Options laid over the config: dotted key to value.
        launcher: What started this process: ``'none'``, ``'pytorch'`` (torchrun), ``'slurm'`` or ``'mpi'``.

    Returns:
        The scores by name.

    Raises:
        InputError: If the config, an option, a path or the data is faulty.
    """
    forget_earlier_runs()
    cfg = read_config(config, cfg_options, work_dir, launcher)
    check_sections(cfg, "test")
    check_backbones(cfg)
    check_checkpoint(checkpoint, "checkpoint")
    cfg.load_from, cfg.resume = checkpoint, False
    if show or show_dir:
        show_predictions(cfg, show, show_dir, wait_time)
    if out:
        save_predictions(cfg, out)
    input_checks.check_paths(cfg.test_dataloader, cfg.default_scope)
    if tta:
        enable_tta(cfg)
    runner = build_runner(cfg)
    read_data(runner, "test")
    return runner.test()


def check_sections(cfg: Config, split: str) -> None:
    """Check that a config has what training or testing needs.

    Args:
        cfg: The config.
        split: ``'train'`` or ``'test'``.

    Raises:
        InputError: If a section is missing.
    """
    needed = ["model", f"{split}_dataloader", f"{split}_cfg", "optim_wrapper" if split == "train" else "test_evaluator"]
    missing = [name for name in needed if not cfg.get(name) and not isinstance(cfg.get(name), dict)]
    if missing:
        raise InputError(f"config is '{cfg.filename}', which has no {' and no '.join(missing)}, needed to {split}.")


def build_runner(cfg: Config) -> Runner:
    """Build the runner of a config, with the hooks of :data:`CHECKS`.

    Args:
        cfg: The config.
    """
    prepare_processes(cfg)
    runner = RUNNERS.build(cfg) if "runner_type" in cfg else Runner.from_cfg(cfg)
    present = {type(hook).__name__ for hook in runner.hooks}
    for name in CHECKS:
        if name not in present:
            runner.register_hook(dict(type=f"mmvisattn.{name}"))
    return runner


def read_data(runner: Runner, split: str) -> None:
    """Build the loop of a split, and with it its data, and check the data.

    Args:
        runner: The runner; ``runner.train`` and ``runner.test`` use the loop built here.
        split: ``'train'``, ``'val'`` or ``'test'``.

    Raises:
        InputError: If the data cannot be read, or does not fit the model.
    """
    loader, scope = runner.cfg[f"{split}_dataloader"], runner.cfg.default_scope
    try:
        loop = getattr(runner, f"{split}_loop")
    except Exception as error:
        reason = input_checks.explain(loader, scope)
        if reason is None:
            raise
        raise InputError(reason) from error
    input_checks.check_dataset(loop.dataloader.dataset, runner.model, loader, scope)


def enable_lr_scaling(cfg: Config) -> None:
    """Switch on ``auto_scale_lr``.

    Args:
        cfg: The config.

    Raises:
        InputError: If the config does not say which batch size its learning rate is meant for.
    """
    if "base_batch_size" not in (cfg.get("auto_scale_lr") or {}):
        raise InputError(
            "--auto-scale-lr needs auto_scale_lr.base_batch_size in the config, the total batch size that the learning "
            "rate is meant for."
        )
    cfg.auto_scale_lr.enable = True


def choose_checkpoint(cfg: Config, resume: str) -> None:
    """Set ``cfg.resume`` and ``cfg.load_from``.

    Args:
        cfg: The config.
        resume: A checkpoint, or ``'auto'``: the latest in ``cfg.work_dir``; when there is none, ``cfg.load_from`` is
            kept, for a fresh start.
    """
    if resume == "auto":
        resume = find_latest_checkpoint(cfg.work_dir) or ""
    if not resume:
        print_log(f"--resume: '{cfg.work_dir}' holds no checkpoint; training starts anew.", logger="current")
    cfg.resume = bool(resume)
    cfg.load_from = resume or cfg.get("load_from")


def check_checkpoint(path: str | None, argument: str) -> None:
    """Check that a checkpoint exists and is a whole file, without reading it.

    Args:
        path: Its path; None and addresses (``https://``, ``torchvision://``) pass.
        argument: What the user wrote it in, for the sentence.

    Raises:
        InputError: If it is a path and there is no such file, or the file was not written by ``torch.save`` or cut off.
    """
    if not path or "://" in path:
        return
    check_is_file(argument, path)
    with open(path, "rb") as file:
        old_format = file.read(1) == b"\x80"  # of torch before 1.6: pickles one after the other
    if not old_format and not zipfile.is_zipfile(path):  # the list of contents stands at the end of a zip file
        raise InputError(f"{argument} is '{path}', which is not a checkpoint, or only the first part of one.")
