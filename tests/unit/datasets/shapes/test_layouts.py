"""Annotations say what the masks show; pycocotools is the judge of the run lengths."""

import numpy as np
import pytest
from pycocotools import mask as coco_mask

from mmvisattn.datasets.shapes import SEGMENTATION_CLASSES, SHAPE_CLASSES
from mmvisattn.datasets.shapes.layouts import coco_annotations, coco_categories, label_map, run_lengths
from mmvisattn.datasets.shapes.scene import Scene


@pytest.fixture
def scene():
    """A 4 x 6 picture: a square (class 1) of which one corner is hidden, and a ring (class 4)."""
    instances = np.array(
        [[0, 1, 1, 0, 0, 0], [0, 1, 2, 2, 2, 0], [0, 0, 2, 0, 2, 0], [0, 0, 2, 2, 2, 0]],
        np.uint8,
    )
    return Scene(np.zeros((4, 6, 3), np.uint8), instances, labels=(1, 4))


def decoded(run_length_dict):
    height, width = run_length_dict["size"]
    return coco_mask.decode(coco_mask.frPyObjects(run_length_dict, height, width)).astype(bool)


@pytest.mark.parametrize("seed", range(10))
def test_run_lengths_survive_the_round_trip(seed):
    rng = np.random.default_rng(seed)
    mask = rng.random((rng.integers(1, 9), rng.integers(1, 9))) < rng.random()
    assert np.array_equal(decoded(run_lengths(mask)), mask)


@pytest.mark.parametrize("value", [False, True])
def test_run_lengths_of_an_even_mask(value):
    mask = np.full((3, 5), value)
    encoded = run_lengths(mask)
    assert np.array_equal(decoded(encoded), mask)
    assert sum(encoded["counts"]) == 15


def test_coco_annotations_by_hand(scene):
    square, ring = coco_annotations(scene, image_id=7, first_id=20)
    assert square["bbox"] == [1, 0, 2, 2] and square["area"] == 3
    assert ring["bbox"] == [2, 1, 3, 3] and ring["area"] == 8
    assert (square["id"], ring["id"]) == (20, 21)
    assert {a["image_id"] for a in (square, ring)} == {7}
    assert (square["category_id"], ring["category_id"]) == (2, 5)
    assert square["iscrowd"] == ring["iscrowd"] == 0
    assert np.array_equal(decoded(ring["segmentation"]), scene.instances == 2)


def test_categories_count_from_one():
    assert [(category["id"], category["name"]) for category in coco_categories()] == list(enumerate(SHAPE_CLASSES, 1))


def test_label_map_leaves_zero_for_unlabelled(scene):
    labels = label_map(scene)
    assert labels.dtype == np.uint8
    assert labels.min() == 1
    names = np.array(SEGMENTATION_CLASSES)[labels - 1]  # what reduce_zero_label does
    assert names[0, 0] == "background" and names[0, 1] == "square" and names[1, 2] == "ring"
