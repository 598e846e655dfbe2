"""A sheet of held-out images: image, truth, prediction."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from mmengine.dataset import BaseDataset
from mmengine.model import BaseModel
from mmengine.structures import BaseDataElement, InstanceData

COLUMNS = ("image", "truth", "prediction")

_TILE = 2.1  # inches
_FINER = 4  # outlines are traced on a grid this many times finer than the pixels


@dataclass(frozen=True)
class Regions:
    """What is marked on an image: objects, or the areas of semantic classes.

    Attributes:
        masks: (N, H, W) bool.
        labels: Index of the class of each, N of them.
        scores: Confidence of each, in [0, 1]; empty where there is none.
    """

    masks: np.ndarray
    labels: tuple[int, ...]
    scores: tuple[float, ...] = ()


@dataclass(frozen=True)
class Example:
    """One image, what it shows, and what the model says it shows.

    Attributes:
        image: RGB (H, W, 3), uint8.
        truth: The annotation.
        prediction: The model's answer.
    """

    image: np.ndarray
    truth: Regions
    prediction: Regions


def predict_examples(model: BaseModel, dataset: BaseDataset, count: int, score_threshold: float = 0.5) -> list[Example]:
    """Run a model on the first images of a dataset.

    Args:
        model: A detector with masks of MMDetection, or a segmentor of MMSegmentation; left in eval mode.
        dataset: A test dataset of the same host whose pipeline also loads the annotations.
        count: Number of images; fewer when the dataset is smaller.
        score_threshold: Objects with a lower score are left out.

    Returns:
        The examples, in the order of the dataset.
    """
    model.eval()
    examples = []
    for index in range(min(count, len(dataset))):
        item = dataset[index]
        with torch.no_grad():
            (sample,) = model.val_step({"inputs": [item["inputs"]], "data_samples": [item["data_samples"]]})
        image = item["inputs"].permute(1, 2, 0).numpy()[..., ::-1]  # the hosts read images as BGR
        examples.append(Example(np.ascontiguousarray(image), *_truth_and_prediction(sample, score_threshold)))
    return examples


def _truth_and_prediction(sample: BaseDataElement, score_threshold: float) -> tuple[Regions, Regions]:
    """Read both off a data sample of either host."""
    if "pred_sem_seg" in sample:
        return _class_areas(sample.gt_sem_seg.data), _class_areas(sample.pred_sem_seg.data)
    found: InstanceData = sample.pred_instances
    found = found[found.scores >= score_threshold]
    truth = Regions(sample.gt_instances.masks.masks.astype(bool), tuple(sample.gt_instances.labels.tolist()))
    masks = found.masks.cpu().numpy().astype(bool)
    return truth, Regions(masks, tuple(found.labels.tolist()), tuple(found.scores.tolist()))


def _class_areas(label_map: torch.Tensor) -> Regions:
    """Split a label map (1, H, W) into one mask per class; class 0, the background, stays unmarked."""
    values = label_map[0].cpu().numpy()
    labels = tuple(int(label) for label in np.unique(values) if 0 < label < 255)
    return Regions(np.array([values == label for label in labels]).reshape(-1, *values.shape), labels)


def save_prediction_sheet(
    examples: Sequence[Example], classes: Sequence[str], colours: Sequence[Sequence[float]], path: Path, title: str
) -> None:
    """Draw the examples in two blocks of columns, each of image, truth and prediction.

    Args:
        examples: The examples; at least one.
        classes: Name of each class.
        colours: RGB in [0, 1] of each class.
        path: The image file to write.
        title: The line above the sheet.
    """
    blocks = min(2, len(examples))
    rows = -(-len(examples) // blocks)
    widths = ([1.0] * len(COLUMNS) + [0.06]) * blocks
    size = (_TILE * sum(widths[:-1]), _TILE * rows + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.04, wspace=0, hspace=0)
    figure.suptitle(title, fontsize=11)
    grid = figure.add_gridspec(rows, len(widths) - 1, width_ratios=widths[:-1])
    for position, example in enumerate(examples):
        row, block = divmod(position, blocks)
        regions = (None, example.truth, example.prediction)
        for column, (heading, marked) in enumerate(zip(COLUMNS, regions, strict=True)):
            axes = figure.add_subplot(grid[row, block * (len(COLUMNS) + 1) + column])
            _draw_tile(axes, example.image, marked, classes, colours)
            if row == 0:
                axes.set_title(heading, fontsize=10)
    figure.savefig(path, dpi=100)


def _draw_tile(
    axes: Axes, image: np.ndarray, regions: Regions | None, classes: Sequence[str], colours: Sequence[Sequence[float]]
) -> None:
    """Draw an image, and on it the regions with their names and scores."""
    height, width = image.shape[:2]
    axes.imshow(image, interpolation="bicubic", extent=(0, width, height, 0))
    axes.set(xticks=[], yticks=[], xlim=(0, width), ylim=(height, 0))
    axes.spines[:].set_visible(False)
    if regions is None:
        return
    for index, (mask, label) in enumerate(zip(regions.masks, regions.labels, strict=True)):
        if not mask.any():
            continue
        text = f"{classes[label]} {regions.scores[index]:.2f}" if regions.scores else classes[label]
        _draw_region(axes, mask, text, colours[label])


def _draw_region(axes: Axes, mask: np.ndarray, text: str, colour: Sequence[float]) -> None:
    """Fill one mask (H, W), outline it, and write ``text`` at its top."""
    height, width = mask.shape
    fine = (_FINER * (width + 2), _FINER * (height + 2))  # with a margin of one pixel, where outlines close
    soft = cv2.resize(np.pad(mask, 1).astype(np.float32), fine, interpolation=cv2.INTER_LINEAR)
    soft = cv2.GaussianBlur(soft, (0, 0), 0.75 * _FINER)
    xs = (np.arange(fine[0]) + 0.5) / _FINER - 1
    ys = (np.arange(fine[1]) + 0.5) / _FINER - 1
    axes.contourf(xs, ys, soft, levels=[0.5, 2.0], colors=[(*colour, 0.35)])
    axes.contour(xs, ys, soft, levels=[0.5], colors="white", linewidths=2.6)
    axes.contour(xs, ys, soft, levels=[0.5], colors=[colour], linewidths=1.5)
    # The name stands above the largest part: an area of a semantic class may have several.
    _, _, parts, centres = cv2.connectedComponentsWithStats(mask.astype(np.uint8))
    largest = 1 + int(parts[1:, cv2.CC_STAT_AREA].argmax())
    left, top, part_width = (int(parts[largest, i]) for i in (cv2.CC_STAT_LEFT, cv2.CC_STAT_TOP, cv2.CC_STAT_WIDTH))
    at_right = centres[largest, 0] > 0.6 * width
    axes.text(
        min(left + part_width, width - 2) if at_right else max(left, 2),
        max(top, 9),
        text,
        color="white",
        fontsize=7,
        fontweight="bold",
        ha="right" if at_right else "left",
        va="bottom",
        bbox={"boxstyle": "round,pad=0.2", "facecolor": colour, "edgecolor": "white", "linewidth": 0.6},
    )
