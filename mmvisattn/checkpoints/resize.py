"""Fit the position tensors of a checkpoint to the window and image size of a model."""

from __future__ import annotations

import math
from typing import cast

from torch import Tensor, nn

from mmvisattn.layers.position import resize_position_embedding


def fit_positions(tensors: dict[str, Tensor], model: nn.Module) -> tuple[dict[str, Tensor], list[str]]:
    """Resize what depends on the window or the image size to the sizes of a model.

    Args:
        tensors: A checkpoint's tensors by our names.
        model: The model; its modules with a relative position bias table have a ``window_size``.

    Returns:
        The tensors, with position tensors resized where the sizes differ, and the names of those.

    Raises:
        ValueError: If what would have to be resized is not a position tensor, or a relative position bias table of a
            window that is not square.
    """
    expected = model.state_dict()
    fitted, resized = dict(tensors), []
    for name, tensor in tensors.items():
        if name not in expected or tensor.shape == expected[name].shape:
            continue
        module, _, leaf = name.rpartition(".")
        if leaf == "relative_position_bias_table":
            rows, columns = cast("tuple[int, int]", model.get_submodule(module).window_size)
            fitted[name] = resize_bias_table(tensor, (rows, columns))
        elif leaf == "absolute_pos_embed":
            if tensor.ndim != 4 or 0 in tensor.shape:
                raise ValueError(f"expected a position embedding, (1, C, H, W), but got {tuple(tensor.shape)}")
            rows, columns = expected[name].shape[2:]
            fitted[name] = resize_position_embedding(tensor, (rows, columns))
        else:
            continue
        resized.append(name)
    return fitted, resized


def resize_bias_table(table: Tensor, window_size: tuple[int, int]) -> Tensor:
    """Resize the table of relative position biases of a square window to another window.

    Each head's biases form an image of relative rows and columns, which is resized bicubically, the rule of the
    official Swin code, mmdet and mmseg. The identity if the window is the same.

    Args:
        table: Biases of shape ((2h-1)*(2h-1), heads).
        window_size: Rows and columns of the new window, in tokens.

    Returns:
        Biases of shape ((2*rows-1)*(2*columns-1), heads).

    Raises:
        ValueError: If it is not a table, or not one of a square window.

    Example:
        >>> import torch
        >>> resize_bias_table(torch.zeros(169, 3), (12, 8)).shape
        torch.Size([345, 3])
    """
    if table.ndim != 2:
        raise ValueError(f"expected relative position biases (rows, heads), but got {tuple(table.shape)}")
    length, heads = table.shape
    side = math.isqrt(length)
    if side * side != length or side % 2 == 0:
        raise ValueError(f"cannot resize relative position biases of {length} rows, since their window is not square")
    image = table.t().reshape(1, heads, side, side)
    size = (2 * window_size[0] - 1, 2 * window_size[1] - 1)
    return resize_position_embedding(image, size).reshape(heads, -1).t()
