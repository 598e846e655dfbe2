"""What forward and backward allocate, and what is kept between them."""

from math import ceil, prod

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from triton.runtime import interpreter

from mmvisattn.ops import window_attention
from mmvisattn.ops.window_attention.triton import launch


class Allocations(TorchDispatchMode):
    """Bytes of every tensor made inside."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        made = {t.untyped_storage().data_ptr() for t in args if isinstance(t, torch.Tensor)}
        for tensor in result if isinstance(result, tuple) else (result,):
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage().data_ptr() not in made:
                self.bytes += tensor.nbytes
        return result


def allocated(call, batch, dtype):
    """Bytes that one forward and backward allocate."""
    qkv = call.qkv.to(dtype).expand(batch, -1, -1, -1).contiguous()
    multiplier, pad_kv = call.logit_scale.exp().float(), call.pad_kv.to(dtype)
    arguments = (
        qkv,
        call.bias_table.float(),
        multiplier,
        pad_kv,
        call.num_heads,
        call.window_size,
        call.shift_size,
        1.0,
    )
    with Allocations() as allocations:
        out = launch.forward(*arguments)
        launch.backward(torch.ones_like(out), *arguments, [True] * 4)
    return allocations.bytes, qkv.nbytes


@pytest.mark.parametrize("window", [(4, 4), (9, 8)])
def test_nothing_grows_like_windows_times_pairs(window, make_call, monkeypatch):
    """Between a batch of 8 and one of 16, what grows beside the image tensors is less than a row of pairs per window.

    With so many windows the number of programs, and so of tiles of the bias, has reached its limit. The launcher alone
    decides what is allocated, so the kernels need not run.
    """
    monkeypatch.setattr(interpreter.GridExecutor, "__call__", lambda *args, **kwargs: None)
    head_dim = 8
    call = make_call((5, 6), window, (2, 2), head_dim=head_dim, heads=2, cosine=True)
    small, qkv_small = allocated(call, 8, torch.float16)
    large, qkv_large = allocated(call, 16, torch.float16)
    image_tensors = (1 / 3 + 1 / 3 + 1) * (qkv_large - qkv_small)  # output, its gradient, gradient of qkv
    tokens = prod(window)
    windows_and_heads = 8 * ceil(5 / window[0]) * ceil(6 / window[1]) * call.num_heads
    # float32: two statistics per query; per block of a window a share of the multiplier's and the padding's gradient.
    whole = tokens <= 64
    blocks = 1 if whole else ceil(tokens / 16)
    per_window_and_head = 4 * ((0 if whole else 2 * tokens + blocks) + blocks * 2 * head_dim)
    assert large - small <= image_tensors + windows_and_heads * per_window_and_head
    assert per_window_and_head < 4 * tokens**2


def test_qkv_and_parameters_are_all_that_is_kept(make_call):
    call = make_call(cosine=True).as_input(torch.float32)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        window_attention(**call.arguments(), impl="triton")
    largest = max(kept, key=torch.numel)
    assert largest.data_ptr() == call.qkv.data_ptr()
    others = [tensor for tensor in kept if tensor.data_ptr() != call.qkv.data_ptr()]
    assert all(tensor.numel() <= max(call.bias_table.numel(), call.pad_kv.numel()) for tensor in others)
