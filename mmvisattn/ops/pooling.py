"""Max pooling of tokens."""

import torch
from torch import Tensor
from torch.nn.functional import pad


def max_pool_tokens(tokens: Tensor, stride: int) -> Tensor:
    """Return the maximum of each `stride` x `stride` cell of a map, channel by channel.

    Cells at the bottom and right that reach over the map pool what is inside. The gradient goes to the first maximum
    in row-major order of the cell, the same from run to run.

    Args:
        tokens: (B, H, W, C).
        stride: side of a cell, in tokens.

    Returns:
        (B, ceil(H/stride), ceil(W/stride), C).
    """
    batch, height, width, channels = tokens.shape
    rows, columns = -(-height // stride), -(-width // stride)
    if rows * stride != height or columns * stride != width:
        margins = (0, 0, 0, columns * stride - width, 0, rows * stride - height)
        tokens = pad(tokens, margins, value=-torch.inf)
    cells = tokens.reshape(batch, rows, stride, columns, stride, channels).transpose(2, 3)
    return cells.reshape(batch, rows, columns, stride * stride, channels).max(3).values
