import pytest
import torch
import torch.nn.functional as F

from mmvisattn.checkpoints.transforms import (
    CONV_TO_LINEAR,
    SPARSE_TO_DENSE,
    TOKENS_TO_GRID,
    UNFOLD_TO_OFFICIAL,
    vector,
)


def random(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize(
    ("transform", "stored", "ours"),
    [
        (vector(-1, 1, 1), (5, 1, 1), (5,)),
        (vector(1, 1, 1, -1), (1, 1, 1, 5), (5,)),
        (CONV_TO_LINEAR, (6, 5, 1, 1), (6, 5)),
        (TOKENS_TO_GRID, (1, 9, 5), (1, 5, 3, 3)),
        (UNFOLD_TO_OFFICIAL, (6, 20), (6, 20)),
        (UNFOLD_TO_OFFICIAL, (20,), (20,)),
        (SPARSE_TO_DENSE, (4, 5, 6), (6, 5, 2, 2)),
        (SPARSE_TO_DENSE, (49, 5), (5, 1, 7, 7)),
    ],
)
def test_shapes_and_inverse(transform, stored, ours):
    tensor = random(*stored)
    moved = transform.forward(tensor)
    assert moved.shape == ours
    assert sorted(moved.flatten().tolist()) == sorted(tensor.flatten().tolist())
    assert torch.equal(transform.backward(moved), tensor)
    assert torch.equal(transform.inverse().forward(moved), tensor)


@pytest.mark.parametrize(
    ("transform", "shape"),
    [
        (vector(-1, 1, 1), (5, 2, 1)),
        (CONV_TO_LINEAR, (6, 5)),
        (CONV_TO_LINEAR, (6, 5, 3, 3)),
        (vector(-1, 1, 1), ()),
        (TOKENS_TO_GRID, (1, 10, 5)),
        (TOKENS_TO_GRID, (2, 9, 5)),
        (TOKENS_TO_GRID, (9,)),
        (UNFOLD_TO_OFFICIAL, (6, 5)),
        (UNFOLD_TO_OFFICIAL, ()),
        (SPARSE_TO_DENSE, ()),
        (SPARSE_TO_DENSE, (5, 4, 4)),
        (SPARSE_TO_DENSE, (4,)),
    ],
)
def test_other_shapes_are_refused(transform, shape):
    with pytest.raises(ValueError, match="got|cannot arrange"):
        transform.forward(torch.zeros(shape))


def test_merging_order():
    """A reduction for nn.Unfold's order and the moved one for the official order map an image to the same values."""
    image, weight = random(1, 3, 4, 6), random(7, 12)
    by_unfold = F.unfold(image, 2, stride=2).transpose(1, 2) @ weight.t()
    x = image.permute(0, 2, 3, 1)
    cells = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], dim=-1)
    official = cells.flatten(1, 2) @ UNFOLD_TO_OFFICIAL.forward(weight).t()
    torch.testing.assert_close(official, by_unfold)


def test_tokens_are_row_by_row():
    grid = TOKENS_TO_GRID.forward(torch.arange(4.0).view(1, 4, 1))
    assert grid.tolist() == [[[[0.0, 1.0], [2.0, 3.0]]]]
    assert TOKENS_TO_GRID.forward(grid) is grid  # stored as a grid already


def test_sparse_kernels_run_down_the_columns():
    kernel = torch.arange(4.0).view(4, 1)
    assert SPARSE_TO_DENSE.forward(kernel).tolist() == [[[[0.0, 2.0], [1.0, 3.0]]]]
