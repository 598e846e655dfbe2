"""PSAMask (PSANet, Zhao et al. 2018): spreads attention that is stored around each position over the whole map.

Semantics after ``csrc/pytorch/cpu/psamask.cpp`` of mmcv (Apache-2.0).
"""

import torch
from torch import Tensor

_COLLECT, _DISTRIBUTE = 0, 1


def psamask_forward(
    input: Tensor,
    output: Tensor,
    psa_type: int,
    num_: int,
    h_feature: int,
    w_feature: int,
    h_mask: int,
    w_mask: int,
    half_h_mask: int,
    half_w_mask: int,
) -> None:
    """Spread the mask of each position over the positions that it covers; zero elsewhere.

    Args:
        input: (num_, h_mask * w_mask, h_feature, w_feature), the mask around each position.
        output: (num_, h_feature * w_feature, h_feature, w_feature), written. Collect: the channel is the covered
            position and the pixel the mask's owner; distribute: the other way round.
        psa_type: 0 collect, 1 distribute.
        num_: images.
        h_feature: rows of the map.
        w_feature: columns of the map.
        h_mask: rows of a mask.
        w_mask: columns of a mask.
        half_h_mask: row of the mask that lies on its owner.
        half_w_mask: column of the mask that lies on its owner.

    Raises:
        ValueError: an unknown ``psa_type``.
    """
    _check_type(psa_type)
    row, row_inside = _mask_index(h_feature, h_mask, half_h_mask, input.device)  # (covered, owner)
    column, column_inside = _mask_index(w_feature, w_mask, half_w_mask, input.device)
    index = row[:, None, :, None] * w_mask + column[None, :, None, :]  # (covered h, covered w, owner h, owner w)
    inside = row_inside[:, None, :, None] & column_inside[None, :, None, :]
    spread = input.gather(1, index.flatten(0, 1).expand(num_, -1, -1, -1)) * inside.flatten(0, 1)
    output.copy_(_swap_if_distribute(spread, psa_type))


def psamask_backward(
    grad_output: Tensor,
    grad_input: Tensor,
    psa_type: int,
    num_: int,
    h_feature: int,
    w_feature: int,
    h_mask: int,
    w_mask: int,
    half_h_mask: int,
    half_w_mask: int,
) -> None:
    """Write the gradient with respect to the masks; arguments as in the forward call.

    Args:
        grad_output: (num_, h_feature * w_feature, h_feature, w_feature).
        grad_input: (num_, h_mask * w_mask, h_feature, w_feature), written.
        psa_type: 0 collect, 1 distribute.
        num_: images.
        h_feature: rows of the map.
        w_feature: columns of the map.
        h_mask: rows of a mask.
        w_mask: columns of a mask.
        half_h_mask: row of the mask that lies on its owner.
        half_w_mask: column of the mask that lies on its owner.
    """
    _check_type(psa_type)
    row, row_inside = _covered_index(h_feature, h_mask, half_h_mask, grad_output.device)  # (mask, owner)
    column, column_inside = _covered_index(w_feature, w_mask, half_w_mask, grad_output.device)
    index = row[:, None, :, None] * w_feature + column[None, :, None, :]  # (mask h, mask w, owner h, owner w)
    inside = row_inside[:, None, :, None] & column_inside[None, :, None, :]
    collected = _swap_if_distribute(grad_output, psa_type)
    grad_input.copy_(collected.gather(1, index.flatten(0, 1).expand(num_, -1, -1, -1)) * inside.flatten(0, 1))


def _check_type(psa_type: int) -> None:
    if psa_type not in (_COLLECT, _DISTRIBUTE):
        raise ValueError(f"psa_type must be 0 (collect) or 1 (distribute), got {psa_type!r}.")


def _swap_if_distribute(spread: Tensor, psa_type: int) -> Tensor:
    """Exchange channel and pixel, which both run over all positions, in distribute mode."""
    if psa_type == _COLLECT:
        return spread
    return spread.flatten(2).transpose(1, 2).reshape(spread.shape)


def _mask_index(size: int, mask_size: int, half: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Along one axis, (size, size) by covered and owner: the place in the owner's mask, and whether it has one."""
    position = torch.arange(size, device=device)
    index = position[:, None] - position + half
    return index.clamp(0, mask_size - 1), (index >= 0) & (index < mask_size)


def _covered_index(size: int, mask_size: int, half: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Along one axis, (mask_size, size) by place in the mask and owner: what is covered, and whether it exists."""
    index = torch.arange(mask_size, device=device)[:, None] - half + torch.arange(size, device=device)
    return index.clamp(0, size - 1), (index >= 0) & (index < size)
