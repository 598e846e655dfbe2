"""Coverage of a shape: its size, area and holes, and that it is antialiased."""

import math

import numpy as np
import pytest

from mmvisattn.datasets.shapes.outlines import CORNER_RADIUS, OUTLINES, SHAPE_CLASSES, coverage

SIZE = 96
CENTRE = (48.0, 48.0)


@pytest.mark.parametrize("shape", SHAPE_CLASSES)
@pytest.mark.parametrize("side", [16.0, 40.5, 96.0])
@pytest.mark.parametrize("angle", [0.0, 0.4, 2.0])
def test_longer_side_of_the_bounding_box_is_the_one_asked_for(shape, side, angle):
    cover = coverage(shape, CENTRE, side, angle, SIZE)
    height, width = (np.flatnonzero(cover.max(axis=axis) > 0.05) for axis in (1, 0))
    longer = max(height[-1] - height[0], width[-1] - width[0]) + 1
    # the border falls between pixels, and the tip of a rounded corner covers little of its pixel
    assert side - 3 <= longer <= side + 2


@pytest.mark.parametrize("shape", SHAPE_CLASSES)
def test_area_is_that_of_the_rounded_outline(shape):
    side = 80.0
    rounding = CORNER_RADIUS * side
    scale = (side - 2 * rounding) / np.ptp(OUTLINES[shape][0], axis=0).max()
    expected = 0.0
    for sign, ring in zip((1, -1), OUTLINES[shape], strict=False):
        points = scale * ring
        following = np.roll(points, -1, axis=0)
        area = abs((points[:, 0] * following[:, 1] - points[:, 1] * following[:, 0]).sum()) / 2
        perimeter = np.linalg.norm(following - points, axis=1).sum()
        # Steiner's formula for a shape grown by a disc (a hole shrinks); at inward corners it counts a little twice
        expected += sign * (area + sign * perimeter * rounding + math.pi * rounding**2)
    assert coverage(shape, CENTRE, side, 0.0, SIZE).sum() == pytest.approx(expected, rel=0.03)


def test_circle_area_is_exact_to_sampling():
    assert coverage("circle", CENTRE, 80.0, 0.0, SIZE).sum() == pytest.approx(math.pi * 40**2, rel=0.01)


def test_centre_of_mass_is_the_centre():
    cover = coverage("square", (30.25, 41.5), 24.0, 0.3, SIZE)
    centres = np.arange(SIZE) + 0.5
    assert (cover.sum(axis=0) * centres).sum() / cover.sum() == pytest.approx(30.25, abs=0.15)
    assert (cover.sum(axis=1) * centres).sum() / cover.sum() == pytest.approx(41.5, abs=0.15)


def test_only_the_ring_has_a_hole():
    middle = {shape: coverage(shape, CENTRE, 60.0, 0.0, SIZE)[48, 48] for shape in SHAPE_CLASSES}
    assert {shape for shape, value in middle.items() if value == 0} == {"ring"}


@pytest.mark.parametrize("shape", SHAPE_CLASSES)
def test_border_pixels_are_partly_covered(shape):
    cover = coverage(shape, CENTRE, 50.0, 0.7, SIZE)
    assert cover.dtype == np.float32
    assert cover.min() == 0 and cover.max() == 1
    assert ((cover > 0.1) & (cover < 0.9)).sum() > 50


def test_classes_look_different():
    covers = [coverage(shape, CENTRE, 60.0, 0.0, SIZE) for shape in SHAPE_CLASSES]
    for index, first in enumerate(covers):
        for second in covers[index + 1 :]:
            assert np.minimum(first, second).sum() / np.maximum(first, second).sum() < 0.9
