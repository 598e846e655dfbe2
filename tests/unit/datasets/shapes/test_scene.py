"""Scenes hold what their difficulty promises."""

import dataclasses

import numpy as np
import pytest

from mmvisattn.datasets.shapes import SHAPE_CLASSES, palette
from mmvisattn.datasets.shapes.scene import DIFFICULTIES, draw_scene

SIZE = 160
COUNT = 30


@pytest.fixture(scope="module", params=list(DIFFICULTIES))
def difficulty(request):
    return request.param


@pytest.fixture(scope="module")
def scenes(difficulty):
    return [draw_scene(np.random.default_rng(seed), DIFFICULTIES[difficulty], SIZE) for seed in range(COUNT)]


def sides(scene):
    """Longer side of the visible box of each object, in pixels."""
    for index in range(len(scene.labels)):
        rows, columns = np.nonzero(scene.instances == index + 1)
        yield max(np.ptp(rows), np.ptp(columns)) + 1


def test_arrays_and_labels_fit_together(scenes):
    for scene in scenes:
        assert scene.image.shape == (SIZE, SIZE, 3) and scene.image.dtype == np.uint8
        assert scene.instances.shape == (SIZE, SIZE)
        assert set(np.unique(scene.instances)) - {0} == set(range(1, len(scene.labels) + 1))
        assert all(0 <= label < len(SHAPE_CLASSES) for label in scene.labels)


def test_number_of_objects(scenes, difficulty):
    fewest, most = DIFFICULTIES[difficulty].objects
    counts = [len(scene.labels) for scene in scenes]
    assert min(counts) >= 1 and max(counts) <= most
    assert len(set(counts)) >= most - fewest  # counts vary


def test_every_class_occurs(scenes):
    assert {label for scene in scenes for label in scene.labels} == set(range(len(SHAPE_CLASSES)))


def test_textured_objects_reach_from_16_pixels_to_the_image():
    largest, smallest = 0, SIZE
    for seed in range(50):
        found = list(sides(draw_scene(np.random.default_rng(seed), DIFFICULTIES["textured"], SIZE)))
        largest, smallest = max([largest, *found]), min([smallest, *found])
    assert largest > 0.9 * SIZE
    assert 8 <= smallest <= 20  # a corner of the smallest may be hidden


def test_quickstart_objects_are_neither_small_nor_large():
    scenes = [draw_scene(np.random.default_rng(seed), DIFFICULTIES["quickstart"], SIZE) for seed in range(COUNT)]
    found = [side for scene in scenes for side in sides(scene)]
    assert min(found) >= 0.2 * SIZE * 0.85  # rounding and hidden corners
    assert max(found) <= 0.5 * SIZE + 2


def test_objects_stay_visible(difficulty):
    rule = DIFFICULTIES[difficulty]
    crowded = dataclasses.replace(rule, objects=(12, 12), smallest=0.4, largest=0.5)
    for seed in range(5):
        scene = draw_scene(np.random.default_rng(seed), crowded, SIZE)
        whole = 0.12 * (0.4 * SIZE) ** 2  # no outline covers less of its box than this
        for index in range(len(scene.labels)):
            assert (scene.instances == index + 1).sum() >= rule.least_visible * whole


def test_overlaps_occur_only_where_they_are_meant_to():
    def least_visible(name):
        # the first object of a picture lies at the bottom; alone it would show all of its area
        shares = []
        for seed in range(COUNT):
            scene = draw_scene(np.random.default_rng(seed), DIFFICULTIES[name], SIZE)
            areas = np.bincount(scene.instances.ravel(), minlength=2)[1:]
            shares.append(areas.min() / max(areas.max(), 1))
        return min(shares)

    assert least_visible("textured") < 0.05 < least_visible("quickstart")


def test_colour_hints_the_class_in_quickstart():
    right = total = 0
    for seed in range(COUNT):
        scene = draw_scene(np.random.default_rng(seed), DIFFICULTIES["quickstart"], SIZE)
        for index, label in enumerate(scene.labels):
            seen = scene.image[scene.instances == index + 1].mean(axis=0) / 255
            nearest = min(SHAPE_CLASSES, key=lambda name: np.abs(palette.CLASS_COLOURS[name] - seen).sum())
            right += nearest == SHAPE_CLASSES[label]
            total += 1
    assert right / total > 0.8


def test_same_stream_same_scene(difficulty):
    first, second, other = (draw_scene(np.random.default_rng(seed), DIFFICULTIES[difficulty], 64) for seed in (3, 3, 4))
    assert np.array_equal(first.image, second.image)
    assert np.array_equal(first.instances, second.instances)
    assert first.labels == second.labels
    assert not np.array_equal(first.image, other.image)


def test_objects_stand_out_from_what_is_behind_them(scenes):
    contrasts = []
    for scene in scenes:
        image = scene.image.astype(float) / 255
        for index in range(len(scene.labels)):
            mask = scene.instances == index + 1
            contrasts.append(np.abs(image[mask].mean(axis=0) - image[scene.instances == 0].mean(axis=0)).max())
    assert np.median(contrasts) > 0.25
