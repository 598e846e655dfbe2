"""The demo: make data, train a small model with our backbone, score it, show what it sees.

``tools/demo.py`` is the command line of :func:`run_demo`.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import torch
from mmengine.config import Config

from mmvisattn.analysis import shipped_configs
from mmvisattn.analysis.prediction_sheet import predict_examples, save_prediction_sheet
from mmvisattn.analysis.training_curves import save_training_curves
from mmvisattn.analysis.training_log import History, Score, TrainingLog, duration
from mmvisattn.datasets.shapes import SEGMENTATION_CLASSES, SHAPE_CLASSES, ensure_shapes
from mmvisattn.datasets.shapes.palette import CLASS_COLOURS
from mmvisattn.hosts.config_file import read_config
from mmvisattn.hosts.launch import build_runner, read_data

SHOWN_IMAGES = 8  # on the prediction sheet: the first held-out ones, whatever they look like


@dataclass(frozen=True)
class Task:
    """What the demo trains.

    Attributes:
        name: Name of its folder below the work dir.
        title: What to call the model.
        config: Name of the shipped config.
        classes: Names of the classes.
        scores: The scores to report.
    """

    name: str
    title: str
    config: str
    classes: tuple[str, ...]
    scores: tuple[Score, ...]


DETECTOR = Task(
    "detector",
    "Mask R-CNN",
    "quickstart/mask-rcnn_swin-nano_fpn_shapes",
    SHAPE_CLASSES,
    (Score("coco/bbox_mAP", "box AP"), Score("coco/segm_mAP", "mask AP")),
)
SEGMENTOR = Task(
    "segmentor",
    "UPerNet",
    "quickstart/swin-nano_upernet_shapes-160x160",
    SEGMENTATION_CLASSES,
    (Score("mIoU", "mIoU", full=100),),
)


@dataclass(frozen=True)
class DemoOptions:
    """How to run the demo.

    Attributes:
        work_dir: Folder for everything the demo writes but the data.
        data: Folder of the generated data; made when it is missing or was made with other settings.
        against: Whether to train the host's own Swin too, at the same budget.
        iterations: Length of a training run; None = that of the config.
        seed: Seed of the weights and of the order of the images.
        shapes: Arguments of :func:`mmvisattn.datasets.shapes.make_shapes` that differ from its defaults.
    """

    work_dir: Path = Path("work_dirs/demo")
    data: Path = Path("data/shapes")
    against: bool = False
    iterations: int | None = None
    seed: int = 0
    shapes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What became of one training run.

    Attributes:
        backbone: Type of the backbone.
        history: Its curves.
        sheet: The picture of its predictions.
        checkpoint: The weights after the last iteration.
        log: Everything the host printed.
    """

    backbone: str
    history: History
    sheet: Path
    checkpoint: Path
    log: Path

    @property
    def scores(self) -> dict[str, float]:
        """Score by name, after the last iteration."""
        return {name: points[-1][1] for name, points in self.history.scores.items()}


def run_demo(task: Task, options: DemoOptions, output: TextIO) -> list[Outcome]:
    """Train, score and show the model of a task, and with ``against`` the same model on the host's own Swin.

    Args:
        task: :data:`DETECTOR` or :data:`SEGMENTOR`.
        options: How to run it.
        output: Where the report goes.

    Returns:
        The outcome of each run, ours first.

    Raises:
        ValueError: If ``iterations`` is not positive.
        FileExistsError: If ``data`` holds other files than generated data.
    """
    if options.iterations is not None and options.iterations < 1:
        raise ValueError(f"iterations must be at least 1, got {options.iterations}")
    print(f"Data: generated shapes in {options.data}", file=output, flush=True)
    ensure_shapes(options.data, **options.shapes)
    folder = options.work_dir / task.name
    backbones = ("mmvisattn", "host") if options.against else ("mmvisattn",)
    outcomes = [train_and_show(task, options, folder / backbone, backbone == "host", output) for backbone in backbones]
    curves = folder / "curves.png"
    save_training_curves({outcome.backbone: outcome.history for outcome in outcomes}, curves)
    print(summary(outcomes, curves), file=output, flush=True)
    return outcomes


def train_and_show(task: Task, options: DemoOptions, work_dir: Path, host_backbone: bool, output: TextIO) -> Outcome:
    """Train one model and draw what it predicts on held-out images.

    Args:
        task: What to train.
        options: How to run the demo.
        work_dir: Folder of this run.
        host_backbone: Whether to train the host's own Swin in place of ours.
        output: Where the report goes.

    Returns:
        The outcome.
    """
    work_dir.mkdir(parents=True, exist_ok=True)
    log = work_dir / "log.txt"
    progress = TrainingLog(task.scores, output)
    with host_output_to(log):
        cfg = demo_config(task, options, work_dir)
        if host_backbone:
            use_host_backbone(cfg)
        backbone = cfg.model.backbone.type
        print(f"\n{task.title} with {backbone} on {device_name()}; full log in {log}", file=output, flush=True)
        runner = build_runner(cfg)
        runner.register_hook(progress)
        read_data(runner, "train")
        read_data(runner, "val")
        runner.train()
        examples = predict_examples(runner.model, runner.val_dataloader.dataset, SHOWN_IMAGES)
    history, iterations = progress.history, cfg.train_cfg.max_iters
    outcome = Outcome(backbone, history, work_dir / "predictions.png", work_dir / f"iter_{iterations}.pth", log)
    scores = ", ".join(f"{name} {value:.2f}" for name, value in outcome.scores.items())
    title = f"{task.title} with {backbone} after {iterations} iterations: {scores} on held-out images"
    colours = [CLASS_COLOURS.get(name, (0.5, 0.5, 0.5)) for name in task.classes]
    save_prediction_sheet(examples, task.classes, colours, outcome.sheet, title)
    return outcome


@contextlib.contextmanager
def host_output_to(path: Path) -> Iterator[None]:
    """Send what is written to standard output and error to a file meanwhile.

    Args:
        path: The file; replaced.
    """
    with open(path, "w") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        yield


def demo_config(task: Task, options: DemoOptions, work_dir: Path) -> Config:
    """Read the config of a task and set data, seed and length.

    Args:
        task: What to train.
        options: How to run the demo.
        work_dir: Folder of the run.

    Returns:
        The config.
    """
    cfg = read_config(str(shipped_configs.config_path(task.config)), work_dir=str(work_dir))
    for loader in (cfg.train_dataloader, cfg.val_dataloader):
        loader.dataset.data_root = str(options.data)
    if "ann_file" in cfg.val_evaluator:
        cfg.val_evaluator.ann_file = str(options.data / "annotations" / "instances_val.json")
    cfg.randomness.seed = options.seed
    if options.iterations is not None:
        scale_schedule(cfg, options.iterations / cfg.train_cfg.max_iters)
        cfg.train_cfg.update(max_iters=options.iterations, val_interval=options.iterations)
        cfg.default_hooks.checkpoint.interval = options.iterations
    return cfg


def scale_schedule(cfg: Config, factor: float) -> None:
    """Make the phases of the learning rate shorter or longer; each lasts an iteration at least.

    Args:
        cfg: The config; its ``param_scheduler`` is changed.
        factor: New length over old length.
    """
    for phase in cfg.param_scheduler:
        phase.begin = round(factor * phase.begin)
        phase.end = max(phase.begin + 1, round(factor * phase.end))


def use_host_backbone(cfg: Config) -> None:
    """Replace our Swin by that of the config's host, which takes the sizes as arguments of their own.

    Args:
        cfg: The config; its ``model.backbone`` is changed.
    """
    backbone = cfg.model.backbone
    arch = backbone.pop("arch")
    backbone.type = f"{cfg.default_scope}.SwinTransformer"
    backbone.update(embed_dims=arch.embed_dim, depths=arch.depths, num_heads=arch.num_heads)


def device_name() -> str:
    """The device that training will run on."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"the CPU, {torch.get_num_threads()} threads"


def summary(outcomes: list[Outcome], curves: Path) -> str:
    """Write the table of scores, and where the files are.

    Args:
        outcomes: The runs.
        curves: The plot of their curves.

    Returns:
        The text, of several lines.
    """
    names = list(outcomes[0].scores)
    width = max(len(outcome.backbone) for outcome in outcomes)
    lines = ["", " " * width + "".join(f"{name:>9}" for name in (*names, "time"))]
    for outcome in outcomes:
        scores = "".join(f"{outcome.scores[name]:9.3f}" for name in names)
        lines.append(f"{outcome.backbone:<{width}}{scores}  {duration(outcome.history.seconds)}")
    lines += ["", f"curves       {curves}"]
    for outcome in outcomes:
        if len(outcomes) > 1:
            lines.append(outcome.backbone)
        lines += [f"predictions  {outcome.sheet}", f"checkpoint   {outcome.checkpoint}", f"full log     {outcome.log}"]
    return "\n".join(lines)
