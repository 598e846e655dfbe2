"""Write a dataset of generated shapes to disk."""

import json
import shutil
from numbers import Integral
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from mmvisattn.datasets.shapes.layouts import coco_annotations, coco_categories, label_map
from mmvisattn.datasets.shapes.scene import DIFFICULTIES, draw_scene

GENERATOR_VERSION = 1
"""Raised when the same arguments give other pictures, so that old folders count as stale."""

SETTINGS_FILE = "shapes.json"
SPLITS = {"training": "train", "validation": "val"}
"""Folder of each split (ADE20K's word), and its name in the COCO file."""

_SMALLEST_IMAGE = 64
_JPEG_QUALITY = 95


def _check(train_images: int, val_images: int, image_size: int, seed: int, difficulty: str) -> None:
    """Raise TypeError or ValueError for the first argument that is not allowed."""
    numbers = {"train_images": train_images, "val_images": val_images, "image_size": image_size, "seed": seed}
    for name, value in numbers.items():
        if not isinstance(value, Integral):
            raise TypeError(f"{name} must be an integer, got {value!r}")
    for name, value in (("train_images", train_images), ("val_images", val_images)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if image_size < _SMALLEST_IMAGE:
        raise ValueError(f"image_size must be at least {_SMALLEST_IMAGE} pixels, got {image_size}")
    if seed < 0:
        raise ValueError(f"seed must be 0 or more, got {seed}")
    if difficulty not in DIFFICULTIES:
        allowed = ", ".join(map(repr, DIFFICULTIES))
        raise ValueError(f"difficulty must be one of {allowed}, got {difficulty!r}")


def _write_image(path: Path, image: np.ndarray, parameters: tuple[int, ...] = ()) -> None:
    """Encode an image by the suffix of its path and write it."""
    _, encoded = cv2.imencode(path.suffix, image, parameters)
    path.write_bytes(encoded.tobytes())


def _write_split(root: Path, folder: str, count: int, image_size: int, seed: int, difficulty: str) -> None:
    """Write images, label maps and the COCO file of one split below ``root``."""
    image_folder, map_folder = root / "images" / folder, root / "annotations" / folder
    image_folder.mkdir(parents=True)
    map_folder.mkdir(parents=True)
    split = list(SPLITS).index(folder)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for index in range(count):
        # Each picture has its own stream: it stays the same when more pictures are asked for.
        scene = draw_scene(np.random.default_rng((seed, split, index)), DIFFICULTIES[difficulty], image_size)
        name = f"{index:06d}"
        _write_image(image_folder / f"{name}.jpg", scene.image[..., ::-1], (cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY))
        _write_image(map_folder / f"{name}.png", label_map(scene))
        images.append({"id": index + 1, "file_name": f"{name}.jpg", "width": image_size, "height": image_size})
        annotations += coco_annotations(scene, image_id=index + 1, first_id=len(annotations) + 1)
    coco = {"images": images, "annotations": annotations, "categories": coco_categories()}
    (root / "annotations" / f"instances_{SPLITS[folder]}.json").write_text(json.dumps(coco))


def make_shapes(
    root: str | Path,
    train_images: int = 400,
    val_images: int = 100,
    image_size: int = 160,
    seed: int = 0,
    difficulty: str = "quickstart",
) -> Path:
    """Write a dataset of generated shapes.

    One folder serves both hosts: ``images/{training,validation}/*.jpg``, with
    ``annotations/instances_{train,val}.json`` in COCO's format and ``annotations/{training,validation}/*.png`` in
    ADE20K's. In the label maps 0 means unlabelled (the generator labels every pixel), 1 is the background and 2 the
    first shape: use ``reduce_zero_label=True`` and ``SEGMENTATION_CLASSES``. Boxes, areas and masks in the COCO files
    are those of the visible part of each object.

    The same arguments write the same bytes, given the same versions of numpy and OpenCV. The folder appears only when
    it is complete. A dataset that was generated before is replaced; any other folder with content is left alone.

    Args:
        root: Folder to write.
        train_images: Number of training images.
        val_images: Number of validation images, drawn from other random streams than the training images.
        image_size: Side of the square images, in pixels; at least 64.
        seed: Seed of the dataset, 0 or more.
        difficulty: ``'quickstart'`` (plain backgrounds, 1 to 4 objects, the colour hints the class) or ``'textured'``
            (textured backgrounds and objects, any colour, overlaps, objects from 16 pixels to the full image).

    Returns:
        The folder, as an absolute path.

    Raises:
        TypeError: If a number is not an integer.
        ValueError: If an argument is out of range.
        FileExistsError: If ``root`` holds something else than a generated dataset.

    Example:
        >>> import tempfile
        >>> root = make_shapes(tempfile.mkdtemp(), train_images=2, val_images=1, image_size=64)
        >>> sorted(path.name for path in (root / "images" / "training").iterdir())
        ['000000.jpg', '000001.jpg']
    """
    _check(train_images, val_images, image_size, seed, difficulty)
    root = Path(root).resolve()
    if root.exists() and not (root / SETTINGS_FILE).is_file() and (not root.is_dir() or any(root.iterdir())):
        raise FileExistsError(
            f"root must be a new or empty folder or a generated dataset, but {root} holds other files"
        )
    settings = _settings(train_images, val_images, image_size, seed, difficulty)
    unfinished = root.with_name(root.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    for folder, count in zip(SPLITS, (train_images, val_images), strict=True):
        _write_split(unfinished, folder, count, image_size, seed, difficulty)
    (unfinished / SETTINGS_FILE).write_text(json.dumps(settings, indent=2) + "\n")
    shutil.rmtree(root, ignore_errors=True)
    unfinished.replace(root)
    return root


def _settings(train_images: int, val_images: int, image_size: int, seed: int, difficulty: str) -> dict[str, Any]:
    """Return everything that decides the bytes of a dataset."""
    return {
        "train_images": train_images,
        "val_images": val_images,
        "image_size": image_size,
        "seed": seed,
        "difficulty": difficulty,
        "generator": GENERATOR_VERSION,
        "numpy": np.__version__,
        "opencv": cv2.__version__,
    }


def ensure_shapes(
    root: str | Path,
    train_images: int = 400,
    val_images: int = 100,
    image_size: int = 160,
    seed: int = 0,
    difficulty: str = "quickstart",
) -> bool:
    """Write the dataset unless ``root`` already holds the one that these arguments give.

    Args:
        root: See ``make_shapes``.
        train_images: See ``make_shapes``.
        val_images: See ``make_shapes``.
        image_size: See ``make_shapes``.
        seed: See ``make_shapes``.
        difficulty: See ``make_shapes``.

    Returns:
        Whether the dataset was written.

    Raises:
        TypeError: See ``make_shapes``.
        ValueError: See ``make_shapes``.
        FileExistsError: See ``make_shapes``.
    """
    settings_file = Path(root) / SETTINGS_FILE
    wanted = _settings(train_images, val_images, image_size, seed, difficulty)
    if settings_file.is_file() and json.loads(settings_file.read_text()) == wanted:
        return False
    make_shapes(root, train_images, val_images, image_size, seed, difficulty)
    return True
