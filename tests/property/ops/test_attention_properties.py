"""What is true of attention whatever the numbers."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from mmvisattn.ops import attention, attention_weights

IMPLS = st.sampled_from(["reference", "sdpa"])
SIZES = st.tuples(*(st.integers(1, high) for high in (2, 3, 6, 7, 5)))  # batch, heads, queries, keys, channels


def draw(sizes, seed):
    """Query, key, value and a bias of full shape."""
    batch, heads, queries, keys, head_dim = sizes
    generator = torch.Generator().manual_seed(seed)
    shapes = (queries, head_dim), (keys, head_dim), (keys, head_dim), (queries, keys)
    return [torch.randn(batch, heads, *shape, generator=generator, dtype=torch.float64) for shape in shapes]


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@given(SIZES, st.integers(0, 99))
def test_rows_of_weights_sum_to_one(sizes, seed):
    query, key, _, bias = draw(sizes, seed)
    weights = attention_weights(query, key, bias * 50)
    assert (weights >= 0).all()
    close(weights.sum(-1), torch.ones_like(weights[..., 0]))


@given(SIZES, st.integers(0, 99), IMPLS, st.randoms(use_true_random=False))
def test_order_of_keys_is_irrelevant_and_order_of_queries_is_kept(sizes, seed, impl, random):
    query, key, value, bias = draw(sizes, seed)
    queries, keys = (random.sample(range(n), n) for n in bias.shape[2:])
    permuted = attention(
        query[:, :, queries], key[:, :, keys], value[:, :, keys], bias[:, :, queries][..., keys], impl=impl
    )
    close(permuted, attention(query, key, value, bias, impl=impl)[:, :, queries])


@given(SIZES, st.integers(0, 99), IMPLS)
def test_a_constant_in_a_row_of_the_bias_changes_nothing(sizes, seed, impl):
    query, key, value, bias = draw(sizes, seed)
    constant = 10 * query.sum(-1, keepdim=True)
    shifted = attention(query, key, value, bias + constant, impl=impl)
    torch.testing.assert_close(shifted, attention(query, key, value, bias, impl=impl), rtol=1e-10, atol=1e-10)


@given(SIZES, st.integers(0, 99), IMPLS, st.data())
def test_keys_at_minus_infinity_vanish(sizes, seed, impl, data):
    query, key, value, bias = draw(sizes, seed)
    kept = sorted(data.draw(st.sets(st.integers(0, key.shape[2] - 1), min_size=1)))
    hidden = torch.full_like(bias, -torch.inf)
    hidden[..., kept] = bias[..., kept]
    fewer = attention(query, key[:, :, kept], value[:, :, kept], bias[..., kept], impl=impl)
    close(attention(query, key, value, hidden, impl=impl), fewer)


@given(SIZES, st.integers(0, 99), IMPLS)
def test_items_of_a_batch_and_heads_are_independent(sizes, seed, impl):
    tensors = draw(sizes, seed)
    whole = attention(*tensors, impl=impl)
    for b in range(sizes[0]):
        for h in range(sizes[1]):
            alone = attention(*(tensor[b : b + 1, h : h + 1] for tensor in tensors), impl=impl)
            close(alone[0, 0], whole[b, h])


@given(SIZES, st.integers(0, 99), IMPLS)
def test_outputs_are_averages_of_values(sizes, seed, impl):
    query, key, value, bias = draw(sizes, seed)
    output = attention(query, key, value, bias, impl=impl)
    assert (output <= value.amax(2, keepdim=True) + 1e-12).all()
    assert (output >= value.amin(2, keepdim=True) - 1e-12).all()
