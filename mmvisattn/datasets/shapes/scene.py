"""Compose one picture of shapes, with the visible mask of every object."""

import math
from dataclasses import dataclass

import numpy as np

from mmvisattn.datasets.shapes import palette, textures
from mmvisattn.datasets.shapes.outlines import SHAPE_CLASSES, coverage
from mmvisattn.datasets.shapes.painting import paint


@dataclass(frozen=True)
class Difficulty:
    """What makes a scene easy or hard.

    Attributes:
        objects: Fewest and most objects in a picture.
        smallest: Smallest longer side of an object: a fraction of the image if below 1, else pixels.
        largest: Largest longer side of an object, as a fraction of the image.
        least_visible: Part of every object that later objects must leave visible.
        class_colours: Whether the colour hints the class.
        textured: Whether backgrounds and objects carry textures.
    """

    objects: tuple[int, int]
    smallest: float
    largest: float
    least_visible: float
    class_colours: bool
    textured: bool


DIFFICULTIES: dict[str, Difficulty] = {
    "quickstart": Difficulty((1, 4), 0.2, 0.5, least_visible=0.9, class_colours=True, textured=False),
    "textured": Difficulty((2, 8), 16, 1.0, least_visible=0.35, class_colours=False, textured=True),
}


@dataclass(frozen=True)
class Scene:
    """One generated picture.

    Attributes:
        image: RGB (H, W, 3), uint8.
        instances: Which object is seen in each pixel, (H, W) uint8: 0 is the background, k the k-th object.
        labels: Class of each object, an index into ``SHAPE_CLASSES``; ``labels[k - 1]`` belongs to object k.
    """

    image: np.ndarray
    instances: np.ndarray
    labels: tuple[int, ...]


@dataclass(frozen=True)
class _Placed:
    """An object that has found its place: class index, longer side in pixels, coverage (H, W)."""

    label: int
    side: float
    cover: np.ndarray


def _sides(rng: np.random.Generator, difficulty: Difficulty, image_size: int) -> list[float]:
    """Draw the longer sides of a picture's objects, in pixels, largest first (it lies at the bottom)."""
    low = difficulty.smallest * image_size if difficulty.smallest < 1 else difficulty.smallest
    high = difficulty.largest * image_size
    count = int(rng.integers(difficulty.objects[0], difficulty.objects[1] + 1))
    return sorted((math.exp(rng.uniform(math.log(low), math.log(high))) for _ in range(count)), reverse=True)


def _place(
    rng: np.random.Generator, difficulty: Difficulty, image_size: int, attempts: int = 12
) -> tuple[list[_Placed], np.ndarray]:
    """Find places where every object stays visible enough; an object that finds none is left out.

    Returns:
        The objects from the bottom up, and the (H, W) uint8 map of the object seen in each pixel.
    """
    placed: list[_Placed] = []
    instances = np.zeros((image_size, image_size), np.uint8)
    areas: list[int] = []
    for side in _sides(rng, difficulty, image_size):
        label = int(rng.integers(len(SHAPE_CLASSES)))
        for _ in range(attempts):
            x, y = rng.uniform(side / 2, image_size - side / 2, 2)
            cover = coverage(SHAPE_CLASSES[label], (x, y), side, rng.uniform(0, 2 * math.pi), image_size)
            inside = cover >= 0.5
            candidate = np.where(inside, np.uint8(len(placed) + 1), instances)
            visible = np.bincount(candidate.ravel(), minlength=len(placed) + 2)[1:-1]
            if np.all(visible >= difficulty.least_visible * np.array(areas)):
                placed.append(_Placed(label, side, cover))
                instances = candidate
                areas.append(int(inside.sum()))
                break
    return placed, instances


def _background(rng: np.random.Generator, difficulty: Difficulty, image_size: int) -> np.ndarray:
    """Return an (H, W, 3) float32 background in [0, 1]."""
    paper = palette.jitter(rng, palette.BACKGROUNDS[rng.integers(len(palette.BACKGROUNDS))], rest=0.04)
    if difficulty.textured:
        other = palette.jitter(rng, palette.PAINTS[rng.integers(len(palette.PAINTS))])
        field = textures.TEXTURES[rng.integers(len(textures.TEXTURES))](rng, image_size)
        strength = rng.uniform(0.25, 0.7)
    else:
        other = paper * 0.82
        field = 0.75 * textures.gradient(rng, image_size) + 0.25 * textures.clouds(rng, image_size)
        strength = 1.0
    return paper + strength * field[..., None] * (other - paper)


def _body(
    rng: np.random.Generator, difficulty: Difficulty, label: int, behind: np.ndarray, image_size: int
) -> np.ndarray:
    """Choose an object's colour, (3,) or (H, W, 3), apart from the mean colour ``behind`` it, (3,)."""
    if difficulty.class_colours:
        return palette.jitter(rng, palette.CLASS_COLOURS[SHAPE_CLASSES[label]])
    order = rng.permutation(len(palette.PAINTS))
    paints = [palette.jitter(rng, palette.PAINTS[i]) for i in order]
    colour = next((paint for paint in paints if np.abs(paint - behind).max() > 0.3), paints[0])
    if rng.random() < 0.5:
        return colour
    field = textures.TEXTURES[rng.integers(len(textures.TEXTURES))](rng, image_size)
    return colour + 0.45 * field[..., None] * (paints[-1] - colour)


def draw_scene(rng: np.random.Generator, difficulty: Difficulty, image_size: int) -> Scene:
    """Draw one scene.

    All randomness comes from ``rng``, so the same generator state draws the same scene.

    Args:
        rng: Source of randomness.
        difficulty: What the scene may hold.
        image_size: Side of the square picture, in pixels.

    Returns:
        The picture and what it shows. The masks are the pixels in which an object is the topmost one that covers at
        least half of the pixel.

    Example:
        >>> scene = draw_scene(np.random.default_rng(0), DIFFICULTIES["quickstart"], image_size=96)
        >>> scene.image.shape, int(scene.instances.max()) == len(scene.labels)
        ((96, 96, 3), True)
    """
    picture = _background(rng, difficulty, image_size).astype(np.float32)
    placed, instances = _place(rng, difficulty, image_size)
    light = math.radians(rng.uniform(-150, -30))  # from above
    for item in placed:
        behind = picture[item.cover >= 0.5].mean(axis=0)
        body = _body(rng, difficulty, item.label, behind, image_size)
        picture = paint(picture, item.cover, body, item.side, light)
    grain = rng.standard_normal((image_size, image_size, 1), np.float32)
    picture = np.clip(picture + 0.012 * grain, 0, 1)
    return Scene(np.rint(255 * picture).astype(np.uint8), instances, tuple(item.label for item in placed))
