"""Plot of loss and validation scores over the iterations of one or several runs."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from mmvisattn.analysis.training_log import History

_COLOURS = ("#3d7edb", "#ef5b5b", "#14b8a6", "#8f5bd8")
_DASHES = ("-", "--", ":")


def smoothed(values: list[float], window: int) -> np.ndarray:
    """Average each value with those before it.

    Args:
        values: The curve.
        window: Largest number of values in an average.

    Returns:
        Array as long as ``values``.

    >>> smoothed([4.0, 2.0, 0.0], window=2).tolist()
    [4.0, 3.0, 1.0]
    """
    sums = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - window, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)


def save_training_curves(histories: dict[str, History], path: Path) -> None:
    """Draw the loss on the left and the validation scores on the right.

    Args:
        histories: Name of each run -> its curves; a run has a colour, a score a line style.
        path: The image file to write.
    """
    figure = Figure(figsize=(10, 4), layout="constrained")
    loss_axes, score_axes = figure.subplots(1, 2)
    for colour, (name, history) in zip(_COLOURS, histories.items(), strict=False):
        loss_axes.plot(history.iterations, history.losses, color=colour, alpha=0.2, linewidth=0.8)
        loss_axes.plot(history.iterations, smoothed(history.losses, 20), color=colour, linewidth=1.8, label=name)
        for dash, (score, points) in zip(_DASHES, history.scores.items(), strict=False):
            label = f"{score}, {name}" if len(histories) > 1 else score
            score_axes.plot(*zip(*points, strict=True), dash, color=colour, marker="o", markersize=4, label=label)
    loss_axes.set(title="training loss", xlabel="iteration", yscale="log")
    score_axes.set(title="score on held-out images", xlabel="iteration", ylim=(0, 1))
    for axes in (loss_axes, score_axes):
        axes.set_xlim(left=0)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if axes.has_data():
            axes.legend(frameon=False)
    figure.savefig(path, dpi=110)
