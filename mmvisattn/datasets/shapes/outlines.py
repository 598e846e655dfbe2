"""Outlines of the shape classes, and their antialiased coverage of an image."""

import math

import cv2
import numpy as np

SUPERSAMPLING = 4
"""Side of the grid of samples that decides how much of a pixel is covered."""

_SUBPIXEL_BITS = 4
CORNER_RADIUS = 0.035  # of the longer side: corners are slightly rounded, like cut paper


def _regular(corners: int, inner: float = 1.0) -> np.ndarray:
    """Return a regular polygon, or a star when every second corner lies at radius ``inner``.

    Args:
        corners: Number of corners (of outer corners, for a star).
        inner: Radius of the inner corners; 1 gives the plain polygon.

    Returns:
        Points (x, y) of shape (corners, 2), or (2 * corners, 2) for a star, the first one at the top.
    """
    count = corners if inner == 1.0 else 2 * corners
    angles = 2 * math.pi * np.arange(count) / count - math.pi / 2
    radii = np.where(np.arange(count) % 2 == 0, 1.0, inner)
    return np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1)


def _plus(arm: float) -> np.ndarray:
    """Return a plus sign of half width 1 whose arms are ``2 * arm`` wide, as (12, 2) points."""
    quarter = np.array([[arm, -arm], [arm, -1.0], [-arm, -1.0]])
    turns = [np.array([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]]) for a in np.arange(4) * -math.pi / 2]
    return np.concatenate([quarter @ turn for turn in turns])


_CIRCLE = _regular(72)

OUTLINES: dict[str, tuple[np.ndarray, ...]] = {
    "circle": (_CIRCLE,),
    "square": (_regular(4),),
    "triangle": (_regular(3),),
    "star": (_regular(5, inner=0.45),),
    "ring": (_CIRCLE, 0.52 * _CIRCLE),
    "cross": (_plus(arm=0.34),),
}
"""For each class its closed outlines, (N, 2) each; a second outline is a hole."""

SHAPE_CLASSES: tuple[str, ...] = tuple(OUTLINES)


def coverage(shape: str, centre: tuple[float, float], side: float, angle: float, image_size: int) -> np.ndarray:
    """Rasterise one shape and return how much of each pixel it covers.

    Args:
        shape: One of ``SHAPE_CLASSES``.
        centre: Centre (x, y) of its bounding box, in pixels.
        side: Longer side of its bounding box after the rotation, in pixels.
        angle: Rotation, in radians.
        image_size: Side of the square image, in pixels.

    Returns:
        Array (image_size, image_size), float32, 0 outside and 1 inside.

    Example:
        >>> area = coverage("square", centre=(16, 16), side=16, angle=math.pi / 4, image_size=32)
        >>> area.shape, float(area[16, 16]), float(area[2, 2])
        ((32, 32), 1.0, 0.0)
    """
    cosine, sine = math.cos(angle), math.sin(angle)
    rings = [ring @ np.array([[cosine, sine], [-sine, cosine]]) for ring in OUTLINES[shape]]
    low, high = rings[0].min(axis=0), rings[0].max(axis=0)
    rounding = CORNER_RADIUS * side
    scale = (side - 2 * rounding) / (high - low).max()
    fixed_point = SUPERSAMPLING * 2**_SUBPIXEL_BITS
    contours = []
    for ring in rings:
        points = np.asarray(centre) + scale * (ring - (low + high) / 2)
        # OpenCV puts integer coordinates on sample centres, hence the half sample.
        contours.append(np.rint(points * fixed_point - 2 ** (_SUBPIXEL_BITS - 1)).astype(np.int32))
    canvas = np.zeros((SUPERSAMPLING * image_size,) * 2, np.uint8)
    cv2.fillPoly(canvas, contours, 255, shift=_SUBPIXEL_BITS)
    thickness = max(1, round(2 * rounding * SUPERSAMPLING))
    cv2.polylines(canvas, contours, True, 255, thickness, shift=_SUBPIXEL_BITS)
    averaged = cv2.resize(canvas, (image_size, image_size), interpolation=cv2.INTER_AREA)
    return averaged.astype(np.float32) / 255
