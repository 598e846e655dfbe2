import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.testing import assert_close


@pytest.fixture
def one_process(tmp_path):
    if dist.is_initialized():
        pytest.skip("a process group is in use")
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


# Statistics are float32 sums over 2 * 4 * 5 values of order 1.
ROUNDING = {"rtol": 1e-5, "atol": 1e-5}


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("stats_mode", ["default", "N"])
def test_in_one_process_it_is_batch_norm(one_process, random, stats_mode, affine):
    from mmcv.ops import SyncBatchNorm

    layer = SyncBatchNorm(3, affine=affine, stats_mode=stats_mode)
    running_mean, running_var = layer.running_mean.clone(), layer.running_var.clone()
    x = random(2, 3, 4, 5, dtype=torch.float32)
    expected = F.batch_norm(x, running_mean, running_var, layer.weight, layer.bias, training=True, eps=layer.eps)
    assert_close(layer(x), expected, **ROUNDING)
    assert_close(layer.running_mean, running_mean, **ROUNDING)
    assert_close(layer.running_var, running_var, **ROUNDING)


def test_gradients_are_those_of_batch_norm(one_process, random):
    from mmcv.ops import SyncBatchNorm

    layer = SyncBatchNorm(3)
    x, grad = random(2, 3, 4, 5, dtype=torch.float32).requires_grad_(), random(2, 3, 4, 5, dtype=torch.float32)
    leaves = (x, layer.weight, layer.bias)
    expected = torch.autograd.grad(F.batch_norm(x, None, None, *leaves[1:], training=True), leaves, grad)
    for ours, theirs in zip(torch.autograd.grad(layer(x), leaves, grad), expected, strict=True):
        assert_close(ours, theirs, **ROUNDING)


def test_half_input_keeps_float32_statistics(one_process, random):
    from mmcv.ops import SyncBatchNorm

    x = random(2, 3, 4, 5, dtype=torch.float32).half()
    layer = SyncBatchNorm(3)
    out = layer(x)
    assert out.dtype == torch.float16
    assert_close(layer.running_mean, 0.1 * x.float().mean(dim=(0, 2, 3)), **ROUNDING)
