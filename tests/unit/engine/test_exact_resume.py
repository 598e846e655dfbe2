"""Generator states survive a checkpoint, and validation leaves no trace in them."""

import random
from functools import partial

import numpy as np
import pytest
import torch

from mmvisattn.engine.hooks import exact_resume


@pytest.fixture(autouse=True)
def own_generators():
    before = exact_resume.generator_states()
    yield
    exact_resume.set_generator_states(before)


def draw():
    return random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn(), torch.rand(()).item()


def test_states_through_a_file_that_holds_no_code(tmp_path):
    np.random.randn()  # leaves the second of a pair of normal numbers behind, which is part of the state
    torch.save(exact_resume.generator_states(), tmp_path / "states.pth")
    expected = draw(), draw()
    exact_resume.set_generator_states(torch.load(tmp_path / "states.pth", weights_only=True))
    assert (draw(), draw()) == expected


def test_validation_is_neutral():
    hook = exact_resume.ExactResume()
    expected = exact_resume.generator_states()
    hook.before_val(None)
    draw()
    checkpoint = {}
    hook.before_save_checkpoint(None, checkpoint)  # the best checkpoint is written while validating
    hook.after_val(None)
    after = draw()
    for states in (expected, checkpoint[exact_resume.KEY][0]):
        exact_resume.set_generator_states(states)
        assert draw() == after


def test_replayed_batches_draw_from_the_generators_first():
    states = exact_resume.generator_states()
    expected = [random.random() for _ in range(2)]
    source = iter(lambda: random.random(), None)
    restored = exact_resume.RestoreAfterReplay(source, 3, partial(exact_resume.set_generator_states, states))
    replayed = [next(restored) for _ in range(3)]
    assert [next(restored), next(restored)] == expected
    assert set(replayed).isdisjoint(expected)


def test_workers_differ_between_each_other_processes_and_epochs():
    drawn = set()
    for base_seed in (10_000, 20_000):  # one per epoch
        for rank in (0, 1):
            for worker in (0, 1):
                torch.manual_seed(base_seed + worker)  # what torch does before it calls the function
                exact_resume.seed_worker(worker, rank=rank, num_workers=2)
                drawn.add(draw())
    assert len(drawn) == 8
