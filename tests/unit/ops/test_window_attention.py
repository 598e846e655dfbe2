import itertools
import math
from typing import NamedTuple

import pytest
import torch

from mmvisattn.ops import blockwise, blockwise_op, window_attention, window_attention_weights


class Case(NamedTuple):
    size: tuple[int, int]
    window: int | tuple[int, int]
    shift: int | tuple[int, int] = 0
    heads: int = 2
    head_dim: int = 3
    bias: bool = True
    pad: bool = True
    cosine: bool = False
    batch: int = 1


# Maps smaller than, equal to and larger than the window, multiples of it or not; square windows or not; shifts on
# either axis, both or none; with and without each optional argument.
CASES = [
    Case((1, 1), 2),
    Case((1, 1), 2, 1, cosine=True),
    Case((1, 7), 3, (0, 1), heads=1),
    Case((7, 1), 3, (1, 0), heads=3),
    Case((2, 3), 4, 2, batch=2),
    Case((4, 4), 4),
    Case((4, 4), 4, 2, cosine=True),
    Case((8, 4), 4, 2, bias=False),
    Case((8, 8), 4, (2, 0), batch=2, pad=False),
    Case((5, 6), 4, (0, 3), batch=2),
    Case((5, 6), 4, 1, pad=False, cosine=True, batch=2),
    Case((6, 9), (3, 5), (1, 2), head_dim=8),
    Case((6, 9), (3, 5), (2, 4), bias=False, pad=False, batch=2),
    Case((9, 5), (4, 2), bias=False, cosine=True),
    Case((5, 7), (7, 2), (3, 1), heads=3, head_dim=1, batch=2),
    Case((3, 11), (1, 4), (0, 2), cosine=True, pad=False),
]


def pair(value):
    return value if isinstance(value, tuple) else (value, value)


@pytest.fixture(params=CASES, ids=str)
def case(request):
    return request.param


@pytest.fixture
def call(case, randn):
    """The arguments of one case: qkv and keyword arguments."""
    channels, (h, w) = case.heads * case.head_dim, pair(case.window)
    qkv = randn(case.batch, *case.size, 3 * channels)
    arguments = {"num_heads": case.heads, "window_size": case.window, "shift_size": case.shift}
    if case.bias:
        arguments["bias_table"] = randn((2 * h - 1) * (2 * w - 1), case.heads)
    if case.pad:
        arguments["pad_kv"] = randn(2, channels)
    if case.cosine:  # the second head is above the clamp
        arguments["logit_scale"] = torch.tensor([1.0, 5.0, 2.0][: case.heads], dtype=torch.float64).requires_grad_()
    return qkv, arguments


def tensors(qkv, arguments):
    return [qkv, *(value for value in arguments.values() if isinstance(value, torch.Tensor))]


def naive(qkv, *, num_heads, window_size, shift_size, bias_table=None, logit_scale=None, pad_kv=None):
    """Straight from the definition, one query at a time."""
    batch, height, width, _ = qkv.shape
    (h, w), (sh, sw) = pair(window_size), pair(shift_size)
    padded_h, padded_w = math.ceil(height / h) * h, math.ceil(width / w) * w
    channels = qkv.shape[3] // 3
    head_dim = channels // num_heads
    padding = qkv.new_zeros(2, channels) if pad_kv is None else pad_kv

    def token(b, y, x, part, head):
        columns = slice(part * channels + head * head_dim, part * channels + (head + 1) * head_dim)
        if y < height and x < width:
            return qkv[b, y, x, columns]
        return padding[part - 1, head * head_dim : (head + 1) * head_dim]

    def region(rolled, size, window, shift):  # the official slices: before -window, before -shift, the rest
        return 0 if shift == 0 or rolled < size - window else 1 if rolled < size - shift else 2

    def attend(b, y, x, head):
        query = qkv[b, y, x, head * head_dim : (head + 1) * head_dim]
        qy, qx = (y - sh) % padded_h, (x - sw) % padded_w  # place after the roll
        logits, values = [], []
        for ky, kx in itertools.product(range(qy // h * h, qy // h * h + h), range(qx // w * w, qx // w * w + w)):
            place = (ky + sh) % padded_h, (kx + sw) % padded_w
            key = token(b, *place, 1, head)
            values.append(token(b, *place, 2, head))
            if logit_scale is None:
                logit = query @ key * head_dim**-0.5
            else:
                cosine = query / query.norm() @ key / key.norm().clamp_min(1e-12)
                logit = cosine * logit_scale[head].clamp(max=math.log(100)).exp()
            if bias_table is not None:
                logit = logit + bias_table[(qy - ky + h - 1) * (2 * w - 1) + qx - kx + w - 1, head]
            same_row = region(qy, padded_h, h, sh) == region(ky, padded_h, h, sh)
            same_column = region(qx, padded_w, w, sw) == region(kx, padded_w, w, sw)
            logits.append(logit if same_row and same_column else logit - 100)
        return torch.stack(logits).softmax(0) @ torch.stack(values)

    rows = [
        torch.cat([attend(b, y, x, head) for head in range(num_heads)])
        for b, y, x in itertools.product(range(batch), range(height), range(width))
    ]
    return torch.stack(rows).view(batch, height, width, channels)


def test_reference_is_the_definition(call, outputs_and_gradients, assert_close):
    qkv, arguments = call
    inputs = tensors(qkv, arguments)
    ours = outputs_and_gradients(lambda: window_attention(qkv, **arguments, impl="reference"), inputs)
    assert_close(ours, outputs_and_gradients(lambda: naive(qkv, **arguments), inputs))


@pytest.fixture(params=["blocks", "small blocks", "traced"])
def path(request, monkeypatch):
    """The ways that sdpa takes: whole blocks on CPU, blocks of a few queries, and the calls of other devices."""
    if request.param == "small blocks":
        monkeypatch.setattr(blockwise, "LOGITS_OF_ONE_THREAD", 40)
        monkeypatch.setattr(blockwise, "LOGITS_OF_THREADS", 40)
    if request.param == "traced":
        monkeypatch.setattr(blockwise_op, "is_traced", lambda tensor: True)


def test_sdpa_is_the_reference(call, path, outputs_and_gradients, assert_close):
    qkv, arguments = call
    inputs = tensors(qkv, arguments)
    ours = outputs_and_gradients(lambda: window_attention(qkv, **arguments, impl="sdpa"), inputs)
    assert_close(ours, outputs_and_gradients(lambda: window_attention(qkv, **arguments, impl="reference"), inputs))


def test_weights_average_the_values_at_the_documented_places(call, case):
    qkv, arguments = call
    weights = window_attention_weights(qkv, **arguments)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    output = window_attention(qkv, **arguments)
    (h, w), (sh, sw), (height, width) = pair(case.window), pair(case.shift), case.size
    rows, columns = math.ceil(height / h), math.ceil(width / w)
    assert weights.shape == (case.batch, rows * columns, case.heads, h * w, h * w)
    channels = case.heads * case.head_dim
    padding = arguments["pad_kv"][1] if case.pad else qkv.new_zeros(channels)
    for r, c in itertools.product(range(rows), range(columns)):
        places = [((r * h + i // w + sh) % (rows * h), (c * w + i % w + sw) % (columns * w)) for i in range(h * w)]
        values = torch.stack(
            [
                qkv[:, y, x, 2 * channels :] if y < height and x < width else padding.expand(case.batch, -1)
                for y, x in places
            ],
            1,
        ).view(case.batch, h * w, case.heads, case.head_dim)
        averages = torch.einsum("bhqk,bkhd->bqhd", weights[:, r * columns + c], values).flatten(2)
        for i, (y, x) in enumerate(places):
            if y < height and x < width:
                torch.testing.assert_close(averages[:, i], output[:, y, x])


@pytest.mark.parametrize("cosine", [False, True])
def test_reference_differentiates_twice(randn, cosine):
    qkv, table, pad = randn(1, 3, 2, 12), randn(9, 2), randn(2, 4)
    logit_scale = randn(2) if cosine else None

    def function(qkv, table, pad, logit_scale):
        return window_attention(
            qkv, table, num_heads=2, window_size=2, shift_size=1, pad_kv=pad, logit_scale=logit_scale, impl="reference"
        )

    assert torch.autograd.gradcheck(function, (qkv, table, pad, logit_scale), fast_mode=True)
    assert torch.autograd.gradgradcheck(function, (qkv, table, pad, logit_scale), fast_mode=True)


def test_sdpa_on_cpu_says_that_it_differentiates_once(randn):
    qkv = randn(1, 3, 2, 12)
    output = window_attention(qkv, num_heads=2, window_size=2, impl="sdpa")
    with pytest.raises(RuntimeError, match="'reference' differentiates twice"):
        torch.autograd.grad(output.sum(), qkv, create_graph=True)


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
@pytest.mark.parametrize("learning", ["bias_table", "pad_kv", "logit_scale"])
def test_one_parameter_may_learn_alone(randn, impl, learning):
    qkv = randn(1, 5, 6, 12).detach()
    arguments = {"bias_table": randn(49, 2), "pad_kv": randn(2, 4), "logit_scale": randn(2)}
    together = window_attention(qkv, num_heads=2, window_size=4, shift_size=1, impl=impl, **arguments)
    (expected,) = torch.autograd.grad(together.square().sum(), arguments[learning])
    alone = {name: value.detach().requires_grad_(name == learning) for name, value in arguments.items()}
    output = window_attention(qkv, num_heads=2, window_size=4, shift_size=1, impl=impl, **alone)
    output.square().sum().backward()
    torch.testing.assert_close(alone[learning].grad, expected)


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
def test_no_gradient_above_the_clamp_of_the_logit_scale(randn, impl):
    qkv = randn(1, 4, 4, 12)
    logit_scale = torch.tensor([math.log(100) + 0.1, 1.0]).requires_grad_()
    arguments = {"num_heads": 2, "window_size": 4, "impl": impl}
    output = window_attention(qkv, logit_scale=logit_scale, **arguments)
    (gradient,) = torch.autograd.grad(output.square().sum(), logit_scale)
    assert gradient[0] == 0
    assert gradient[1] != 0
    clamped = torch.tensor([math.log(100), 1.0]).view(2, 1, 1)
    torch.testing.assert_close(window_attention(qkv, logit_scale=clamped, **arguments), output)


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
def test_a_zero_token_is_finite_under_cosine_attention(impl):
    qkv = torch.randn(1, 4, 4, 12).half()
    qkv[0, 1, 2] = 0
    qkv.requires_grad_()
    logit_scale = torch.full((2,), 10.0).half().requires_grad_()
    output = window_attention(qkv, num_heads=2, window_size=3, logit_scale=logit_scale, impl=impl)
    output.sum().backward()
    assert output.isfinite().all()
    assert qkv.grad.isfinite().all()
    assert qkv.grad[0, 1, 2, :8].abs().max() == 0


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
def test_scale_multiplies_the_logits(randn, impl):
    qkv = randn(1, 4, 4, 12)
    scaled = torch.cat((qkv[..., :4] * 3 * 2**0.5, qkv[..., 4:]), -1)
    arguments = {"num_heads": 2, "window_size": 4, "impl": impl}
    torch.testing.assert_close(window_attention(qkv, scale=3, **arguments), window_attention(scaled, **arguments))


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
def test_strided_inputs_equal_contiguous_ones(randn, impl, outputs_and_gradients, assert_close):
    qkv, table, pad = randn(1, 12, 6, 5), randn(2, 49), randn(4, 2)
    inputs = [qkv, table, pad]
    arguments = {"num_heads": 2, "window_size": 4, "shift_size": 1, "impl": impl}
    strided = outputs_and_gradients(
        lambda: window_attention(qkv.permute(0, 3, 2, 1), table.t(), pad_kv=pad.t(), **arguments), inputs
    )
    contiguous = outputs_and_gradients(
        lambda: window_attention(
            qkv.permute(0, 3, 2, 1).contiguous(), table.t().contiguous(), pad_kv=pad.t().contiguous(), **arguments
        ),
        inputs,
    )
    assert_close(strided, contiguous)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("impl", ["reference", "sdpa"])
def test_an_empty_batch_has_an_empty_output_and_zero_gradients(randn, impl, traced, monkeypatch):
    monkeypatch.setattr(blockwise_op, "is_traced", lambda tensor: traced)
    qkv, table, pad = randn(0, 5, 6, 12), randn(49, 2), randn(2, 4)
    output = window_attention(qkv, table, num_heads=2, window_size=4, shift_size=1, pad_kv=pad, impl=impl)
    output.sum().backward()
    assert output.shape == (0, 5, 6, 4)
    assert table.grad is None or table.grad.abs().max() == 0
    assert pad.grad is None or pad.grad.abs().max() == 0


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
def test_runs_are_bit_equal(impl, randn, outputs_and_gradients):
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        qkv, table = randn(2, 30, 31, 96, dtype=torch.float32), randn(27 * 27, 2, dtype=torch.float32)
        pad, logit_scale = randn(2, 32, dtype=torch.float32), randn(2, dtype=torch.float32)
        inputs = [qkv, table, pad, logit_scale]
        first, second = (
            outputs_and_gradients(
                lambda: window_attention(
                    qkv,
                    table,
                    num_heads=2,
                    window_size=14,
                    shift_size=7,
                    pad_kv=pad,
                    logit_scale=logit_scale,
                    impl=impl,
                ),
                inputs,
            )
            for _ in range(2)
        )
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_on_cpu_backward_keeps_the_inputs_only():
    """Neither logits nor partitioned copies: the fused path's saved tensors are qkv, the bias and one padding row."""
    qkv = torch.randn(1, 28, 30, 96, requires_grad=True)
    table, pad = torch.randn(169, 4, requires_grad=True), torch.randn(2, 32, requires_grad=True)
    saved = []

    def keep(tensor):
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        window_attention(qkv, table, num_heads=4, window_size=7, shift_size=3, pad_kv=pad, impl="sdpa")
    floats = [tensor.numel() for tensor in saved if tensor.is_floating_point()]
    assert sum(floats) <= qkv.numel() + 4 * 49**2 + 3 * 32


def test_changing_the_output_in_place_is_allowed(randn):
    qkv = randn(1, 4, 4, 12)
    for impl in ("reference", "sdpa"):
        window_attention(qkv, num_heads=2, window_size=4, impl=impl).add_(1).sum().backward()
