"""Convolution at chosen positions only: ``masked_im2col`` and ``masked_col2im`` of guided anchoring (Wang et al. 2019).

Semantics after ``csrc/common/cuda/masked_conv2d_cuda_kernel.cuh`` of mmcv (Apache-2.0). mmcv defines no gradient.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def masked_im2col_forward(
    im: Tensor,
    mask_h_idx: Tensor,
    mask_w_idx: Tensor,
    col: Tensor,
    kernel_h: int,
    kernel_w: int,
    pad_h: int,
    pad_w: int,
) -> None:
    """Collect the window of each chosen output position.

    Args:
        im: (1, C, H, W).
        mask_h_idx: (P,) int64, rows of the positions.
        mask_w_idx: (P,) int64, columns of the positions.
        col: (C * kernel_h * kernel_w, P), written.
        kernel_h: rows of the window.
        kernel_w: columns of the window.
        pad_h: zero rows above and below.
        pad_w: zero columns left and right.
    """
    padded = F.pad(im[0], (pad_w, kernel_w, pad_h, kernel_h))  # a window never reaches further than its own size
    rows = mask_h_idx[:, None, None] + torch.arange(kernel_h, device=im.device)[:, None]
    columns = mask_w_idx[:, None, None] + torch.arange(kernel_w, device=im.device)
    windows = padded[:, rows, columns]  # (C, P, kernel_h, kernel_w)
    col.copy_(windows.permute(0, 2, 3, 1).flatten(0, 2))


def masked_col2im_forward(
    col: Tensor, mask_h_idx: Tensor, mask_w_idx: Tensor, im: Tensor, height: int, width: int, channels: int
) -> None:
    """Put the results at the chosen positions.

    Args:
        col: (channels, P).
        mask_h_idx: (P,) int64, rows of the positions.
        mask_w_idx: (P,) int64, columns of the positions.
        im: (1, channels, height, width), written at the positions.
        height: rows of the output.
        width: columns of the output.
        channels: channels of the output.
    """
    im.view(channels, height, width)[:, mask_h_idx, mask_w_idx] = col
