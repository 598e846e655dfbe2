"""Paint one object onto a picture: drop shadow, body, bevel."""

import math

import cv2
import numpy as np


def _blur(field: np.ndarray, sigma: float) -> np.ndarray:
    """Blur (H, W) or (H, W, C) by a Gaussian of ``sigma`` pixels, replicating the border."""
    return cv2.GaussianBlur(field, (0, 0), sigma, borderType=cv2.BORDER_REPLICATE)


def paint(picture: np.ndarray, cover: np.ndarray, body: np.ndarray, side: float, light: float) -> np.ndarray:
    """Return the picture with one object laid on it.

    Args:
        picture: (H, W, 3) float32 in [0, 1].
        cover: Coverage (H, W) of the object, float32 in [0, 1].
        body: Its colour, (3,) or (H, W, 3), float32 in [0, 1].
        side: Longer side of the object, in pixels; sets the width of shadow and bevel.
        light: Direction that the light comes from, in radians (image axes: x right, y down).

    Returns:
        The new picture, (H, W, 3) float32 in [0, 1].
    """
    towards = (math.cos(light), math.sin(light))
    reach = 0.06 * side
    shift = np.array([[1, 0, -reach * towards[0]], [0, 1, -reach * towards[1]]], np.float32)
    shadow = _blur(cv2.warpAffine(cover, shift, cover.shape[::-1]), max(0.045 * side, 0.8))
    picture = picture * (1 - 0.42 * shadow[..., None])

    # The blurred coverage is a height field with rounded edges; its slope towards the light brightens.
    width = max(0.03 * side, 0.7)
    height = _blur(cover, width)
    slope = cv2.Sobel(height, cv2.CV_32F, 1, 0) * towards[0] + cv2.Sobel(height, cv2.CV_32F, 0, 1) * towards[1]
    bevel = np.clip(-0.30 * width * slope, -0.35, 0.35)

    ys, xs = np.nonzero(cover > 0.5)
    rows, columns = np.indices(cover.shape, np.float32)
    ramp = ((columns - xs.mean()) * towards[0] + (rows - ys.mean()) * towards[1]) / side
    lit = np.clip(body * (1 + 0.28 * ramp[..., None]) + bevel[..., None], 0, 1)
    return picture + cover[..., None] * (lit - picture)
