"""What a test writes beside its scores: ``--out``, ``--show``, ``--show-dir``.

The hosts mean different things by ``--out``: MMDetection dumps all predictions into one pickle file, MMSegmentation
saves one label map per image into a folder.
"""

from pathlib import Path

from mmengine.config import Config

from mmvisattn.hosts.input_error import InputError


def save_predictions(cfg: Config, out: str) -> None:
    """Make a test keep its predictions.

    Args:
        cfg: The config; its ``test_evaluator`` is changed.
        out: Under ``mmdet`` a ``.pkl`` or ``.pickle`` file, under ``mmseg`` a folder.

    Raises:
        InputError: If ``out`` is not of the kind the host writes, or there is nothing to add it to.
    """
    evaluators = cfg.test_evaluator
    evaluators = list(evaluators) if isinstance(evaluators, (list, tuple)) else [evaluators]
    if cfg.default_scope == "mmdet":
        if Path(out).suffix not in (".pkl", ".pickle"):
            raise InputError(f"--out is '{out}'; for a detector it must be a .pkl or .pickle file.")
        cfg.test_evaluator = [*evaluators, dict(type="mmdet.DumpDetResults", out_file_path=out)]
        return
    if Path(out).suffix in (".pkl", ".pickle") or Path(out).is_file():
        raise InputError(f"--out is '{out}'; for a segmentor it must be a folder, where label maps are saved.")
    for evaluator in evaluators:
        if evaluator["type"].rsplit(".", 1)[-1] == "IoUMetric":
            evaluator["output_dir"] = out
            return
    raise InputError("--out needs an IoUMetric among test_evaluator, which saves the label maps.")


def show_predictions(cfg: Config, show: bool, show_dir: str | None, wait_time: float) -> None:
    """Make a test paint its predictions.

    Args:
        cfg: The config; ``default_hooks.visualization`` and, under ``mmseg``, ``visualizer.save_dir`` are changed.
        show: Whether to open a window per image.
        show_dir: The folder to save pictures in; None = do not save. MMDetection puts it below the run's own folder,
            ``work_dir/timestamp``.
        wait_time: How long a window stays, in seconds.

    Raises:
        InputError: If the config has no visualization hook.
    """
    hook = cfg.get("default_hooks", {}).get("visualization")
    if hook is None:
        name = "DetVisualizationHook" if cfg.default_scope == "mmdet" else "SegVisualizationHook"
        raise InputError(f"--show and --show-dir need default_hooks.visualization=dict(type='{name}') in the config.")
    hook.draw = True
    if show:
        hook.show = True
        hook.wait_time = wait_time
    if show_dir is None:
        return
    if cfg.default_scope == "mmdet":
        hook.test_out_dir = show_dir
    else:
        cfg.visualizer.save_dir = show_dir
        hook.interval = 1  # MMSegmentation's default paints every 50th batch
