"""The folder on disk: complete, repeatable, consistent across both layouts, and never in the way of other files."""

import contextlib
import io
import json
import subprocess
import sys
import time

import cv2
import numpy as np
import pytest
from pycocotools.coco import COCO

from mmvisattn.datasets.shapes import ensure_shapes, generate, make_shapes

SMALL = dict(train_images=3, val_images=2, image_size=64)


def contents(root):
    """Relative path -> bytes of every file."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return make_shapes(tmp_path_factory.mktemp("shapes") / "data", difficulty="textured", **SMALL)


def test_files_of_both_layouts(root):
    assert set(contents(root)) == {
        "shapes.json",
        "annotations/instances_train.json",
        "annotations/instances_val.json",
        *(f"images/training/{i:06d}.jpg" for i in range(3)),
        *(f"annotations/training/{i:06d}.png" for i in range(3)),
        *(f"images/validation/{i:06d}.jpg" for i in range(2)),
        *(f"annotations/validation/{i:06d}.png" for i in range(2)),
    }


@pytest.mark.parametrize(("split", "folder"), [("train", "training"), ("val", "validation")])
def test_both_layouts_show_the_same_pixels(root, split, folder):
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(root / "annotations" / f"instances_{split}.json")
    assert len(coco.imgs) == SMALL[f"{split}_images"]
    for image in coco.imgs.values():
        picture = cv2.imread(str(root / "images" / folder / image["file_name"]))
        assert picture.shape == (image["height"], image["width"], 3)
        labels = np.ones((image["height"], image["width"]), int)
        for annotation in coco.imgToAnns[image["id"]]:
            mask = coco.annToMask(annotation).astype(bool)
            assert np.all(labels[mask] == 1), "visible masks do not overlap"
            labels[mask] = annotation["category_id"] + 1
            rows, columns = np.nonzero(mask)
            x, y, width, height = annotation["bbox"]
            assert (x, y, width, height) == (columns.min(), rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1)
            assert annotation["area"] == mask.sum() > 0
        stored = cv2.imread(
            str(root / "annotations" / folder / image["file_name"].replace("jpg", "png")), cv2.IMREAD_UNCHANGED
        )
        assert np.array_equal(stored, labels)


def test_same_seed_same_bytes_in_another_process(root, tmp_path):
    code = (
        "import sys, cv2; cv2.setNumThreads(2); from mmvisattn.datasets.shapes import make_shapes;"
        f"make_shapes(sys.argv[1], difficulty='textured', **{SMALL})"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "again")], check=True)
    assert contents(tmp_path / "again") == contents(root)


def test_another_seed_gives_other_pictures(root, tmp_path):
    other = contents(make_shapes(tmp_path / "other", difficulty="textured", seed=1, **SMALL))
    same = {name for name, data in contents(root).items() if other[name] == data}
    assert not same


def test_more_pictures_begin_with_the_same_ones(root, tmp_path):
    longer = make_shapes(tmp_path / "longer", 4, 3, image_size=64, difficulty="textured")
    pictures = {name: data for name, data in contents(root).items() if not name.endswith("json")}
    assert pictures.items() <= contents(longer).items()


def test_splits_differ(root):
    files = contents(root)
    assert files["images/training/000000.jpg"] != files["images/validation/000000.jpg"]


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("train_images", 0),
        ("val_images", -1),
        ("image_size", 63),
        ("seed", -1),
        ("difficulty", "hard"),
    ],
)
def test_a_bad_argument_is_named_with_its_value(tmp_path, argument, value):
    with pytest.raises(ValueError, match=rf"^{argument} must be .*, got {value!r}$"):
        make_shapes(tmp_path / "data", **{argument: value})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("argument", ["train_images", "image_size", "seed"])
def test_a_number_that_is_no_integer_is_refused(tmp_path, argument):
    with pytest.raises(TypeError, match=rf"^{argument} must be an integer, got 100\.5$"):
        make_shapes(tmp_path / "data", **{argument: 100.5})


def test_other_files_are_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(FileExistsError, match="root must be a new or empty folder"):
        make_shapes(tmp_path, **SMALL)
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_a_file_in_the_way_is_left_alone(tmp_path):
    (tmp_path / "data").write_text("precious")
    with pytest.raises(FileExistsError, match="root must be"):
        make_shapes(tmp_path / "data", **SMALL)


def test_an_interrupted_run_leaves_the_old_data(tmp_path, monkeypatch):
    root = make_shapes(tmp_path / "data", **SMALL)
    before = contents(root)

    def broken(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(generate, "label_map", broken)
    with pytest.raises(KeyboardInterrupt):
        make_shapes(root, seed=5, **SMALL)
    assert contents(root) == before
    monkeypatch.undo()
    make_shapes(root, seed=5, **SMALL)
    assert contents(root) != before
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_ensure_writes_only_what_is_missing_or_stale(tmp_path):
    root = tmp_path / "data"
    assert ensure_shapes(root, **SMALL)
    assert not ensure_shapes(root, **SMALL)
    assert ensure_shapes(root, seed=1, **SMALL)
    settings = json.loads((root / "shapes.json").read_text())
    (root / "shapes.json").write_text(json.dumps(settings | {"opencv": "0.0.0"}))
    assert ensure_shapes(root, seed=1, **SMALL), "data of another OpenCV is stale"


def test_ensure_checks_its_arguments(tmp_path):
    with pytest.raises(ValueError, match="^seed must be"):
        ensure_shapes(tmp_path / "data", seed=-1)


def test_five_hundred_pictures_take_less_than_twenty_seconds(tmp_path):
    start = time.process_time()
    make_shapes(tmp_path / "data", train_images=20, val_images=5, difficulty="textured")
    assert time.process_time() - start < 20 * 25 / 500
