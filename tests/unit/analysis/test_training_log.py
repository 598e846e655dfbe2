"""Progress lines are few and tell the time left; the history is complete."""

import io
from types import SimpleNamespace

import pytest
import torch

from mmvisattn.analysis import training_log
from mmvisattn.analysis.training_log import Score, TrainingLog, duration

SCORES = (Score("coco/bbox_mAP", "box AP"), Score("mIoU", "mIoU", full=100))


class Clock:
    """A clock that tests move by hand."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(training_log.time, "perf_counter", clock)
    return clock


def train(log, clock, losses, seconds, total):
    """Run iterations of equal length."""
    runner = SimpleNamespace(iter=0, max_iters=total)
    log.before_train(runner)
    for index, loss in enumerate(losses):
        clock.now += seconds
        runner.iter = index
        log.after_train_iter(runner, index, outputs={"loss": torch.tensor(loss, requires_grad=True)})
    return runner


def test_history_holds_every_loss(clock):
    log = TrainingLog(SCORES, io.StringIO())
    train(log, clock, [3.0, 2.0, 1.5], seconds=2.0, total=3)
    assert log.history.iterations == [1, 2, 3]
    assert log.history.losses == [3.0, 2.0, 1.5]
    assert log.history.seconds == 6.0


def test_a_line_comes_every_interval_and_at_the_end(clock):
    output = io.StringIO()
    train(TrainingLog(SCORES, output, interval=5.0), clock, [1.0] * 10, seconds=2.0, total=10)
    lines = output.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["3/10", "6/10", "9/10", "10/10"]


def test_time_left_follows_the_pace(clock):
    output = io.StringIO()
    train(TrainingLog(SCORES, output, interval=5.0), clock, [1.0] * 5, seconds=30.0, total=20)
    assert output.getvalue().splitlines()[-1].endswith("25%     5/20 iterations  loss  1.000  7 min 30 s left")


def test_scores_are_scaled_and_dated(clock):
    output = io.StringIO()
    log = TrainingLog(SCORES, output)
    runner = train(log, clock, [1.0], seconds=1.0, total=1)
    runner.iter = 1
    log.after_val_epoch(runner, {"coco/bbox_mAP": 0.25, "mIoU": 81.0})
    assert log.history.scores == {"box AP": [(1, 0.25)], "mIoU": [(1, 0.81)]}
    assert "box AP 0.250, mIoU 0.810" in output.getvalue()


@pytest.mark.parametrize("metrics", [None, {}])
def test_a_model_that_finds_nothing_scores_zero(clock, metrics):
    log = TrainingLog(SCORES[:1], io.StringIO())
    runner = train(log, clock, [1.0], seconds=1.0, total=1)
    log.after_val_epoch(runner, metrics)
    assert log.history.scores["box AP"][0][1] == 0.0


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0 s"), (59.4, "59 s"), (59.6, "1 min 00 s"), (61, "1 min 01 s"), (3600, "60 min 00 s")]
)
def test_duration(seconds, text):
    assert duration(seconds) == text
