import itertools

import pytest
import torch
from torch.nn.functional import pad

from mmvisattn.ops import windows
from mmvisattn.ops.windows import (
    SHIFT_MASK,
    WindowGrid,
    join_heads,
    merge,
    pad_row,
    partition,
    row_major,
    shift_masks,
    split_windows,
    window_tables,
)

SIZES = [(1, 1), (3, 5), (4, 6), (8, 8), (9, 7), (2, 13)]
WINDOWS = [((4, 4), (0, 0)), ((4, 4), (2, 2)), ((4, 4), (1, 3)), ((3, 5), (0, 2)), ((2, 6), (1, 0)), ((1, 1), (0, 0))]
GRIDS = [WindowGrid(size, *window) for size, window in itertools.product(SIZES, WINDOWS)]


def chain(tokens, grid):
    """The copies that one gather replaces: pad, roll, cut; windows row-major, (windows, B, N, C)."""
    batch, height, width, channels = tokens.shape
    (rows, columns), (h, w) = grid.counts, grid.window
    tokens = pad(tokens, (0, 0, 0, columns * w - width, 0, rows * h - height))
    tokens = torch.roll(tokens, (-grid.shift[0], -grid.shift[1]), (1, 2))
    cut = tokens.view(batch, rows, h, columns, w, channels)
    return cut.permute(1, 3, 0, 2, 4, 5).reshape(rows * columns, batch, h * w, channels)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_partition_is_pad_roll_and_cut(grid, randn):
    tokens = randn(2, *grid.size, 3)
    assert torch.equal(row_major(partition(tokens, grid), grid), chain(tokens, grid))


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_merge_undoes_partition(grid, randn):
    tokens = randn(2, *grid.size, 3)
    assert torch.equal(merge(partition(tokens, grid), grid), tokens)


@pytest.mark.parametrize("grid", GRIDS[1::5], ids=str)
def test_gradients_are_those_of_the_chain_of_copies(grid, randn, outputs_and_gradients, assert_close):
    tokens = randn(2, *grid.size, 3)
    ours = outputs_and_gradients(lambda: row_major(partition(tokens, grid), grid), [tokens])
    assert_close(ours, outputs_and_gradients(lambda: chain(tokens, grid), [tokens]))


@pytest.mark.parametrize("grid", [WindowGrid((3, 5), (2, 3), (1, 2)), WindowGrid((2, 2), (2, 2))], ids=str)
def test_partition_and_merge_differentiate_twice(grid, randn):
    tokens, padding = randn(2, *grid.size, 2), randn(2)
    windows_ = partition(tokens, grid).detach().requires_grad_()
    cut, uncut = (lambda x, padding: partition(x, grid, padding)), (lambda x: merge(x, grid))
    for function, inputs in ((cut, (tokens, padding)), (uncut, (windows_,))):
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)


def test_padded_slots_get_the_padding_and_give_it_a_gradient(randn):
    grid, padding = WindowGrid((3, 5), (2, 3)), randn(4)
    cut = partition(randn(2, 3, 5, 4), grid, padding)
    is_padding = partition(torch.ones(2, 3, 5, 1), grid)[..., 0] == 0
    assert is_padding.sum() == 2 * (4 * 6 - 3 * 5)
    assert torch.equal(cut[is_padding], padding.expand(int(is_padding.sum()), 4))
    (gradient,) = torch.autograd.grad(cut.sum(), padding)
    assert torch.equal(gradient, torch.full((4,), float(is_padding.sum()), dtype=torch.float64))


def test_padding_row_has_a_zero_query():
    assert pad_row(torch.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist() == [0, 0, 1, 2, 3, 4]
    assert pad_row(None) is None


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_masks_are_those_of_the_official_regions(grid):
    """Swin numbers nine regions by slices of the padded, rolled map and masks pairs of different numbers."""
    (rows, columns), (h, w), (sh, sw) = grid.counts, grid.window, grid.shift
    regions = torch.zeros(rows * h, columns * w)
    row_slices = (slice(0, -h), slice(-h, -sh), slice(-sh, None)) if sh else (slice(None),)
    column_slices = (slice(0, -w), slice(-w, -sw), slice(-sw, None)) if sw else (slice(None),)
    for number, (rows_, columns_) in enumerate(itertools.product(row_slices, column_slices)):
        regions[rows_, columns_] = number
    cut = regions.view(rows, h, columns, w).permute(0, 2, 1, 3).reshape(rows * columns, h * w)
    expected = (cut[:, :, None] != cut[:, None, :]) * SHIFT_MASK
    masks = shift_masks(grid, torch.float32, torch.device("cpu"))
    ours = torch.cat([masks[kind].expand(stop - start, -1, -1) for kind, start, stop in grid.runs])
    assert torch.equal(row_major(ours, grid), expected)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_runs_cover_all_windows_once_in_order(grid):
    edges = [0] + [stop for _, _, stop in grid.runs]
    assert [start for _, start, _ in grid.runs] == edges[:-1]
    assert edges[-1] == grid.counts[0] * grid.counts[1]


def test_heads_split_and_join(randn):
    grid = WindowGrid((4, 4), (2, 2))
    qkv = randn(2, 4, 4, 3 * 6)
    query, key, value = split_windows(qkv, 3, grid, None)
    assert query.shape == (4, 2, 3, 4, 2)
    joined = torch.cat([merge(join_heads(part.flatten(0, 1), grid), grid) for part in (query, key, value)], -1)
    assert torch.equal(joined, qkv)


@pytest.fixture
def empty_cache():
    windows._cached_tables.cache_clear()
    yield windows._cached_tables
    windows._cached_tables.cache_clear()


def test_tables_are_built_once_per_geometry_and_the_cache_is_bounded(empty_cache):
    like = torch.zeros(())
    first = window_tables(WindowGrid((5, 5), (2, 2)), like)
    assert window_tables(WindowGrid((5, 5), (2, 2)), like) is first
    for side in range(1, windows.CACHED_GEOMETRIES + 20):
        window_tables(WindowGrid((side, 1), (2, 2)), like)
    assert empty_cache.cache_info().currsize == windows.CACHED_GEOMETRIES


def test_tables_first_built_for_inference_serve_training(empty_cache, randn):
    grid, tokens = WindowGrid((3, 5), (2, 3), (1, 1)), randn(1, 3, 5, 2)
    with torch.inference_mode():
        partition(tokens, grid)
    partition(tokens, grid).sum().backward()
    assert torch.equal(tokens.grad, torch.ones_like(tokens))


def test_stand_ins_for_tensors_leave_no_trace_in_the_cache(empty_cache):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        assert partition(torch.zeros(2, 3, 5, 4), WindowGrid((3, 5), (2, 3))).shape == (4, 2, 6, 4)
    assert empty_cache.cache_info().currsize == 0
