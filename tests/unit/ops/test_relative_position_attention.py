import itertools
import math
from typing import NamedTuple

import pytest
import torch

from mmvisattn.ops import blockwise, blockwise_op, relative_position_attention, relative_position_attention_weights


class Case(NamedTuple):
    size: tuple[int, int]
    window: int | tuple[int, int] | None
    heads: int = 2
    head_dim: int = 3
    pad: bool = True
    batch: int = 1


# Whole maps and windows; maps smaller than, equal to and larger than the window; square and not.
CASES = [
    Case((1, 1), None),
    Case((4, 4), None, batch=2),
    Case((3, 5), None, heads=1, head_dim=8),
    Case((1, 1), 2),
    Case((2, 3), 4, batch=2),
    Case((4, 4), 4, pad=False),
    Case((5, 6), 4, batch=2),
    Case((5, 6), (2, 3), heads=3, pad=False),
    Case((7, 2), (3, 4), head_dim=1),
]


@pytest.fixture(params=CASES, ids=str)
def case(request):
    return request.param


def window_of(case):
    if case.window is None:
        return case.size
    return case.window if isinstance(case.window, tuple) else (case.window, case.window)


@pytest.fixture
def call(case, randn):
    """The tensors (qkv, rel_h, rel_w, pad_kv) and the sizes of one case."""
    channels, (h, w) = case.heads * case.head_dim, window_of(case)
    qkv = randn(case.batch, *case.size, 3 * channels)
    tensors = [qkv, randn(2 * h - 1, case.head_dim), randn(2 * w - 1, case.head_dim)]
    return [*tensors, randn(2, channels) if case.pad else None], {"num_heads": case.heads, "window_size": case.window}


def ours(tensors, sizes, impl):
    qkv, rel_h, rel_w, pad_kv = tensors
    return relative_position_attention(qkv, rel_h, rel_w, **sizes, pad_kv=pad_kv, impl=impl)


def naive(tensors, num_heads, window):
    """Straight from the definition, one query at a time; the query is not scaled in the relative terms."""
    qkv, rel_h, rel_w, pad_kv = tensors
    batch, height, width, _ = qkv.shape
    h, w = window
    channels = qkv.shape[3] // 3
    head_dim = channels // num_heads
    padding = qkv.new_zeros(2, channels) if pad_kv is None else pad_kv

    def token(b, y, x, part, head):
        row = qkv[b, y, x, part * channels : (part + 1) * channels] if y < height and x < width else padding[part - 1]
        return row[head * head_dim : (head + 1) * head_dim]

    def attend(b, y, x, head):
        query = token(b, y, x, 0, head)
        keys = list(itertools.product(range(y // h * h, y // h * h + h), range(x // w * w, x // w * w + w)))
        logits = [
            query @ token(b, ky, kx, 1, head) * head_dim**-0.5
            + query @ rel_h[y - ky + h - 1]
            + query @ rel_w[x - kx + w - 1]
            for ky, kx in keys
        ]
        return torch.stack(logits).softmax(0) @ torch.stack([token(b, *key, 2, head) for key in keys])

    rows = [
        torch.cat([attend(b, y, x, head) for head in range(num_heads)])
        for b, y, x in itertools.product(range(batch), range(height), range(width))
    ]
    return torch.stack(rows).view(batch, height, width, channels)


def test_reference_is_the_definition(call, case, outputs_and_gradients, assert_close):
    tensors, sizes = call
    reference = outputs_and_gradients(lambda: ours(tensors, sizes, "reference"), tensors)
    assert_close(reference, outputs_and_gradients(lambda: naive(tensors, case.heads, window_of(case)), tensors))


@pytest.mark.parametrize("path", ["blocks", "small blocks", "traced"])
def test_sdpa_is_the_reference(call, path, monkeypatch, outputs_and_gradients, assert_close):
    if path == "small blocks":
        monkeypatch.setattr(blockwise, "LOGITS_OF_ONE_THREAD", 40)
        monkeypatch.setattr(blockwise, "LOGITS_OF_THREADS", 40)
    monkeypatch.setattr(blockwise_op, "is_traced", lambda tensor: path == "traced")
    tensors, sizes = call
    fused = outputs_and_gradients(lambda: ours(tensors, sizes, "sdpa"), tensors)
    assert_close(fused, outputs_and_gradients(lambda: ours(tensors, sizes, "reference"), tensors))


def test_weights_rows_sum_to_one(call, case):
    (qkv, rel_h, rel_w, pad_kv), sizes = call
    weights = relative_position_attention_weights(qkv, rel_h, rel_w, **sizes, pad_kv=pad_kv)
    (h, w), (height, width) = window_of(case), case.size
    assert weights.shape == (case.batch, math.ceil(height / h) * math.ceil(width / w), case.heads, h * w, h * w)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_whole_map_weights_average_the_values(randn):
    qkv, rel_h, rel_w = randn(2, 3, 4, 12), randn(5, 2), randn(7, 2)
    weights = relative_position_attention_weights(qkv, rel_h, rel_w, num_heads=2)[:, 0]
    values = qkv[..., 8:].reshape(2, 12, 2, 2).transpose(1, 2)
    expected = (weights @ values).transpose(1, 2).reshape(2, 3, 4, 4)
    torch.testing.assert_close(relative_position_attention(qkv, rel_h, rel_w, num_heads=2), expected)


@pytest.mark.parametrize("window_size", [None, 2])
def test_reference_differentiates_twice(randn, window_size):
    h, w = (3, 2) if window_size is None else (2, 2)
    tensors = randn(1, 3, 2, 12), randn(2 * h - 1, 2), randn(2 * w - 1, 2), randn(2, 4)

    def function(*tensors):
        return ours(tensors, {"num_heads": 2, "window_size": window_size}, "reference")

    assert torch.autograd.gradcheck(function, tensors, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, tensors, fast_mode=True)


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
def test_empty_batch(randn, impl):
    qkv, rel = randn(0, 5, 6, 12), randn(7, 2)
    output = relative_position_attention(qkv, rel, rel, num_heads=2, window_size=4, impl=impl)
    output.sum().backward()
    assert output.shape == (0, 5, 6, 4)
    assert rel.grad is None or rel.grad.abs().max() == 0


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
def test_runs_are_bit_equal(impl, randn, outputs_and_gradients):
    qkv, rel = randn(1, 30, 31, 96, dtype=torch.float32), randn(27, 16, dtype=torch.float32)
    runs = [
        outputs_and_gradients(
            lambda: relative_position_attention(qkv, rel, rel, num_heads=2, window_size=14, impl=impl), [qkv, rel]
        )
        for _ in range(2)
    ]
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


def test_on_cpu_backward_of_a_whole_map_keeps_no_logits():
    qkv = torch.randn(1, 20, 24, 48, requires_grad=True)
    rel_h, rel_w = torch.randn(39, 8, requires_grad=True), torch.randn(47, 8, requires_grad=True)
    saved = []

    def keep(tensor):
        saved.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        relative_position_attention(qkv, rel_h, rel_w, num_heads=2, impl="sdpa")
    tables = rel_h.numel() + rel_w.numel() + (20**2 + 24**2) * 8  # and what they become: a row for each pair
    assert sum(saved) <= qkv.numel() + tables
