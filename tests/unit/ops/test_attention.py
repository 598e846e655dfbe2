import itertools

import pytest
import torch

from mmvisattn.ops import attention, attention_weights

BIASES = [None, (5, 7), (7,), (1, 7), (3, 1, 7), (3, 5, 1), (1, 3, 5, 7), (2, 1, 5, 7), (2, 3, 5, 7)]


@pytest.fixture
def inputs(randn):
    return randn(2, 3, 5, 8), randn(2, 3, 7, 8), randn(2, 3, 7, 8)


def naive(query, key, value, bias, scale):
    """Straight from the definition, one query at a time."""
    batch, heads, queries, head_dim = query.shape
    added = torch.zeros((), dtype=query.dtype) if bias is None else bias
    added = added.expand(batch, heads, queries, key.shape[2])
    rows = []
    for b, h, n in itertools.product(range(batch), range(heads), range(queries)):
        logits = torch.stack([query[b, h, n] @ row * scale for row in key[b, h]]) + added[b, h, n]
        weights = logits.exp() / logits.exp().sum()
        rows.append(sum(weight * row for weight, row in zip(weights, value[b, h], strict=True)))
    return torch.stack(rows).view(batch, heads, queries, head_dim)


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
@pytest.mark.parametrize("shape", BIASES, ids=str)
def test_both_are_the_definition(inputs, shape, impl, randn, outputs_and_gradients, assert_close):
    bias = None if shape is None else randn(*shape)
    ours = outputs_and_gradients(lambda: attention(*inputs, bias, impl=impl), [*inputs, bias])
    assert_close(ours, outputs_and_gradients(lambda: naive(*inputs, bias, 8**-0.5), [*inputs, bias]))


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
def test_scale_is_the_factor_of_the_logits(inputs, impl):
    torch.testing.assert_close(attention(*inputs, scale=2, impl=impl), naive(*inputs, None, 2.0))


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
def test_the_bias_may_learn_alone(inputs, impl, randn):
    bias = randn(3, 5, 7)
    (expected,) = torch.autograd.grad(attention(*inputs, bias, impl=impl).square().sum(), bias)
    frozen = [tensor.detach() for tensor in inputs]
    (alone,) = torch.autograd.grad(attention(*frozen, bias, impl=impl).square().sum(), bias)
    torch.testing.assert_close(alone, expected)


def test_weights_average_the_values(inputs, randn):
    bias = randn(5, 7)
    weights = attention_weights(*inputs[:2], bias)
    torch.testing.assert_close(weights @ inputs[2], attention(*inputs, bias, impl="sdpa"))
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def test_reference_differentiates_twice(randn):
    inputs = randn(1, 2, 2, 3), randn(1, 2, 3, 3), randn(1, 2, 3, 3), randn(2, 1, 3)

    def function(*tensors):
        return attention(*tensors, impl="reference")

    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (2, 2, 0, 4)], ids=str)
def test_no_batch_or_no_queries(impl, shape, randn):
    query, key, bias = randn(*shape), randn(shape[0], 2, 5, 4), randn(2, 1, 5)
    output = attention(query, key, key, bias, impl=impl)
    output.sum().backward()
    assert output.shape == shape
    assert bias.grad is None or bias.grad.abs().max() == 0


@pytest.mark.parametrize("impl", ["reference", "sdpa"])
def test_runs_are_bit_equal(impl, randn, outputs_and_gradients):
    query, key, value = (randn(2, 4, 70, 16, dtype=torch.float32) for _ in range(3))
    bias = randn(4, 70, 70, dtype=torch.float32)
    inputs = [query, key, value, bias]
    runs = [outputs_and_gradients(lambda: attention(query, key, value, bias, impl=impl), inputs) for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))
