import math

import pytest
import torch


def oracle(x, roi, bins, scale):
    """Maximum over the pixels that a bin touches, RoI ends included; zero for none."""
    image, x1, y1, x2, y2 = roi
    height, width = x.shape[2:]
    pooled = x.new_zeros(x.shape[1], *bins)
    size_h, size_w = ((y2 + 1) - y1) * scale, ((x2 + 1) - x1) * scale
    for i in range(bins[0]):
        for j in range(bins[1]):
            top, bottom = (
                math.floor(y1 * scale + i * size_h / bins[0]),
                math.ceil(y1 * scale + (i + 1) * size_h / bins[0]),
            )
            left, right = (
                math.floor(x1 * scale + j * size_w / bins[1]),
                math.ceil(x1 * scale + (j + 1) * size_w / bins[1]),
            )
            window = x[int(image), :, max(top, 0) : min(bottom, height), max(left, 0) : min(right, width)]
            if size_h > 0 and size_w > 0 and window.numel():
                pooled[:, i, j] = window.amax(dim=(1, 2))
    return pooled


@pytest.mark.parametrize("scale", [0.25, 1.0])
def test_against_a_loop(random, scale):
    from mmcv.ops import RoIPool

    x = random(2, 3, 9, 11) - 3  # mostly negative, so that a stray zero would win
    rois = torch.tensor(
        [
            [0, 3.0, 5.0, 20.0, 30.0],
            [1, -8.0, -8.0, 60.0, 50.0],
            [0, 10.3, 11.1, 12.2, 11.4],
            [1, 100.0, 100.0, 120.0, 130.0],
            [0, 9.0, 9.0, 3.0, 3.0],
        ],
        dtype=torch.float64,
    )
    out = RoIPool((4, 3), scale)(x, rois)
    assert torch.equal(out, torch.stack([oracle(x, roi, (4, 3), scale) for roi in rois.tolist()]))


def test_gradient_is_the_derivative(random):
    from mmcv.ops import roi_pool

    x = random(2, 2, 6, 5).requires_grad_()
    rois = torch.tensor([[0, 0.0, 2.0, 9.0, 20.0], [1, -5.0, 1.0, 7.0, 60.0]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda x: roi_pool(x, rois, (2, 3), 0.25), (x,))


def test_of_equal_pixels_the_first_gets_the_gradient():
    from mmcv.ops import roi_pool

    x = torch.ones(1, 1, 3, 3, requires_grad=True)
    roi_pool(x, torch.tensor([[0.0, 1.0, 1.0, 2.0, 2.0]]), 1, 1.0).sum().backward()
    assert x.grad[0, 0].tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]


def test_half(random):
    from mmcv.ops import roi_pool

    x = random(2, 3, 9, 11, dtype=torch.float32).half().requires_grad_()
    rois = torch.tensor([[0, 3.0, 5.0, 20.0, 30.0]])
    out = roi_pool(x, rois.half(), (4, 3), 0.25)
    out.sum().backward()
    assert out.dtype == x.grad.dtype == torch.float16
    assert torch.equal(out, roi_pool(x.float(), rois, (4, 3), 0.25).half())


def test_no_regions(random):
    from mmcv.ops import roi_pool

    x = random(2, 3, 6, 5).requires_grad_()
    out = roi_pool(x, torch.zeros(0, 5, dtype=torch.float64), (3, 2), 0.25)
    out.sum().backward()
    assert out.shape == (0, 3, 3, 2) and not x.grad.any()
