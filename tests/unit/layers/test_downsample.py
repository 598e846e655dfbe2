import pytest
import torch
from torch import nn

from mmvisattn.layers.downsample import PatchMerging, merge_2x2


@pytest.mark.parametrize(("height", "width"), [(4, 6), (5, 6), (4, 7), (1, 1), (1, 8)])
def test_order_is_that_of_the_official_code(height, width):
    x = torch.randn(2, height, width, 3)
    even = x.new_zeros(2, height + height % 2, width + width % 2, 3)
    even[:, :height, :width] = x
    corners = [even[:, row::2, column::2] for row, column in [(0, 0), (1, 0), (0, 1), (1, 1)]]
    assert torch.equal(merge_2x2(x), torch.cat(corners, dim=-1))


def test_normalises_before_it_reduces():
    layer = PatchMerging(3, 6, nn.LayerNorm(12))
    x = torch.randn(2, 4, 4, 3)
    merged = torch.nn.functional.layer_norm(merge_2x2(x), (12,))
    torch.testing.assert_close(layer(x), merged @ layer.reduction.weight.T)


def test_map_that_is_not_contiguous():
    x = torch.randn(2, 3, 4, 6).permute(0, 2, 3, 1)
    assert torch.equal(merge_2x2(x), merge_2x2(x.contiguous()))
    x = torch.randn(2, 3, 5, 6).permute(0, 2, 3, 1)
    assert torch.equal(merge_2x2(x), merge_2x2(x.contiguous()))
