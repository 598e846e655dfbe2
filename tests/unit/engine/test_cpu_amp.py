"""bfloat16 autocast on the CPU: the forward pass only, everything that is kept in float32."""

import torch
from torch import nn

from mmvisattn.engine.cpu_amp import CpuAmpOptimWrapper


def test_one_step():
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    before = model.weight.detach().clone()
    wrapper = CpuAmpOptimWrapper(optimizer=torch.optim.SGD(model.parameters(), lr=1.0))
    with wrapper.optim_context(model):
        output = model(torch.ones(2, 4))
    assert output.dtype == torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")
    wrapper.update_params(output.float().sum())
    assert model.weight.dtype == torch.float32
    torch.testing.assert_close(model.weight, before - 2)  # the sum of two rows of ones; bfloat16 holds it exactly


def test_gradients_accumulate():
    model = nn.Linear(2, 1, bias=False)
    before = model.weight.detach().clone()
    wrapper = CpuAmpOptimWrapper(optimizer=torch.optim.SGD(model.parameters(), lr=1.0), accumulative_counts=2)
    wrapper.initialize_count_status(model, 0, 2)
    for step in range(2):
        with wrapper.optim_context(model):
            loss = model(torch.ones(1, 2)).float().sum()
        wrapper.update_params(loss)
        torch.testing.assert_close(model.weight, before - step)  # half of each gradient, applied after the second
