"""Regions of interest as the RoI ops receive them."""

from typing import NamedTuple

import torch
from torch import Tensor


class Regions(NamedTuple):
    """Axis-aligned regions in pixels of the feature map, the centre of whose first pixel is at 0.

    Attributes:
        batch_index: (K,) int64, the image of each region.
        left, top: (K,).
        width, height: (K,).
    """

    batch_index: Tensor
    left: Tensor
    top: Tensor
    width: Tensor
    height: Tensor


def scaled_regions(rois: Tensor, spatial_scale: float, aligned: bool) -> Regions:
    """Bring RoIs to the resolution of the feature map.

    Args:
        rois: (K, 5), rows (image, x1, y1, x2, y2), in pixels of the image.
        spatial_scale: feature map pixels per image pixel.
        aligned: move by half a pixel, so that coordinates name pixel areas; otherwise keep each side at least 1, as the
            first RoIAlign did.

    Returns:
        The regions; a side is negative where the RoI's is.
    """
    scaled = rois[:, 1:] * spatial_scale - (0.5 if aligned else 0.0)
    start = scaled[:, :2]
    extent = scaled[:, 2:] - start
    if not aligned:
        extent = extent.clamp(min=1)
    return Regions(rois[:, 0].long(), start[:, 0], start[:, 1], extent[:, 0], extent[:, 1])


def check_regions(op: str, feature: Tensor, rois: Tensor, columns: int) -> None:
    """Refuse RoIs that do not fit the feature map.

    The image index is looked at on the CPU only; on a GPU that would make the host wait.

    Args:
        op: name of the op, for the message.
        feature: meant to be (B, C, H, W).
        rois: meant to be (K, columns), with the image in the first column.
        columns: 5, or 6 for rotated RoIs.

    Raises:
        ValueError: a wrong shape, or an image outside the batch.
    """
    if feature.dim() != 4:
        raise ValueError(f"{op}: input must have shape (batch, channels, height, width), got {tuple(feature.shape)}.")
    if rois.dim() != 2 or rois.shape[1] != columns:
        raise ValueError(f"{op}: rois must have shape (count, {columns}), got {tuple(rois.shape)}.")
    if rois.device.type == "cpu" and len(rois):
        first, last = torch.aminmax(rois[:, 0])
        if first < 0 or last >= len(feature):
            raise ValueError(
                f"{op}: the first column of rois must name an image from 0 to {len(feature) - 1}, "
                f"got {first.item():g} to {last.item():g}."
            )
