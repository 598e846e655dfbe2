"""Grey fields in [0, 1] that backgrounds and objects are coloured with."""

from collections.abc import Callable

import cv2
import numpy as np

Texture = Callable[[np.random.Generator, int], np.ndarray]


def _coordinates(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two (size, size) coordinate fields in image sides, turned by a random angle."""
    axis = np.linspace(-0.5, 0.5, size, dtype=np.float32)
    angle = rng.uniform(0, 2 * np.pi)
    x, y = axis[None, :], axis[:, None]
    return np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x


def _stretch(field: np.ndarray) -> np.ndarray:
    """Scale a field linearly so that it spans [0, 1]."""
    low, high = float(field.min()), float(field.max())
    return ((field - low) / max(high - low, 1e-6)).astype(np.float32)


def gradient(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return a linear ramp across the image, (size, size) float32."""
    along, _ = _coordinates(rng, size)
    return _stretch(along)


def clouds(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return smooth noise of four octaves, (size, size) float32."""
    field = np.zeros((size, size), np.float32)
    cells = int(rng.integers(2, 5))
    for octave in range(4):
        grid = rng.random((cells * 2**octave + 1,) * 2, dtype=np.float32)
        field += cv2.resize(grid, (size, size), interpolation=cv2.INTER_CUBIC) / 2**octave
    return _stretch(field)


def stripes(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return soft-edged stripes that waver a little, (size, size) float32."""
    along, _ = _coordinates(rng, size)
    wave = np.sin(2 * np.pi * rng.uniform(4, 12) * (along + 0.08 * clouds(rng, size)))
    return (0.5 + 0.5 * np.tanh(3 * wave)).astype(np.float32)


def checks(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return a soft-edged checkerboard, (size, size) float32."""
    along, across = _coordinates(rng, size)
    frequency = 2 * np.pi * rng.uniform(2, 6)
    product = np.sin(frequency * along) * np.sin(frequency * across)
    return (0.5 + 0.5 * np.tanh(6 * product)).astype(np.float32)


def dots(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return a grid of round dots, (size, size) float32."""
    along, across = _coordinates(rng, size)
    frequency = 2 * np.pi * rng.uniform(4, 10)
    height = np.cos(frequency * along) + np.cos(frequency * across)
    return (0.5 + 0.5 * np.tanh(4 * (height - 0.7))).astype(np.float32)


def wood(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return the year rings of a plank, (size, size) float32."""
    along, across = _coordinates(rng, size)
    radius = np.hypot(along - rng.uniform(0.4, 0.9), 0.35 * across)
    phase = rng.uniform(6, 14) * (radius + 0.12 * clouds(rng, size))
    return (phase % 1.0).astype(np.float32) ** 2


TEXTURES: tuple[Texture, ...] = (clouds, stripes, checks, dots, wood)
