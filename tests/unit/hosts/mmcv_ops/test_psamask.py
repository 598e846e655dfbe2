import pytest
import torch


def oracle(x, size, collect):
    batch, _, height, width = x.shape
    rows, columns = size
    out = x.new_zeros(batch, height * width, height, width)
    for i in range(height):
        for j in range(width):
            for a in range(rows):
                for b in range(columns):
                    row, column = i + a - (rows - 1) // 2, j + b - (columns - 1) // 2
                    if 0 <= row < height and 0 <= column < width:
                        owner, covered = i * width + j, row * width + column
                        value = x[:, a * columns + b, i, j]
                        if collect:
                            out[:, covered, i, j] = value
                        else:
                            out[:, owner, row, column] = value
    return out


@pytest.mark.parametrize("psa_type", ["collect", "distribute"])
@pytest.mark.parametrize("size", [(5, 7), (3, 3), (1, 5), (2, 4)])
def test_against_a_loop(random, size, psa_type):
    from mmcv.ops import PSAMask

    x = random(2, size[0] * size[1], 3, 4)
    assert torch.equal(PSAMask(psa_type, size)(x), oracle(x, size, psa_type == "collect"))


@pytest.mark.parametrize("psa_type", ["collect", "distribute"])
@pytest.mark.parametrize("size", [(5, 7), (3, 3)])
def test_gradient_is_the_derivative(random, size, psa_type):
    from mmcv.ops import PSAMask

    x = random(1, size[0] * size[1], 3, 4).requires_grad_()
    assert torch.autograd.gradcheck(PSAMask(psa_type, size), (x,))


def test_unknown_type():
    from mmcv import _ext

    size = dict(num_=1, h_feature=2, w_feature=2, h_mask=1, w_mask=1, half_h_mask=0, half_w_mask=0)
    with pytest.raises(ValueError, match="psa_type must be 0 .* got 2"):
        _ext.psamask_forward(torch.zeros(1, 1, 2, 2), torch.zeros(1, 4, 2, 2), psa_type=2, **size)
