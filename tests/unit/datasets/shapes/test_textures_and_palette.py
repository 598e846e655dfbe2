"""Textures span their range at every size; jittered colours stay colours."""

import numpy as np
import pytest

from mmvisattn.datasets.shapes import SHAPE_CLASSES, palette, textures


@pytest.mark.parametrize("texture", [textures.gradient, *textures.TEXTURES])
@pytest.mark.parametrize("size", [64, 97])
def test_texture_is_a_field_in_the_unit_interval(texture, size):
    field = texture(np.random.default_rng(1), size)
    assert field.shape == (size, size)
    assert field.dtype == np.float32
    assert field.min() >= 0 and field.max() <= 1
    assert field.std() > 0.1


@pytest.mark.parametrize("texture", [textures.gradient, *textures.TEXTURES])
def test_texture_varies_with_the_stream_and_with_nothing_else(texture):
    first, again, other = (texture(np.random.default_rng(seed), 64) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_every_class_has_its_colour():
    assert tuple(palette.CLASS_COLOURS) == SHAPE_CLASSES


def test_jitter_stays_in_range_and_near():
    rng = np.random.default_rng(0)
    for colour in (*palette.PAINTS, *palette.BACKGROUNDS, np.zeros(3), np.ones(3)):
        shifted = palette.jitter(rng, colour)
        assert shifted.shape == (3,) and shifted.dtype == np.float32
        assert shifted.min() >= 0 and shifted.max() <= 1
        assert np.abs(shifted - colour).max() < 0.3
