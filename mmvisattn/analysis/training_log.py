"""One short line of progress every few seconds, and the curves of a training run."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TextIO

from mmengine.hooks import Hook
from mmengine.runner import Runner


def duration(seconds: float) -> str:
    """Write a time span the way a person says it.

    Args:
        seconds: The time span, in seconds.

    >>> duration(8.4), duration(272)
    ('8 s', '4 min 32 s')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


class Score(NamedTuple):
    """A validation score.

    Attributes:
        key: The host's name of it.
        name: The name to show.
        full: The value that the host gives to a perfect model.
    """

    key: str
    name: str
    full: float = 1.0


@dataclass
class History:
    """The curves of a training run.

    Attributes:
        iterations: The iterations that have run, counted from 1.
        losses: The total loss of each of them.
        scores: Name of a validation score -> list of (iteration, value); a perfect model has 1.
        seconds: Wall time of the run so far, in seconds, without reading of data before the first iteration.
    """

    iterations: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    scores: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    seconds: float = 0.0


class TrainingLog(Hook):
    """Reports progress in one line every few seconds and keeps the loss and the scores.

    Args:
        scores: The validation scores to keep.
        output: Where the lines go.
        interval: Least time between two lines, in seconds.
    """

    priority = "LOW"  # after the hooks that compute what is reported

    def __init__(self, scores: Sequence[Score], output: TextIO, interval: float = 10.0) -> None:
        self.history = History()
        self._scores = scores
        self._output = output
        self._interval = interval
        self._started = 0.0
        self._reported = 0.0

    def before_train(self, runner: Runner) -> None:
        """Start the clock."""
        self._started = self._reported = time.perf_counter()

    def after_train_iter(self, runner: Runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        """Note the loss; report when the interval is over or training ends.

        Args:
            runner: The runner.
            batch_idx: Index of the batch.
            data_batch: The batch; not used.
            outputs: The losses by name.
        """
        now = time.perf_counter()
        self.history.iterations.append(runner.iter + 1)
        self.history.losses.append(outputs["loss"].item())
        self.history.seconds = now - self._started
        if now - self._reported >= self._interval or runner.iter + 1 == runner.max_iters:
            self._reported = now
            print(self._line(runner.iter + 1, runner.max_iters), file=self._output, flush=True)

    def after_val_epoch(self, runner: Runner, metrics: dict[str, float] | None = None) -> None:
        """Note and report the validation scores.

        Args:
            runner: The runner.
            metrics: Scores in the host's words. A score is missing when the model found nothing at all; it counts as 0.
        """
        now = time.perf_counter()
        self.history.seconds = now - self._started
        shown = []
        for score in self._scores:
            value = float((metrics or {}).get(score.key, 0.0)) / score.full
            self.history.scores.setdefault(score.name, []).append((runner.iter, value))
            shown.append(f"{score.name} {value:.3f}")
        print(f"        held-out images: {', '.join(shown)}", file=self._output, flush=True)
        self._reported = now

    def _line(self, done: int, total: int) -> str:
        """Progress, recent loss and the time left, with validation counted in."""
        recent = self.history.losses[-20:]
        left = self.history.seconds / done * (total - done)
        loss = sum(recent) / len(recent)
        return f"  {done / total:4.0%}  {done:4d}/{total} iterations  loss {loss:6.3f}  {duration(left)} left"
