"""What is true of attention in windows whatever the numbers and sizes."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from mmvisattn.ops import (
    SHIFT_MASK,
    mask_unit_attention,
    mask_unit_attention_weights,
    relative_position_attention,
    relative_position_attention_weights,
    window_attention,
    window_attention_weights,
)
from mmvisattn.ops.windows import WindowGrid, merge, partition

IMPLS = st.sampled_from(["reference", "sdpa"])
SEEDS = st.integers(0, 99)
HEADS, HEAD_DIM = 2, 2
CHANNELS = HEADS * HEAD_DIM


@st.composite
def grids(draw):
    """Maps of 1 to 9 tokens a side, windows of 1 to 5, any shift."""
    size = draw(st.tuples(st.integers(1, 9), st.integers(1, 9)))
    window = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    return WindowGrid(size, window, tuple(draw(st.integers(0, side - 1)) for side in window))


def draw_tensors(grid, seed, batch=1):
    """qkv, bias table and pad_kv."""
    generator = torch.Generator().manual_seed(seed)
    offsets = (2 * grid.window[0] - 1) * (2 * grid.window[1] - 1)
    shapes = (batch, *grid.size, 3 * CHANNELS), (offsets, HEADS), (2, CHANNELS)
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def attend(qkv, table, pad_kv, grid, impl):
    sizes = {"num_heads": HEADS, "window_size": grid.window, "shift_size": grid.shift}
    return window_attention(qkv, table, **sizes, pad_kv=pad_kv, impl=impl)


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def places(grid):
    """For each token of the map (H, W): its window, and its region, both as one number."""
    axes = []
    for size, window, shift in zip(grid.size, grid.window, grid.shift, strict=True):
        padded = -(-size // window) * window
        rolled = (torch.arange(size) - shift) % padded
        wrapped = rolled + shift >= padded
        axes.append((rolled // window, wrapped))
    (rows, rows_wrapped), (columns, columns_wrapped) = axes
    return rows[:, None] * 100 + columns, rows_wrapped[:, None] * 2 + columns_wrapped


@given(grids(), SEEDS)
def test_partition_and_merge_are_inverse(grid, seed):
    qkv, _, pad_kv = draw_tensors(grid, seed, batch=2)
    assert torch.equal(merge(partition(qkv, grid), grid), qkv)
    cut = partition(qkv, grid, pad_kv.repeat(2, 1)[:3].flatten())
    assert torch.equal(merge(cut, grid), qkv)


@given(grids(), SEEDS)
def test_rows_of_weights_sum_to_one(grid, seed):
    qkv, table, pad_kv = draw_tensors(grid, seed)
    sizes = {"num_heads": HEADS, "pad_kv": pad_kv}
    rel_h, rel_w = (torch.randn(2 * side - 1, HEAD_DIM, dtype=torch.float64) for side in grid.window)
    all_weights = (
        window_attention_weights(qkv, table, window_size=grid.window, shift_size=grid.shift, **sizes),
        relative_position_attention_weights(qkv, rel_h, rel_w, window_size=grid.window, **sizes),
        mask_unit_attention_weights(qkv, unit_size=[2 * side for side in grid.window], query_stride=2, **sizes),
    )
    for weights in all_weights:
        close(weights.sum(-1), torch.ones_like(weights[..., 0]))


@given(grids(), SEEDS)
def test_sdpa_is_the_reference(grid, seed):
    tensors = draw_tensors(grid, seed)
    close(attend(*tensors, grid, "sdpa"), attend(*tensors, grid, "reference"))


@given(grids(), SEEDS, IMPLS)
def test_items_of_a_batch_are_independent(grid, seed, impl):
    qkv, table, pad_kv = draw_tensors(grid, seed, batch=3)
    whole = attend(qkv, table, pad_kv, grid, impl)
    close(torch.cat([attend(item[None], table, pad_kv, grid, impl) for item in qkv]), whole)


@given(grids(), SEEDS, IMPLS)
def test_heads_are_independent(grid, seed, impl):
    qkv, table, pad_kv = draw_tensors(grid, seed)
    swapped = qkv.view(*qkv.shape[:3], 3, HEADS, HEAD_DIM).flip(-2).flatten(3)
    pads = pad_kv.view(2, HEADS, HEAD_DIM).flip(1).flatten(1)
    output = attend(swapped, table.flip(1), pads, grid, impl)
    close(output.view(*output.shape[:3], HEADS, HEAD_DIM).flip(-2).flatten(3), attend(qkv, table, pad_kv, grid, impl))


@given(grids(), SEEDS, IMPLS)
def test_a_constant_in_the_table_changes_nothing(grid, seed, impl):
    qkv, table, pad_kv = draw_tensors(grid, seed)
    shifted = attend(qkv, table + torch.tensor([7.0, -3.0]), pad_kv, grid, impl)
    torch.testing.assert_close(shifted, attend(qkv, table, pad_kv, grid, impl), rtol=1e-10, atol=1e-10)


@given(grids(), SEEDS, IMPLS, st.data())
def test_an_output_depends_on_its_window_and_region_and_on_nothing_else(grid, seed, impl, data):
    """Across regions a weight is at most exp(-100 + spread of the logits), which no float64 sum of order one shows."""
    qkv, table, pad_kv = draw_tensors(grid, seed)
    y, x = (data.draw(st.integers(0, side - 1)) for side in grid.size)
    qkv.requires_grad_()
    (gradient,) = torch.autograd.grad(attend(qkv, table, pad_kv, grid, impl)[0, y, x].sum(), qkv)
    reached = gradient[0].abs().amax(-1)
    window, region = places(grid)
    predicted = (window == window[y, x]) & (region == region[y, x])
    assert (reached[predicted] > 1e-12).all()
    assert (reached[window != window[y, x]] == 0).all()
    assert (reached[~predicted] < 1e-20).all()


@given(grids(), SEEDS)
def test_no_weight_leaks_over_the_border_beyond_what_the_mask_allows(grid, seed):
    """A masked weight is at most exp(SHIFT_MASK) times the same weight without a mask over the largest one."""
    qkv, table, _ = draw_tensors(grid, seed)
    sizes = {"num_heads": HEADS, "window_size": grid.window}
    weights = window_attention_weights(qkv, table, **sizes, shift_size=grid.shift)
    rolled = torch.nn.functional.pad(
        qkv, (0, 0, 0, -grid.size[1] % grid.window[1], 0, -grid.size[0] % grid.window[0])
    ).roll((-grid.shift[0], -grid.shift[1]), (1, 2))
    unmasked = window_attention_weights(rolled, table, **sizes)  # same windows, nothing masked
    ratio = weights / unmasked
    kept = ratio >= 1 - 1e-12  # removing keys can only raise the weight of the others
    raised = ratio.where(kept, 0).amax(-1, keepdim=True)
    torch.testing.assert_close(
        ratio, raised * torch.where(kept, 1, torch.tensor(SHIFT_MASK).double().exp()), rtol=1e-9, atol=0
    )


@given(st.tuples(st.integers(1, 3), st.integers(1, 3)), st.tuples(st.integers(1, 4), st.integers(1, 4)), SEEDS, IMPLS)
def test_moving_whole_windows_moves_the_output(counts, window, seed, impl):
    grid = WindowGrid((counts[0] * window[0], counts[1] * window[1]), window)
    tensors = draw_tensors(grid, seed)
    moved = attend(tensors[0].roll(window, (1, 2)), *tensors[1:], grid, impl)
    close(moved, attend(*tensors, grid, impl).roll(window, (1, 2)))


@given(grids(), SEEDS, IMPLS)
def test_relative_positions_of_zero_are_plain_windows(grid, seed, impl):
    qkv, _, pad_kv = draw_tensors(grid, seed)
    rel_h, rel_w = (torch.zeros(2 * side - 1, HEAD_DIM, dtype=torch.float64) for side in grid.window)
    sizes = {"num_heads": HEADS, "window_size": grid.window, "pad_kv": pad_kv, "impl": impl}
    close(relative_position_attention(qkv, rel_h, rel_w, **sizes), window_attention(qkv, **sizes))


@given(grids(), st.integers(1, 3), SEEDS, IMPLS, st.data())
def test_a_pooled_query_depends_on_its_unit_only(grid, stride, seed, impl, data):
    size, unit = grid.size, [side * stride for side in grid.window]
    qkv = draw_tensors(grid, seed)[0].requires_grad_()
    output = mask_unit_attention(qkv, num_heads=HEADS, unit_size=unit, query_stride=stride, impl=impl)
    assert output.shape == (1, -(-size[0] // stride), -(-size[1] // stride), CHANNELS)
    y, x = (data.draw(st.integers(0, side - 1)) for side in output.shape[1:3])
    (gradient,) = torch.autograd.grad(output[0, y, x].sum(), qkv)
    rows, columns = torch.arange(size[0]) // unit[0], torch.arange(size[1]) // unit[1]
    inside = (rows == y * stride // unit[0])[:, None] & (columns == x * stride // unit[1])
    values = gradient[0, ..., 2 * CHANNELS :].abs().amax(-1)
    assert (values[inside] > 0).all()
    assert (gradient[0][~inside] == 0).all()
