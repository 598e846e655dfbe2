"""Forward and every gradient against the float64 specification, on shapes that cover all pairs of choices.

The yardstick is eager PyTorch at the same dtype: the specification with every intermediate rounded to that dtype, as a
model in half precision computes it. The kernels may be at most twice as far from float64.
"""

import itertools
import random
from math import e, log2, prod

import pytest
import torch

from mmvisattn.ops import window_attention, window_attention_weights
from mmvisattn.ops.window_attention import reference
from mmvisattn.ops.windows import WindowGrid, partition, row_major

# Windows that one tile holds, and windows that need several.
WINDOWS = ((1, 1), (2, 3), (1, 32), (7, 7), (8, 8), (5, 12), (5, 13), (9, 8), (3, 32))
SIZES = ("one", "smaller", "exact", "ragged")
SHIFTS = ("none", "half", "rows", "columns", "most")
HEAD_DIMS = (8, 16, 24, 32, 56, 64, 72, 80, 96, 128)
DTYPES = (torch.float32, torch.float16)
YES_NO = (False, True)
CHOICES = {
    "window": WINDOWS,
    "size": SIZES,
    "shift": SHIFTS,
    "head_dim": HEAD_DIMS,
    "dtype": DTYPES,
    "bias": YES_NO,
    "cosine": YES_NO,
    "pad": YES_NO,
    "batch_and_heads": ((1, 1), (2, 1), (1, 2)),
}


def covering_cases():
    """Cases such that every pair of values of every two choices occurs in one. Greedy, from a fixed seed."""
    rng = random.Random(0)
    names = list(CHOICES)
    open_pairs = {((a, x), (b, y)) for a, b in itertools.combinations(names, 2) for x in CHOICES[a] for y in CHOICES[b]}
    cases = []
    while open_pairs:
        first = min(open_pairs, key=str)
        best, best_closed = None, set()
        for _ in range(40):
            case = {name: rng.choice(values) for name, values in CHOICES.items()} | dict(first)
            closed = open_pairs & set(itertools.combinations(case.items(), 2))
            if len(closed) > len(best_closed):
                best, best_closed = case, closed
        cases.append(best)
        open_pairs -= best_closed
    return cases


def size_of(kind, window):
    rows, columns = window
    sizes = {
        "one": (1, 1),
        "smaller": (max(1, rows - 1), max(1, columns - 2)),
        "exact": (rows, 2 * columns),
        "ragged": (rows + 1, columns),
    }
    return sizes[kind]


def shift_of(kind, window):
    rows, columns = window
    shifts = {
        "none": (0, 0),
        "half": (rows // 2, columns // 2),
        "rows": (rows // 2, 0),
        "columns": (0, columns // 2),
        "most": (rows - 1, columns - 1),
    }
    return shifts[kind]


def output_weights(out_shape, dtype):
    """Gradient of the output without pattern: float64 numbers that `dtype` holds exactly."""
    return (
        torch.linspace(-1, 1, prod(out_shape), dtype=torch.float64)
        .sin()
        .mul(7)
        .cos()
        .view(out_shape)
        .to(dtype)
        .double()
    )


def results(call, dtype, impl, weights):
    """Output and gradients, by name."""
    call = call.as_input(dtype)
    out = window_attention(**call.arguments(), impl=impl)
    grads = torch.autograd.grad(out, list(call.tensors.values()), weights.to(dtype), materialize_grads=True)
    return {"out": out} | dict(zip(call.tensors, grads, strict=True))


def size_of_terms(call, weights):
    """Norm of the terms whose differences are the gradients of the logits: weight * (|a| + mean |a|), a = d weight.

    The gradients of the table and of the logit scale are sums of these differences, which largely cancel.
    """
    grid = WindowGrid(call.qkv.shape[1:3], call.window_size, call.shift_size)
    heads = call.num_heads
    probabilities = window_attention_weights(**call.arguments())  # (B, windows, heads, N, N)
    _, _, value = reference.split_windows(call.qkv, heads, grid, call.pad_kv)
    grad_out = partition(weights, grid).unflatten(3, (heads, -1)).transpose(2, 3)  # (windows, B, heads, N, D)
    slopes = row_major(grad_out @ value.transpose(-2, -1), grid).transpose(0, 1).abs()
    return (probabilities * (slopes + (probabilities * slopes).sum(-1, keepdim=True))).norm()


def largest_logit(call):
    """Bound of the logits, in units of log 2."""
    if call.logit_scale is None:
        query, key, _ = call.qkv.unflatten(3, (3, call.num_heads, -1)).norm(dim=-1).unbind(3)
        product = query.max() * key.max() * (call.qkv.shape[3] // (3 * call.num_heads)) ** -0.5
    else:
        product = call.logit_scale.exp().max()
    return (product + (0 if call.bias_table is None else call.bias_table.abs().max())) * log2(e)


def identity(case):
    return "-".join(str(value).removeprefix("torch.").replace(" ", "") for value in case.values())


# Windows of many blocks, each with every gradient: shifted, padded, not square, on both axes of the map.
LARGE_WINDOWS = [
    dict(window=(12, 11), size=(13, 20), shift=(6, 5), head_dim=8, heads=3, dtype=torch.float32, cosine=True),
    dict(window=(10, 7), size=(11, 9), shift=(5, 3), head_dim=24, heads=3, dtype=torch.float16, cosine=False),
    dict(window=(16, 9), size=(15, 22), shift=(0, 4), head_dim=8, heads=2, dtype=torch.float16, cosine=True),
    dict(window=(8, 25), size=(14, 25), shift=(7, 12), head_dim=16, heads=1, dtype=torch.float32, cosine=False),
    dict(window=(24, 24), size=(23, 24), shift=(12, 12), head_dim=8, heads=1, dtype=torch.float32, cosine=True),
    dict(window=(32, 4), size=(30, 8), shift=(31, 0), head_dim=8, heads=1, dtype=torch.float16, cosine=True),
    pytest.param(
        dict(window=(32, 32), size=(32, 30), shift=(0, 31), head_dim=8, heads=1, dtype=torch.float16, cosine=True),
        marks=pytest.mark.slow,
    ),
]


@pytest.mark.parametrize("case", covering_cases(), ids=identity)
def test_errors_are_at_most_twice_those_of_eager(case, make_call, monkeypatch):
    case = dict(case)
    window = case["window"]
    batch, heads = case.pop("batch_and_heads")
    case |= {"size": size_of(case["size"], window), "shift": shift_of(case["shift"], window)}
    compare(make_call(batch=batch, heads=heads, **case), case["dtype"], monkeypatch)


@pytest.mark.parametrize("case", LARGE_WINDOWS, ids=identity)
def test_large_windows_too(case, make_call, monkeypatch):
    compare(make_call(**case), case["dtype"], monkeypatch)


def compare(call, dtype, monkeypatch):
    """Assert that the kernels are at most twice as far from float64 as eager PyTorch is."""
    batch, height, width, channels = call.qkv.shape
    weights = output_weights((batch, height, width, channels // 3), dtype)
    exact = results(call, torch.float64, "reference", weights)
    ours = results(call, dtype, "triton", weights)
    monkeypatch.setattr(reference, "wide_dtype", lambda narrow: narrow)
    eager = results(call, dtype, "reference", weights)
    terms = size_of_terms(call, weights)
    # Sums are kept in float32; where eager happens to be nearly exact, two of their roundings are no error.
    two_roundings = 2 * torch.finfo(torch.float32).eps
    allowances = {name: two_roundings * truth.norm() for name, truth in exact.items()}
    allowances["bias_table"] = two_roundings * terms
    # The backward of large windows computes the weights again from the logarithm of their sum, so they are off by the
    # rounding of the largest logit. Padded slots all have one key and value: there it does not average out.
    if prod(call.window_size) > 64 and call.pad_kv is not None:
        allowances["pad_kv"] *= largest_logit(call)
    if call.logit_scale is not None:  # a single number per head, from products of operands in `dtype`
        allowances["logit_scale"] = 2 * torch.finfo(dtype).eps * terms * call.logit_scale.max().clamp(max=4.6).exp()
    for name, truth in exact.items():
        assert ours[name].isfinite().all(), name
        error = (ours[name] - truth).norm()
        assert error <= 2 * (eager[name] - truth).norm() + allowances[name], (name, error, truth.norm())
