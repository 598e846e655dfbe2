"""Multi-scale deformable attention (Zhu et al. 2021), one feature level at a time.

mmcv calls the extension on GPUs only. Values between pixels are bilinear and zero outside the level, the rule of
``grid_sample`` with pixel areas (``align_corners=False``), so that is what runs. Levels are summed one by one, forward
and backward, which bounds memory to the samples of one level. On CUDA the gradients sum in no fixed order.
"""

from collections.abc import Iterator

import torch.nn.functional as F
from torch import Tensor

from mmvisattn.hosts.mmcv_ops.float_width import at_least_float32
from mmvisattn.hosts.mmcv_ops.recompute import input_gradients


def ms_deform_attn_forward(
    value: Tensor,
    value_spatial_shapes: Tensor,
    value_level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    im2col_step: int,
) -> Tensor:
    """Average sampled values by the attention weights.

    Args:
        value: (B, S, heads, D), all levels one after another, each row by row.
        value_spatial_shapes: (levels, 2) int64, (height, width) of each level.
        value_level_start_index: (levels,) int64, where each level starts in ``value``.
        sampling_locations: (B, Q, heads, levels, points, 2), (x, y) in parts of the level, 0 to 1.
        attention_weights: (B, Q, heads, levels, points).
        im2col_step: samples per pass of the compiled op; not needed here.

    Returns:
        (B, Q, heads * D).

    Raises:
        ValueError: a level that reaches beyond ``value``.
    """
    tensors = at_least_float32(value, sampling_locations, attention_weights)
    total = tensors[0].new_zeros(len(value), sampling_locations.shape[1], value.shape[2] * value.shape[3])
    for _, size, level in _levels(value_spatial_shapes, value_level_start_index, *tensors):
        total += _attend(*level, size)
    return total.to(value)


def ms_deform_attn_backward(
    value: Tensor,
    value_spatial_shapes: Tensor,
    value_level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    grad_output: Tensor,
    grad_value: Tensor,
    grad_sampling_loc: Tensor,
    grad_attn_weight: Tensor,
    im2col_step: int,
) -> None:
    """Write the gradients with respect to values, locations and weights; arguments as in the forward call.

    Args:
        value: (B, S, heads, D).
        value_spatial_shapes: (levels, 2) int64.
        value_level_start_index: (levels,) int64.
        sampling_locations: (B, Q, heads, levels, points, 2).
        attention_weights: (B, Q, heads, levels, points).
        grad_output: (B, Q, heads * D).
        grad_value: shape of ``value``, written.
        grad_sampling_loc: shape of ``sampling_locations``, written.
        grad_attn_weight: shape of ``attention_weights``, written.
        im2col_step: not needed here.
    """
    grad, *tensors = at_least_float32(grad_output, value, sampling_locations, attention_weights)
    for index, size, level in _levels(value_spatial_shapes, value_level_start_index, *tensors):
        gradients = input_gradients(lambda *parts, size=size: _attend(*parts, size), level, grad)
        start, stop, number = index
        grad_value[:, start:stop] = gradients[0].to(grad_value)
        grad_sampling_loc[:, :, :, number] = gradients[1].to(grad_sampling_loc)
        grad_attn_weight[:, :, :, number] = gradients[2].to(grad_attn_weight)


def _levels(
    shapes: Tensor, starts: Tensor, value: Tensor, locations: Tensor, weights: Tensor
) -> Iterator[tuple[tuple[int, int, int], tuple[int, int], tuple[Tensor, Tensor, Tensor]]]:
    """Yield per level (start, stop, number), (height, width), and its part of values, locations and weights."""
    for number, ((height, width), start) in enumerate(zip(shapes.tolist(), starts.tolist(), strict=True)):
        stop = start + height * width
        if stop > value.shape[1]:
            raise ValueError(
                f"ms_deform_attn: level {number} of size {height} x {width} ends at {stop}, but value has only "
                f"{value.shape[1]} positions."
            )
        parts = (value[:, start:stop], locations[:, :, :, number], weights[:, :, :, number])
        yield (start, stop, number), (height, width), parts


def _attend(value: Tensor, locations: Tensor, weights: Tensor, size: tuple[int, int]) -> Tensor:
    """Attend to one level.

    Args:
        value: (B, H * W, heads, D).
        locations: (B, Q, heads, P, 2), (x, y) in parts of the level.
        weights: (B, Q, heads, P).
        size: (H, W).

    Returns:
        (B, Q, heads * D).
    """
    batch, _, heads, width = value.shape
    maps = value.permute(0, 2, 3, 1).reshape(batch * heads, width, *size)
    grid = (2 * locations - 1).transpose(1, 2).flatten(0, 1)  # (B * heads, Q, P, 2)
    sampled = F.grid_sample(maps, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    weighted = sampled * weights.transpose(1, 2).flatten(0, 1)[:, None]  # (B * heads, D, Q, P)
    return weighted.sum(dim=-1).view(batch, heads * width, -1).transpose(1, 2)
