"""Interrupted training, resumed, ends with the same bits as training that was not interrupted."""

import pytest
import torch

from mmvisattn.hosts.launch import train

RESUME_FROM = {"mmdet": "epoch_1.pth", "mmseg": "iter_3.pth"}
LENGTH = {"mmdet": {"train_cfg.max_epochs": 3}, "mmseg": {"train_cfg.max_iters": 6}}


@pytest.fixture
def both_runs(tiny_configs, data_options, generated_shapes, tmp_path):
    """Host, data-loading workers, hooks -> parameters and buffers of an uninterrupted run and of a resumed one.

    The configs have drop path, random flips and crops, dropout and sampled regions, and validate after each checkpoint.
    """

    def run(host, workers, hooks):
        options = {
            **data_options(host, generated_shapes),
            **LENGTH[host],
            "train_dataloader.num_workers": workers,
            "train_dataloader.persistent_workers": workers > 0,
            "default_hooks.checkpoint.max_keep_ckpts": -1,
            "custom_hooks": hooks,
        }
        straight = train(tiny_configs[host], work_dir=str(tmp_path / "straight"), cfg_options=options)
        checkpoint = str(tmp_path / "straight" / RESUME_FROM[host])
        resumed = train(tiny_configs[host], work_dir=str(tmp_path / "resumed"), resume=checkpoint, cfg_options=options)
        assert resumed.iter == straight.iter
        return straight.model.state_dict(), resumed.model.state_dict()

    return run


def differing(first, second):
    return [name for name, value in first.items() if not torch.equal(value, second[name])]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("host", ["mmdet", "mmseg"])
def test_bit_equal_with_the_hook(both_runs, host, workers):
    straight, resumed = both_runs(host, workers, [dict(type="mmvisattn.ExactResume")])
    assert differing(straight, resumed) == []


@pytest.mark.parametrize("host", ["mmdet", "mmseg"])
def test_the_test_can_fail(both_runs, host):
    """Without the hook the same two runs differ, so the equality above is the hook's doing."""
    straight, resumed = both_runs(host, 0, [])
    assert differing(straight, resumed)


def test_needs_a_seed(tiny_configs, data_options, generated_shapes, tmp_path):
    options = {**data_options("mmdet", generated_shapes), "randomness.seed": None}
    options["custom_hooks"] = [dict(type="mmvisattn.ExactResume")]
    with pytest.raises(ValueError, match=r"^ExactResume needs a fixed seed, but randomness.seed is not set"):
        train(tiny_configs["mmdet"], work_dir=str(tmp_path), cfg_options=options)
