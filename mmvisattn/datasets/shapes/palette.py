"""Colours of the scenes, as RGB in [0, 1]."""

import colorsys

import numpy as np


def _rgb(code: str) -> np.ndarray:
    """Return the colour of a six-digit hexadecimal code as (3,) float32 in [0, 1]."""
    return np.array([int(code[i : i + 2], 16) for i in (0, 2, 4)], np.float32) / 255


CLASS_COLOURS: dict[str, np.ndarray] = {
    "circle": _rgb("ef5b5b"),
    "square": _rgb("3d7edb"),
    "triangle": _rgb("f7b538"),
    "star": _rgb("8f5bd8"),
    "ring": _rgb("14b8a6"),
    "cross": _rgb("7bbf3f"),
}
"""The colour that hints each class where the difficulty lets it."""

BACKGROUNDS = tuple(
    map(
        _rgb,
        ("f4ede0", "dfe7ee", "f3dfd6", "d5dfd0", "e8e3f0", "c9d6df", "fff6e5", "2b3440", "3a3550", "22404a", "4a3b38"),
    )
)
"""Papers of the scenes: seven light ones, four dark ones."""

PAINTS = (
    *CLASS_COLOURS.values(),
    *map(_rgb, ("f28fb0", "f2f0e9", "33415c", "d9793b", "5fc6e8", "a3315f", "8d99a6", "c8b04a")),
)
"""Colours that tell nothing about the class."""


def jitter(rng: np.random.Generator, colour: np.ndarray, hue: float = 0.025, rest: float = 0.1) -> np.ndarray:
    """Shift a colour at random in hue, saturation and value.

    Args:
        rng: Source of randomness.
        colour: RGB in [0, 1], shape (3,).
        hue: Largest shift of the hue, in turns.
        rest: Largest shift of saturation and of value.

    Returns:
        RGB in [0, 1], shape (3,), float32.
    """
    h, s, v = colorsys.rgb_to_hsv(*map(float, colour))
    h = (h + rng.uniform(-hue, hue)) % 1.0
    s, v = (min(max(part + rng.uniform(-rest, rest), 0.0), 1.0) for part in (s, v))
    return np.array(colorsys.hsv_to_rgb(h, s, v), np.float32)
