"""The registered ops inside PyTorch: compile, checkpoint, autocast, skipped gradients, odd inputs, determinism."""

from dataclasses import replace

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from mmvisattn.ops import window_attention
from mmvisattn.ops.window_attention.triton import configurations, launch, plans

OPS = torch.ops.mmvisattn


def attend(call, **changes):
    return window_attention(**(call.arguments() | changes), impl="triton")


def output_weights(out):
    return torch.linspace(-1, 1, out.numel(), dtype=torch.float64).cos().view_as(out).to(out.dtype)


def gradients(call, out):
    return torch.autograd.grad(out, list(call.tensors.values()), output_weights(out))


def registered_arguments(call):
    multiplier = call.logit_scale.detach().exp()
    tensors = call.qkv.detach(), call.bias_table.detach(), multiplier, call.pad_kv.detach()
    return *tensors, call.num_heads, list(call.window_size), list(call.shift_size), 0.5


@pytest.mark.parametrize("window", [(4, 4), (9, 8)])
def test_opcheck(window, make_call):
    arguments = registered_arguments(make_call((3, 3), window, (2, 2), heads=1, cosine=True).as_input(torch.float32))
    out = OPS.window_attention.default(*arguments)
    torch.library.opcheck(OPS.window_attention.default, arguments)
    for needs in ([True] * 4, [False, True, False, False]):
        torch.library.opcheck(OPS.window_attention_backward.default, (out, *arguments, needs))


def test_compiles_to_one_graph_with_dynamic_sizes(make_call):
    call = make_call(shift=(2, 2), cosine=True).as_input(torch.float32)
    torch._dynamo.reset()
    compiled = torch.compile(attend, backend="aot_eager", fullgraph=True, dynamic=True)
    for size in ((6, 5), (7, 9)):
        sized = replace(make_call(size, shift=(2, 2), cosine=True).as_input(torch.float32))
        out = compiled(sized)
        assert torch.equal(out, attend(sized))
        for ours, eager in zip(gradients(sized, out), gradients(sized, attend(sized)), strict=True):
            assert torch.equal(ours, eager)
    assert attend(call).shape == (1, 6, 5, 32)


def test_activation_checkpointing_changes_no_bit(make_call):
    call = make_call(shift=(2, 1), cosine=True).as_input(torch.float32)
    plain = gradients(call, attend(call))
    again = gradients(call, checkpoint(attend, call, use_reentrant=False))
    assert all(torch.equal(a, b) for a, b in zip(plain, again, strict=True))


def test_distributed_data_parallel_sees_every_parameter(make_call, tmp_path):
    call = make_call(cosine=True).as_input(torch.float32)

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bias_table = torch.nn.Parameter(call.bias_table.detach())
            self.logit_scale = torch.nn.Parameter(call.logit_scale.detach())

        def forward(self, qkv):
            return attend(call, qkv=qkv, bias_table=self.bias_table, logit_scale=self.logit_scale)

    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        model = DistributedDataParallel(Layer())
        model(call.qkv.detach()).square().sum().backward()
        assert all(parameter.grad.abs().sum() > 0 for parameter in model.parameters())
    finally:
        torch.distributed.destroy_process_group()


def test_autocast_casts_qkv_and_keeps_parameters(make_call):
    call = make_call(shift=(2, 2)).as_input(torch.float32)
    with torch.autocast("cpu", torch.float16):
        out = attend(call)
    assert out.dtype == torch.float16
    assert torch.equal(out, attend(call, qkv=call.qkv.half()))
    assert all(grad.dtype == torch.float32 for grad in gradients(call, out))


@pytest.mark.parametrize("window", [(4, 4), (9, 8)])
def test_each_gradient_alone_equals_the_same_among_all(window, make_call, monkeypatch):
    call = make_call(window=window, shift=(2, 1), heads=1, cosine=True).as_input(torch.float32)
    together = dict(zip(call.tensors, gradients(call, attend(call)), strict=True))
    asked = []
    backward = launch.backward
    monkeypatch.setattr(launch, "backward", lambda *arguments: asked.append(arguments[-1]) or backward(*arguments))
    for wanted, expected in together.items():
        detached = {name: tensor.detach() for name, tensor in call.tensors.items() if name != wanted}
        out = attend(call, **detached)
        (grad,) = torch.autograd.grad(out, [call.tensors[wanted]], output_weights(out))
        assert torch.equal(grad, expected), wanted
        assert list(asked.pop()) == [name == wanted for name in together]


@pytest.mark.parametrize("window", [(4, 4), (9, 8)])
def test_same_bits_on_every_run(window, make_call):
    call = make_call((9, 10), window, (2, 2), heads=1, cosine=True).as_input(torch.float16)
    first, second = ((out := attend(call), *gradients(call, out)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_strides_of_inputs_do_not_matter(make_call):
    call = make_call(shift=(2, 2)).as_input(torch.float32)
    transposed = call.qkv.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
    table = call.bias_table.detach().t().contiguous().t().requires_grad_()
    assert not transposed.is_contiguous() and not table.is_contiguous()
    strided = replace(call, qkv=transposed, bias_table=table)
    expected, out = attend(call), attend(strided)
    assert torch.equal(out, expected)
    for ours, plain in zip(gradients(strided, out), gradients(call, expected), strict=True):
        assert torch.equal(ours, plain)
    (summed,) = torch.autograd.grad(attend(strided).sum(), [transposed])  # an expanded gradient of the output
    (plain,) = torch.autograd.grad(attend(call), [call.qkv], torch.ones_like(out))
    assert torch.equal(summed, plain)


def test_empty_batch(make_call):
    call = make_call(cosine=True)
    call = replace(call, qkv=call.qkv[:0]).as_input(torch.float32)
    out = attend(call)
    assert out.shape == (0, 6, 5, 32)
    grads = gradients(call, out)
    assert grads[0].shape == call.qkv.shape and not any(grad.any() for grad in grads[1:])


def test_second_derivatives_are_refused(make_call):
    call = make_call().as_input(torch.float32)
    with pytest.raises(RuntimeError, match="impl='reference' for second derivatives"):
        torch.autograd.grad(attend(call).sum(), [call.qkv], create_graph=True)


def test_a_zero_token_gives_finite_gradients_under_cosine(make_call):
    call = make_call(cosine=True, pad=False)
    call.qkv[0, 2, 3] = 0
    call = replace(call, logit_scale=torch.full_like(call.logit_scale, 10.0)).as_input(torch.float16)
    out = attend(call)
    grads = gradients(call, out)
    assert all(tensor.isfinite().all() for tensor in (out, *grads))
    assert not grads[2].any()  # above the clamp


@pytest.mark.parametrize("tile", [(16, 32), (32, 16), (64, 128)])
def test_the_tile_changes_nothing_but_rounding(tile, make_call, monkeypatch):
    call = make_call((9, 8), (9, 8), (4, 3), heads=1, cosine=True).as_input(torch.float32)
    expected = attend(call)
    find = plans.find_configuration
    resized = lambda *key: (found := find(*key)) and found._replace(block_q=tile[0], block_k=tile[1])  # noqa: E731
    monkeypatch.setattr(plans, "find_configuration", resized)
    configurations.forget()
    out = attend(call)
    grads = gradients(call, out)
    monkeypatch.undo()
    configurations.forget()
    for ours, plain in zip((out, *grads), (expected, *gradients(call, expected)), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-5)  # some 50 roundings of float32


def test_more_windows_than_a_grid_axis_holds(make_call, monkeypatch):
    """Every grid has one axis, the only one that goes beyond 65,535 programs."""
    from triton.runtime import interpreter

    grids = []
    run = interpreter.GridExecutor.__call__
    monkeypatch.setattr(
        interpreter.GridExecutor,
        "__call__",
        lambda executor, *args, **kwargs: grids.append(executor.grid) or run(executor, *args, **kwargs),
    )
    for window in ((4, 4), (9, 8)):
        call = make_call((3, 3), window, cosine=True, heads=1).as_input(torch.float32)
        gradients(call, attend(call))
    assert len(grids) == 7 and all(len(grid) == 1 for grid in grids)
