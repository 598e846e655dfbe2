import pytest
import torch

from mmvisattn.ops import attention, mask_unit_attention, relative_position_attention, window_attention

HALF = [torch.float16, torch.bfloat16]
DTYPES = [*HALF, torch.float32, torch.float64]


def window(qkv, table, impl, cosine=False):
    logit_scale = torch.tensor([2.0, 4.0]) if cosine else None
    pad_kv = table[:2, :1].bfloat16().to(table.dtype).expand(2, 8)  # exact in half: pad_kv takes the dtype of qkv
    arguments = {"num_heads": 2, "window_size": 4, "shift_size": 1, "logit_scale": logit_scale}
    return window_attention(qkv, table, pad_kv=pad_kv, **arguments, impl=impl)


def cosine(qkv, table, impl):
    return window(qkv, table, impl, cosine=True)


def relative(qkv, table, impl):
    rel = table[:7, :1].expand(7, 4)
    return relative_position_attention(qkv, rel, rel, num_heads=2, window_size=4, impl=impl)


def units(qkv, table, impl):
    return mask_unit_attention(qkv, num_heads=2, unit_size=4, query_stride=2, impl=impl)


def dense(qkv, table, impl):
    query, key, value = qkv.reshape(1, 3, 2, 30, 4).unbind(1)
    return attention(query, key, value, table[:30, :1], impl=impl)


CALLS = [window, cosine, relative, units, dense]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("impl", ["reference", "sdpa"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_output_and_gradients_have_the_dtype_of_their_tensors(call, impl, dtype, randn):
    """Tables may be wider than qkv (autocast) or as narrow (a model turned to half)."""
    for table_dtype in {torch.float32, dtype}:
        qkv, table = randn(1, 5, 6, 24, dtype=dtype), randn(49, 2, dtype=table_dtype)
        output = call(qkv, table, impl)
        output.sum().backward()
        assert output.dtype == qkv.grad.dtype == dtype
        assert table.grad is None or table.grad.dtype == table_dtype


@pytest.mark.parametrize("call", [window, cosine, relative])
@pytest.mark.parametrize("impl", ["reference", "sdpa"])
@pytest.mark.parametrize("dtype", HALF)
def test_half_precision_is_rounded_once(call, impl, dtype, randn):
    """From inputs in half the result is computed in float32 and rounded: half a unit in the last place, plus 1e-4 of
    the largest value for float32 under logits of up to 55 (the cosine heads), less below."""
    qkv, table = randn(1, 5, 6, 24, dtype=dtype), randn(49, 2, dtype=torch.float32)
    exact = call(qkv.double(), table.double(), "reference")
    error = (call(qkv, table, impl).double() - exact).abs()
    assert (error <= torch.finfo(dtype).eps / 2 * exact.abs() + 1e-4 * exact.abs().max()).all()


@pytest.mark.parametrize("call", [units, dense])
@pytest.mark.parametrize("dtype", HALF)
def test_torch_kernels_in_half_round_the_weights_as_well(call, dtype, randn):
    """Each weight is off by half a unit, so an average of values by up to that much of the largest value."""
    qkv, table = randn(1, 5, 6, 24, dtype=dtype), randn(49, 2, dtype=torch.float32)
    exact = call(qkv.double(), table.double(), "reference")
    for impl, roundings in (("reference", 1), ("sdpa", 3)):
        error = (call(qkv, table, impl).double() - exact).abs()
        assert error.max() <= roundings * torch.finfo(dtype).eps / 2 * qkv.abs().max()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("impl", ["reference", "sdpa"])
def test_autocast_casts_activations_and_never_tables(call, impl, randn):
    qkv, table = randn(1, 5, 6, 24, dtype=torch.float32), randn(49, 2, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        output = call(qkv, table, impl)
        output.float().sum().backward()  # backward may run under autocast too
    assert output.dtype == torch.bfloat16
    assert torch.equal(output, call(qkv.bfloat16(), table, impl))
    assert qkv.grad.dtype == torch.float32


@pytest.mark.parametrize("call", CALLS)
def test_autocast_leaves_float64_alone(call, randn):
    qkv, table = randn(1, 5, 6, 24), randn(49, 2)
    with torch.autocast("cpu", torch.bfloat16):
        output = call(qkv, table, "reference")
    assert torch.equal(output, call(qkv, table, "reference"))


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
def test_backward_under_autocast_stays_wide(impl, randn):
    qkv, table = randn(1, 5, 6, 24, dtype=torch.float32), randn(49, 2, dtype=torch.float32)
    (expected,) = torch.autograd.grad(window(qkv, table, "sdpa").square().sum(), table)
    output = window(qkv, table, impl).square().sum()
    with torch.autocast("cpu", torch.bfloat16, enabled=impl == "sdpa"):
        (gradient,) = torch.autograd.grad(output, table)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-4)  # float32 sums; bfloat16 would be off by 1e-2


@pytest.mark.parametrize("call", CALLS)
def test_meta_device_gives_shapes(call):
    qkv, table = torch.zeros(1, 5, 6, 24, device="meta"), torch.zeros(49, 2, device="meta")
    if call is cosine:
        pytest.skip("the call makes its logit scale on the CPU")
    for impl in ("auto", "reference", "sdpa"):
        assert call(qkv, table, impl).shape == call(torch.zeros(1, 5, 6, 24), torch.zeros(49, 2), impl).shape
