"""The local parts of mmcv's synchronized batch normalization (``MMSyncBN``); mmcv itself sums over the processes.

Semantics after ``csrc/common/cuda/sync_bn_cuda_kernel.cuh`` of mmcv (Apache-2.0). Statistics are float32.
"""

from torch import Tensor


def sync_bn_forward_mean(input: Tensor, mean: Tensor) -> None:
    """Write the mean over samples and positions.

    Args:
        input: (N, C, S).
        mean: (C,), written.
    """
    mean.copy_(input.float().mean(dim=(0, 2)))


def sync_bn_forward_var(input: Tensor, mean: Tensor, var: Tensor) -> None:
    """Write the mean squared distance from a given mean.

    Args:
        input: (N, C, S).
        mean: (C,), of all processes.
        var: (C,), written.
    """
    var.copy_((input.float() - mean[:, None]).square().mean(dim=(0, 2)))


def sync_bn_forward_output(
    input: Tensor,
    mean: Tensor,
    var: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    norm: Tensor,
    std: Tensor,
    output: Tensor,
    eps: float,
    momentum: float | Tensor,
    group_size: int,
) -> None:
    """Normalize, and update the running statistics.

    Args:
        input: (N, C, S).
        mean: (C,), of all processes.
        var: (C,), of all processes.
        weight: (C,), or None.
        bias: (C,), or None.
        running_mean: (C,), updated, or None.
        running_var: (C,), updated with the unbiased variance, or None.
        norm: (N, C, S), written: the input less mean, over ``std``.
        std: (C,), written.
        output: (N, C, S), written.
        eps: added to the variance.
        momentum: share of the new statistics in the running ones.
        group_size: processes.
    """
    std.copy_((var + eps).sqrt())
    norm.copy_((input.float() - mean[:, None]) / std[:, None])
    output.copy_(norm if weight is None else norm * weight[:, None] + bias[:, None])
    if running_mean is not None:
        count = input.shape[0] * input.shape[2] * group_size
        unbiased = var * count / (count - 1) if count > 1 else var
        running_mean.copy_(momentum * mean + (1 - momentum) * running_mean)
        running_var.copy_(momentum * unbiased + (1 - momentum) * running_var)


def sync_bn_backward_param(grad_output: Tensor, norm: Tensor, grad_weight: Tensor, grad_bias: Tensor) -> None:
    """Write the gradients with respect to weight and bias, of this process.

    Args:
        grad_output: (N, C, S).
        norm: (N, C, S), from the forward call.
        grad_weight: (C,), written.
        grad_bias: (C,), written.
    """
    grad_weight.copy_((grad_output.float() * norm).sum(dim=(0, 2)))
    grad_bias.copy_(grad_output.float().sum(dim=(0, 2)))


def sync_bn_backward_data(
    grad_output: Tensor,
    weight: Tensor,
    grad_weight: Tensor,
    grad_bias: Tensor,
    norm: Tensor,
    std: Tensor,
    grad_input: Tensor,
) -> None:
    """Write the gradient with respect to the input.

    Args:
        grad_output: (N, C, S).
        weight: (C,).
        grad_weight: (C,), mean over the processes.
        grad_bias: (C,), mean over the processes.
        norm: (N, C, S), from the forward call.
        std: (C,), from the forward call.
        grad_input: (N, C, S), written.
    """
    count = grad_output.shape[0] * grad_output.shape[2]
    common = (grad_weight[:, None] * norm + grad_bias[:, None]) / count
    grad_input.copy_((weight / std)[:, None] * (grad_output.float() - common))
