import pytest
import torch
from torch.nn.functional import interpolate

from mmvisattn.ops.relative_position import offset_logits, one_hot_places, relative_bias, relative_rows, resize_1d

WINDOWS = [(1, 1), (2, 2), (3, 5), (4, 1), (7, 7)]


def row_of_pair(window):
    """The published index: (yq-yk+h-1)*(2w-1) + (xq-xk+w-1), for all pairs of tokens."""
    height, width = window
    y, x = (axis.flatten() for axis in torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij"))
    return (y[:, None] - y + height - 1) * (2 * width - 1) + (x[:, None] - x + width - 1)


@pytest.mark.parametrize("window", WINDOWS)
def test_bias_reads_the_published_row(window, randn, outputs_and_gradients, assert_close):
    table = randn((2 * window[0] - 1) * (2 * window[1] - 1), 3)
    ours = outputs_and_gradients(lambda: relative_bias(table, window), [table])
    assert_close(ours, outputs_and_gradients(lambda: table[row_of_pair(window)].permute(2, 0, 1), [table]))


@pytest.mark.parametrize("length", [1, 2, 5])
def test_rows_are_read_at_query_minus_key(length, randn, outputs_and_gradients, assert_close):
    table, places = randn(2 * length - 1, 4), torch.arange(length)
    ours = outputs_and_gradients(lambda: relative_rows(table), [table])
    index = places[:, None] - places + length - 1
    assert_close(ours, outputs_and_gradients(lambda: table[index], [table]))


def test_tables_may_be_strided(randn):
    table = randn(3, 25)
    assert torch.equal(relative_bias(table.t(), (3, 3)), relative_bias(table.t().contiguous(), (3, 3)))


def test_table_gradient_is_the_same_from_run_to_run(randn):
    """index_put adds float32 in the order that threads happen to arrive; sums over overlapping windows do not."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        table, weighting = randn(47 * 47, 2, dtype=torch.float32), torch.randn(2, 576, 576)
        runs = [torch.autograd.grad(relative_bias(table, (24, 24)), table, weighting)[0] for _ in range(3)]
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(run, runs[0]) for run in runs)


@pytest.mark.parametrize("window", WINDOWS)
def test_offsets_times_places_is_the_sum_over_row_and_column(window, randn):
    height, width = window
    query, rel_h, rel_w = randn(2, 3, height * width, 4), randn(2 * height - 1, 4), randn(2 * width - 1, 4)
    offsets = offset_logits(query, relative_rows(rel_h), relative_rows(rel_w))
    y, x = (torch.arange(height * width) // width, torch.arange(height * width) % width)
    expected = torch.einsum("...qd,qkd->...qk", query, rel_h[y[:, None] - y + height - 1])
    expected = expected + torch.einsum("...qd,qkd->...qk", query, rel_w[x[:, None] - x + width - 1])
    product = torch.cat(offsets, -1) @ one_hot_places(window, query.dtype, query.device).mT
    torch.testing.assert_close(product, expected, rtol=1e-13, atol=1e-13)


def test_resize_is_linear_and_exact_at_equal_length(randn):
    table = randn(5, 3)
    assert resize_1d(table, 5) is table
    expected = interpolate(table.t()[None], size=9, mode="linear", align_corners=False)[0].t()
    assert torch.equal(resize_1d(table, 9), expected)
    assert resize_1d(table.half(), 9).dtype == torch.float16


@pytest.mark.parametrize(
    ("table", "length", "message"),
    [
        (torch.zeros(3), 3, "table has shape"),
        (torch.zeros(3, 2, dtype=torch.int64), 3, "table has dtype"),
        (torch.zeros(3, 2), 0, "length is 0"),
    ],
)
def test_resize_refuses_in_words(table, length, message):
    with pytest.raises(ValueError, match=message):
        resize_1d(table, length)
