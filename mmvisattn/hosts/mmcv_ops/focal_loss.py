"""Sigmoid and softmax focal loss (Lin et al. 2017), per element.

Semantics after ``csrc/common/cuda/{sigmoid,softmax}_focal_loss_cuda_kernel.cuh`` of mmcv (Apache-2.0): logarithms are
taken of no less than the smallest normal float32, so a loss never exceeds about 87 times its factor.
"""

import torch
from torch import Tensor

from mmvisattn.hosts.mmcv_ops.float_width import at_least_float32

_SMALLEST = torch.finfo(torch.float32).tiny


def sigmoid_focal_loss_forward(
    input: Tensor, target: Tensor, weight: Tensor, output: Tensor, gamma: float, alpha: float
) -> None:
    """Write the loss of each logit.

    Args:
        input: (N, C), logits.
        target: (N,) int64, the class; C, or anything but 0 to C - 1, is background.
        weight: (C,), the factor of a row by its class, or empty.
        output: (N, C), written.
        gamma: exponent of the focusing factor.
        alpha: factor of the target class; the others have 1 - alpha.

    Raises:
        ValueError: a target above C, or a background target where weights are given.
    """
    logits, weights = at_least_float32(input, weight)
    _check_targets("sigmoid_focal_loss", target, logits.shape[1], background=weight.numel() == 0)
    p = logits.sigmoid()
    positive = -alpha * (1 - p) ** gamma * p.clamp(min=_SMALLEST).log()
    negative = -(1 - alpha) * p**gamma * (1 - p).clamp(min=_SMALLEST).log()
    output.copy_(torch.where(_is_target(target, logits), positive, negative) * _row_factor(weights, target)[:, None])


def sigmoid_focal_loss_backward(
    input: Tensor, target: Tensor, weight: Tensor, grad_input: Tensor, gamma: float, alpha: float
) -> None:
    """Write the derivative of each loss with respect to its logit; arguments as in the forward call.

    Args:
        input: (N, C).
        target: (N,) int64.
        weight: (C,), or empty.
        grad_input: (N, C), written.
        gamma: exponent of the focusing factor.
        alpha: factor of the target class.
    """
    logits, weights = at_least_float32(input, weight)
    p = logits.sigmoid()
    q = 1 - p
    positive = -alpha * q**gamma * (q - gamma * p * p.clamp(min=_SMALLEST).log())
    negative = -(1 - alpha) * p**gamma * (gamma * q * q.clamp(min=_SMALLEST).log() - p)
    grad_input.copy_(
        torch.where(_is_target(target, logits), positive, negative) * _row_factor(weights, target)[:, None]
    )


def softmax_focal_loss_forward(
    softmax: Tensor, target: Tensor, weight: Tensor, output: Tensor, gamma: float, alpha: float
) -> None:
    """Write the loss of each row.

    Args:
        softmax: (N, C), probabilities.
        target: (N,) int64, the class; a negative one makes the loss zero.
        weight: (C,), the factor of a row by its class, or empty.
        output: (N,), written.
        gamma: exponent of the focusing factor.
        alpha: factor of every loss.

    Raises:
        ValueError: a target of C or above.
    """
    probabilities, weights = at_least_float32(softmax, weight)
    _check_targets("softmax_focal_loss", target, probabilities.shape[1], background=False)
    p = _of_target(probabilities, target)
    loss = -alpha * (1 - p) ** gamma * p.clamp(min=_SMALLEST).log() * _row_factor(weights, target)
    output.copy_(torch.where(target >= 0, loss, 0.0))


def softmax_focal_loss_backward(
    softmax: Tensor, target: Tensor, weight: Tensor, buff: Tensor, grad_input: Tensor, gamma: float, alpha: float
) -> None:
    """Write the derivative of each row's loss with respect to its logits; arguments as in the forward call.

    Args:
        softmax: (N, C).
        target: (N,) int64.
        weight: (C,), or empty.
        buff: (N,), written: the derivative with respect to the logarithm of the target's probability.
        grad_input: (N, C), written.
        gamma: exponent of the focusing factor.
        alpha: factor of every loss.
    """
    probabilities, weights = at_least_float32(softmax, weight)
    p = _of_target(probabilities, target)
    q = (1 - p).clamp(min=_SMALLEST)  # keeps a power below one finite at certainty
    by_log = alpha * (gamma * q ** (gamma - 1) * p * p.clamp(min=_SMALLEST).log() - q**gamma)
    by_log = torch.where(target >= 0, by_log * _row_factor(weights, target), 0.0)
    buff.copy_(by_log)
    grad_input.copy_(by_log[:, None] * (_is_target(target, probabilities).to(by_log) - probabilities))


def _check_targets(op: str, target: Tensor, classes: int, background: bool) -> None:
    allowed = classes if background else classes - 1
    largest = int(target.max()) if target.numel() else 0
    if largest > allowed:
        reason = f"for {classes} classes" if background or largest > classes else "where background has no weight"
        raise ValueError(f"{op}: target must not exceed {allowed} {reason}, got {largest}.")


def _is_target(target: Tensor, scores: Tensor) -> Tensor:
    """(N, C) bool."""
    return target[:, None] == torch.arange(scores.shape[1], device=target.device)


def _of_target(probabilities: Tensor, target: Tensor) -> Tensor:
    """(N,); of class 0 where the target is negative, for the caller to mask."""
    return probabilities.gather(1, target.clamp(min=0)[:, None])[:, 0]


def _row_factor(weights: Tensor, target: Tensor) -> Tensor:
    """(N,), ones without weights."""
    return weights[target.clamp(min=0)] if weights.numel() else weights.new_ones(len(target))
