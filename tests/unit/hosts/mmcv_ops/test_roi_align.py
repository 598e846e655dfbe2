import math

import pytest
import torch
from torch.testing import assert_close

ROIS = torch.tensor(
    [
        [0, 3.0, 5.0, 20.0, 30.0],
        [1, -8.0, -9.0, 50.0, 44.0],  # reaches beyond the map on all sides
        [0, 10.3, 11.1, 12.2, 11.4],  # less than a pixel
        [1, 100.0, 100.0, 120.0, 130.0],  # outside
        [0, 7.0, 7.0, 7.0, 9.0],  # no width
    ],
    dtype=torch.float64,
)


def value_at(plane, y, x):
    """Bilinear with the edge's value up to one pixel outside, then zero."""
    height, width = len(plane), len(plane[0])
    if y < -1 or y > height or x < -1 or x > width:
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    row, column = int(y), int(x)
    below, beside = min(row + 1, height - 1), min(column + 1, width - 1)
    dy, dx = y - row, x - column
    top = plane[row][column] * (1 - dx) + plane[row][beside] * dx
    bottom = plane[below][column] * (1 - dx) + plane[below][beside] * dx
    return top * (1 - dy) + bottom * dy


def oracle(x, roi, bins, scale, sampling_ratio, pool_mode, aligned):
    image, x1, y1, x2, y2 = roi
    shift = 0.5 if aligned else 0.0
    left, top = x1 * scale - shift, y1 * scale - shift
    width, height = x2 * scale - shift - left, y2 * scale - shift - top
    if not aligned:
        width, height = max(width, 1), max(height, 1)
    bin_h, bin_w = height / bins[0], width / bins[1]
    grid_h, grid_w = sampling_ratio or math.ceil(bin_h), sampling_ratio or math.ceil(bin_w)
    pooled = torch.zeros(x.shape[1], *bins, dtype=x.dtype)
    for channel, plane in enumerate(x[int(image)].tolist()):
        for i in range(bins[0]):
            for j in range(bins[1]):
                values = [
                    value_at(plane, top + (i + (a + 0.5) / grid_h) * bin_h, left + (j + (b + 0.5) / grid_w) * bin_w)
                    for a in range(grid_h)
                    for b in range(grid_w)
                ]
                if pool_mode == "max":
                    pooled[channel, i, j] = max(values, default=-10000.0)
                else:
                    pooled[channel, i, j] = sum(values) / max(len(values), 1)
    return pooled


@pytest.mark.parametrize("sampling_ratio", [0, 1, 3])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("pool_mode", ["avg", "max"])
def test_against_a_loop(random, pool_mode, aligned, sampling_ratio):
    from mmcv.ops import RoIAlign

    x = random(2, 2, 9, 11)
    out = RoIAlign((3, 2), 0.25, sampling_ratio, pool_mode, aligned)(x, ROIS)
    expected = torch.stack([oracle(x, roi, (3, 2), 0.25, sampling_ratio, pool_mode, aligned) for roi in ROIS.tolist()])
    assert_close(out, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sampling_ratio", [0, 2])
@pytest.mark.parametrize("pool_mode", ["avg", "max"])
def test_gradient_is_the_derivative(random, pool_mode, sampling_ratio):
    from mmcv.ops import roi_align

    x = random(2, 2, 6, 5).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x: roi_align(x, ROIS[:3], (2, 3), 0.25, sampling_ratio, pool_mode, True), (x,)
    )


def test_deterministic_mode_gives_the_same_gradient(random):
    from mmcv.ops import roi_align

    gradients = []
    x, grad = random(2, 3, 9, 11).requires_grad_(), random(5, 3, 3, 2)
    for deterministic in (False, True):
        torch.use_deterministic_algorithms(deterministic)
        try:
            gradients.append(torch.autograd.grad(roi_align(x, ROIS, (3, 2), 0.25), x, grad)[0])
        finally:
            torch.use_deterministic_algorithms(False)
    assert_close(*gradients, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("pool_mode", ["avg", "max"])
def test_many_regions_are_cut_into_chunks(random, monkeypatch, pool_mode):
    from mmcv.ops import roi_align

    from mmvisattn.hosts.mmcv_ops import roi_sampling

    x = random(2, 2, 9, 11)
    whole = roi_align(x, ROIS.repeat(3, 1), (3, 2), 0.25, 2, pool_mode)
    monkeypatch.setattr(roi_sampling, "_ELEMENTS_AT_ONCE", 1)
    assert torch.equal(roi_align(x, ROIS.repeat(3, 1), (3, 2), 0.25, 2, pool_mode), whole)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("pool_mode", ["avg", "max"])
def test_narrow_floats_are_rounded_once(random, dtype, pool_mode):
    from mmcv.ops import roi_align

    narrow, rois = random(2, 2, 9, 11).to(dtype).requires_grad_(), ROIS[:2].to(dtype)
    wide = narrow.detach().float().requires_grad_()
    grad = random(2, 2, 3, 2).to(dtype)
    out, expected = (roi_align(x, rois.to(x), (3, 2), 0.25, 0, pool_mode) for x in (narrow, wide))
    out.backward(grad)
    expected.backward(grad.float())
    assert torch.equal(out, expected.to(dtype))
    if pool_mode == "avg":  # mmcv keeps the places of the maxima in the narrow type, so their gradients may move
        assert torch.equal(narrow.grad, wide.grad.to(dtype))


@pytest.mark.parametrize("pool_mode", ["avg", "max"])
def test_no_regions(random, pool_mode):
    from mmcv.ops import roi_align

    x = random(2, 3, 6, 5).requires_grad_()
    out = roi_align(x, ROIS[:0], (3, 2), 0.25, 0, pool_mode)
    out.sum().backward()
    assert out.shape == (0, 3, 3, 2)
    assert not x.grad.any()


@pytest.mark.parametrize("op", ["roi_align", "roi_pool"])
@pytest.mark.parametrize("image", [-1, 2])
def test_region_of_an_image_outside_the_batch(random, op, image):
    import mmcv.ops

    rois = torch.tensor([[0.0, 0, 0, 4, 4], [image, 0, 0, 4, 4]], dtype=torch.float64)
    with pytest.raises(ValueError, match=f"{op}: the first column of rois must name an image from 0 to 1"):
        getattr(mmcv.ops, op)(random(2, 3, 6, 5), rois, (3, 2), 0.25)


def test_shapes_that_do_not_fit():
    from mmcv import _ext

    arguments = dict(aligned_height=2, aligned_width=2, spatial_scale=1.0, sampling_ratio=0, pool_mode=1, aligned=True)
    out, none = torch.zeros(1, 3, 2, 2), torch.zeros(0)
    with pytest.raises(ValueError, match=r"input must have shape .* got \(3, 4, 4\)"):
        _ext.roi_align_forward(torch.zeros(3, 4, 4), torch.zeros(1, 5), out, none, none, **arguments)
    with pytest.raises(ValueError, match=r"rois must have shape \(count, 5\), got \(1, 4\)"):
        _ext.roi_align_forward(torch.zeros(1, 3, 4, 4), torch.zeros(1, 4), out, none, none, **arguments)
    arguments["pool_mode"] = 2
    with pytest.raises(ValueError, match="pool_mode must be 0 .* got 2"):
        _ext.roi_align_forward(torch.zeros(1, 3, 4, 4), torch.zeros(1, 5), out, none, none, **arguments)
