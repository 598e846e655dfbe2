"""Swin trained in bfloat16 on generated shapes keeps to the loss curve of float32."""

import pytest
import torch

from mmvisattn.hosts.launch import train

STEPS = 12
# A loss is off by one rounding of bfloat16 when the weights are equal, and the weights drift apart by about as much
# with each step: STEPS units, 9 % at the end.
BOUND = STEPS * torch.finfo(torch.bfloat16).eps


def losses(runner):
    return torch.tensor(list(runner.message_hub.get_scalar("train/loss").data[0]), dtype=torch.float64)


@pytest.mark.parametrize("host", ["mmseg"])
def test_bfloat16_follows_float32(tiny_configs, data_options, generated_shapes, tmp_path, host):
    if torch.cuda.is_available():
        pytest.skip("with a GPU --amp is float16 on it")
    options = {
        **data_options(host, generated_shapes),
        "train_cfg.max_iters": STEPS,
        "train_cfg.val_interval": STEPS,
        "param_scheduler.0.end": STEPS,
        "default_hooks.checkpoint.interval": STEPS,
    }
    curves = {}
    for amp in (False, True):
        runner = train(tiny_configs[host], work_dir=str(tmp_path / str(amp)), amp=amp, cfg_options=options)
        curves[amp] = losses(runner)
    assert len(curves[False]) == len(curves[True]) == STEPS
    assert not torch.equal(curves[False], curves[True])  # it really ran in another format
    drift = (curves[True] - curves[False]).abs() / curves[False]
    assert drift.max() < BOUND, drift
