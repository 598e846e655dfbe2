import itertools
import math
from typing import NamedTuple

import pytest
import torch

from mmvisattn.ops import mask_unit_attention, mask_unit_attention_weights, window_attention
from mmvisattn.ops.pooling import max_pool_tokens


class Case(NamedTuple):
    size: tuple[int, int]
    unit: int | tuple[int, int] | None
    stride: int = 2
    heads: int = 2
    head_dim: int = 3
    pad: bool = True
    batch: int = 1


# Whole maps and units; strides 1 to 3; maps that are no multiple of the unit or of the stride.
CASES = [
    Case((1, 1), None),
    Case((4, 4), None, batch=2),
    Case((3, 5), None, heads=1, head_dim=8),
    Case((4, 5), None, stride=3),
    Case((4, 6), None, stride=1),
    Case((1, 1), 2),
    Case((2, 3), 4, batch=2),
    Case((4, 4), 4, pad=False),
    Case((8, 4), 4, stride=4),
    Case((5, 7), 4, batch=2),
    Case((5, 6), (2, 4), heads=3, pad=False),
    Case((7, 4), (3, 6), stride=3),
    Case((5, 6), (2, 3), stride=1),
]


@pytest.fixture(params=CASES, ids=str)
def case(request):
    return request.param


@pytest.fixture
def call(case, randn):
    """qkv, pad_kv and the sizes of one case."""
    channels = case.heads * case.head_dim
    sizes = {"num_heads": case.heads, "unit_size": case.unit, "query_stride": case.stride}
    return randn(case.batch, *case.size, 3 * channels), randn(2, channels) if case.pad else None, sizes


def naive(qkv, pad_kv, num_heads, unit_size, query_stride):
    """Straight from the definition, one pooled query at a time."""
    batch, height, width, _ = qkv.shape
    h, w = (height, width) if unit_size is None else unit_size if isinstance(unit_size, tuple) else (unit_size,) * 2
    channels = qkv.shape[3] // 3
    head_dim = channels // num_heads
    padding = qkv.new_zeros(2, channels) if pad_kv is None else pad_kv

    def token(b, y, x, part, head):
        row = qkv[b, y, x, part * channels : (part + 1) * channels] if y < height and x < width else padding[part - 1]
        return row[head * head_dim : (head + 1) * head_dim]

    def cell(start, size):
        return range(start * query_stride, min((start + 1) * query_stride, size))

    def attend(b, y, x, head):
        pooled = [token(b, qy, qx, 0, head) for qy, qx in itertools.product(cell(y, height), cell(x, width))]
        query = torch.stack(pooled).amax(0)
        top, left = y * query_stride // h * h, x * query_stride // w * w
        keys = list(itertools.product(range(top, top + h), range(left, left + w)))
        logits = [query @ token(b, *key, 1, head) * head_dim**-0.5 for key in keys]
        return torch.stack(logits).softmax(0) @ torch.stack([token(b, *key, 2, head) for key in keys])

    rows, columns = math.ceil(height / query_stride), math.ceil(width / query_stride)
    outputs = [
        torch.cat([attend(b, y, x, head) for head in range(num_heads)])
        for b, y, x in itertools.product(range(batch), range(rows), range(columns))
    ]
    return torch.stack(outputs).view(batch, rows, columns, channels)


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
def test_both_are_the_definition(call, impl, outputs_and_gradients, assert_close):
    qkv, pad_kv, sizes = call
    ours = outputs_and_gradients(lambda: mask_unit_attention(qkv, pad_kv=pad_kv, **sizes, impl=impl), [qkv, pad_kv])
    assert_close(ours, outputs_and_gradients(lambda: naive(qkv, pad_kv, **sizes), [qkv, pad_kv]))


def test_official_token_order_is_the_same_function(randn):
    """Hiera keeps the tokens of a unit together, cell positions first, and pools over the leading axis."""
    heads, dim, unit, side = 2, 4, 4, 8
    qkv = randn(2, side, side, 3 * heads * dim)
    windows = (side // unit) ** 2
    # (B, rows, cell rows, position, columns, cell columns, position, C) -> (B, positions, cells, windows, C)
    tokens = qkv.view(2, 2, unit // 2, 2, 2, unit // 2, 2, -1).permute(0, 3, 6, 2, 5, 1, 4, 7)
    tokens = tokens.reshape(2, unit * unit, windows, 3, heads, dim)
    query, key, value = tokens.permute(3, 0, 4, 2, 1, 5)  # (B, heads, windows, N, D)
    query = query.reshape(2, heads, windows, 4, unit * unit // 4, dim).amax(3)
    output = ((query @ key.mT) * dim**-0.5).softmax(-1) @ value
    output = output.permute(0, 3, 2, 1, 4).reshape(2, unit // 2, unit // 2, 2, 2, heads * dim)
    expected = output.permute(0, 3, 1, 4, 2, 5).reshape(2, side // 2, side // 2, heads * dim)
    ours = mask_unit_attention(qkv, num_heads=heads, unit_size=unit, query_stride=2)
    torch.testing.assert_close(ours, expected, rtol=1e-13, atol=1e-13)


def test_weights_rows_sum_to_one(call, case):
    qkv, pad_kv, sizes = call
    weights = mask_unit_attention_weights(qkv, pad_kv=pad_kv, **sizes)
    h, w = case.size if case.unit is None else case.unit if isinstance(case.unit, tuple) else (case.unit,) * 2
    units = math.ceil(case.size[0] / h) * math.ceil(case.size[1] / w)
    queries = math.ceil(h / case.stride) * math.ceil(w / case.stride)
    assert weights.shape == (case.batch, units, case.heads, queries, h * w)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_stride_one_is_window_attention(randn, outputs_and_gradients):
    qkv, pad_kv = randn(1, 5, 6, 12), randn(2, 4)
    for impl in ("reference", "sdpa"):
        units = outputs_and_gradients(
            lambda: mask_unit_attention(qkv, num_heads=2, unit_size=4, pad_kv=pad_kv, impl=impl),  # noqa: B023
            [qkv, pad_kv],
        )
        windows = outputs_and_gradients(
            lambda: window_attention(qkv, num_heads=2, window_size=4, pad_kv=pad_kv, impl=impl),  # noqa: B023
            [qkv, pad_kv],
        )
        assert all(torch.equal(a, b) for a, b in zip(units, windows, strict=True))


def test_the_first_maximum_of_a_cell_gets_the_gradient():
    tokens = torch.tensor([[1.0, 3.0, 0.0], [3.0, 3.0, 0.0], [-2.0, -1.0, -5.0]]).view(1, 3, 3, 1).requires_grad_()
    pooled = max_pool_tokens(tokens, 2)
    assert pooled.flatten().tolist() == [3, 0, -1, -5]  # padding is no maximum, even of negative cells
    (gradient,) = torch.autograd.grad(pooled.sum(), tokens)
    assert gradient.view(3, 3).tolist() == [[0, 1, 1], [0, 0, 0], [0, 1, 1]]


@pytest.mark.parametrize(
    "sizes", [{"unit_size": None, "query_stride": 2}, {"unit_size": 2, "query_stride": 2}], ids=str
)
def test_reference_differentiates_twice(randn, sizes):
    def function(qkv, pad_kv):
        return mask_unit_attention(qkv, num_heads=2, pad_kv=pad_kv, **sizes, impl="reference")

    inputs = randn(1, 3, 2, 12), randn(2, 4)
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
def test_empty_batch(randn, impl):
    qkv = randn(0, 5, 6, 12)
    output = mask_unit_attention(qkv, num_heads=2, unit_size=4, query_stride=2, impl=impl)
    output.sum().backward()
    assert output.shape == (0, 3, 3, 4)


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
def test_runs_are_bit_equal(impl, randn, outputs_and_gradients):
    qkv = randn(1, 30, 31, 96, dtype=torch.float32)
    runs = [
        outputs_and_gradients(
            lambda: mask_unit_attention(qkv, num_heads=2, unit_size=8, query_stride=2, impl=impl), [qkv]
        )
        for _ in range(2)
    ]
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))
