import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close


@pytest.mark.parametrize(("kernel", "padding"), [(1, 0), (3, 1), (5, 2), ((3, 1), (1, 0))])
def test_a_convolution_at_chosen_positions_zero_elsewhere(random, kernel, padding):
    from mmcv.ops import MaskedConv2d

    layer = MaskedConv2d(3, 4, kernel, padding=padding).double()
    x, mask = random(1, 3, 6, 7), random(1, 6, 7) > 0.3
    expected = F.conv2d(x, layer.weight, layer.bias, padding=padding) * mask
    assert_close(layer(x, mask), expected, rtol=1e-12, atol=1e-12)


def test_nothing_chosen(random):
    from mmcv.ops import MaskedConv2d

    out = MaskedConv2d(3, 4, 3, padding=1).double()(random(1, 3, 6, 7), torch.zeros(1, 6, 7))
    assert out.shape == (1, 4, 6, 7) and not out.any()


def test_a_window_beyond_the_padding_reads_zeros():
    from mmcv import _ext

    col = torch.full((9, 1), -1.0)
    corner = torch.tensor([3])
    _ext.masked_im2col_forward(torch.ones(1, 1, 4, 4), corner, corner, col, kernel_h=3, kernel_w=3, pad_h=0, pad_w=0)
    assert col[:, 0].tolist() == [1] + [0] * 8
