"""The kernels on a GPU, in every dtype: `python -m pytest tests/kernels/test_on_gpu.py -m gpu`.

The yardstick is as in `interpreted/test_against_reference.py`: float64, and twice the error of eager at the same dtype.
"""

import pytest
import torch

from mmvisattn.ops import window_attention
from mmvisattn.ops.window_attention import reference

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

TENSORS = ("qkv", "bias_table", "logit_scale", "pad_kv")
# window, shift, map, head_dim: whole-window and tiled kernels, every class of head widths, exact and ragged maps
CASES = [
    ((7, 7), (3, 3), (25, 42), 32),
    ((7, 7), (0, 0), (28, 28), 32),
    ((8, 8), (4, 4), (64, 64), 24),
    ((4, 8), (2, 3), (9, 30), 64),
    ((7, 7), (3, 3), (20, 20), 56),
    ((8, 8), (4, 4), (30, 30), 96),
    ((12, 12), (6, 6), (50, 30), 32),
    ((16, 16), (8, 8), (32, 64), 32),
    ((14, 14), (7, 0), (40, 40), 80),
    ((24, 24), (12, 12), (48, 50), 32),
    ((32, 32), (16, 16), (40, 64), 128),
    ((1, 32), (0, 16), (3, 70), 16),
    ((7, 7), (3, 3), (1, 1), 8),
]


def draw(window, size, head_dim, cosine, heads=3, batch=2):
    generator = torch.Generator("cuda").manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, device="cuda", dtype=torch.float64)

    channels = heads * head_dim
    return {
        "qkv": normal(batch, *size, 3 * channels),
        "bias_table": normal((2 * window[0] - 1) * (2 * window[1] - 1), heads),
        "logit_scale": 2 + normal(heads) if cosine else None,
        "pad_kv": normal(2, channels),
    }


def results(drawn, dtype, impl, window, shift, rounded=None):
    """Output and gradients for the values of `drawn` and an output gradient of values that `rounded` holds."""
    wide = torch.promote_types(dtype, torch.float32)
    given = {
        name: None if drawn[name] is None else drawn[name].to(dtype if name == "qkv" else wide).requires_grad_()
        for name in TENSORS
    }
    heads = drawn["bias_table"].shape[1]
    out = window_attention(**given, num_heads=heads, window_size=window, shift_size=shift, impl=impl)
    there = {name: tensor for name, tensor in given.items() if tensor is not None}
    weights = torch.linspace(-9, 9, out.numel(), device="cuda", dtype=torch.float64).cos().view_as(out)
    weights = weights.to(rounded or dtype).to(dtype)
    grads = torch.autograd.grad(out, list(there.values()), weights, materialize_grads=True)
    return {"out": out} | dict(zip(there, grads, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("cosine", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_errors_are_at_most_twice_those_of_eager(case, cosine, dtype, monkeypatch):
    window, shift, size, head_dim = case
    drawn = draw(window, size, head_dim, cosine)
    drawn = {name: None if tensor is None else tensor.to(dtype).double() for name, tensor in drawn.items()}
    exact = results(drawn, torch.float64, "reference", window, shift, dtype)
    ours = results(drawn, dtype, "triton", window, shift)
    again = results(drawn, dtype, "triton", window, shift)
    monkeypatch.setattr(reference, "wide_dtype", lambda narrow: narrow)
    eager = results(drawn, dtype, "reference", window, shift)
    for name, truth in exact.items():
        assert torch.equal(ours[name], again[name]), name
        error = (ours[name] - truth).norm()
        # One number per head has one rounding of its operands as its error, by chance; sums are float32.
        floor = torch.finfo(dtype).eps if name == "logit_scale" else 2 * torch.finfo(torch.float32).eps
        assert error <= 2 * (eager[name] - truth).norm() + floor * truth.norm(), (name, error / truth.norm())


def test_tf32_only_where_the_user_allows_it(monkeypatch):
    drawn = draw((7, 7), (14, 14), 32, cosine=False)
    exact = results(drawn, torch.float64, "reference", (7, 7), (3, 3))["out"]
    errors = {}
    for allowed in (False, True):
        monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", allowed)
        out = results(drawn, torch.float32, "triton", (7, 7), (3, 3))["out"]
        errors[allowed] = ((out - exact).norm() / exact.norm()).item()
    assert errors[False] < 1e-6 < errors[True] < 1e-2  # TF32 keeps 10 bits of mantissa


def test_more_windows_than_65535():
    qkv = torch.randn(70_000, 2, 2, 3 * 16, device="cuda", dtype=torch.float16)
    out = window_attention(qkv, num_heads=1, window_size=2, impl="triton")
    last = window_attention(qkv[-3:].clone(), num_heads=1, window_size=2, impl="triton")
    assert torch.equal(out[-3:], last)


def test_offsets_beyond_31_bits():
    """An image tensor of more than 2**31 elements: the last image is computed like the first."""
    channels, side = 96, 512
    images = 2**31 // (side * side * 3 * channels) + 2
    needed = images * side * side * 4 * channels * 2
    if torch.cuda.mem_get_info()[0] < 1.2 * needed:
        pytest.skip(f"needs {needed / 2**30:.0f} GiB of free GPU memory")
    qkv = torch.empty(images, side, side, 3 * channels, device="cuda", dtype=torch.float16)
    qkv[0].normal_()
    qkv[1:-1] = 0
    qkv[-1] = qkv[0]
    out = window_attention(qkv, num_heads=3, window_size=7, shift_size=3, impl="triton")
    assert torch.equal(out[-1], out[0])


def test_auto_is_triton_on_a_gpu_and_compiles():
    qkv = torch.randn(1, 14, 14, 96, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    table = torch.randn(169, 1, device="cuda", requires_grad=True)
    compiled = torch.compile(window_attention, fullgraph=True, dynamic=True)
    for size in (14, 9):
        part = qkv[:, :size]
        expected = window_attention(part, table, num_heads=1, window_size=7, impl="triton")
        out = compiled(part, table, num_heads=1, window_size=7)
        assert torch.equal(out, expected)
