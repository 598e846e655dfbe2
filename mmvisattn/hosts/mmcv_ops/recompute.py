"""Gradients of an op by running its differentiable form again.

mmcv's autograd functions call the extension without recording; its backward calls ask for the gradients from the saved
inputs alone.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def input_gradients(
    function: Callable[..., Tensor], inputs: Sequence[Tensor], grad_output: Tensor
) -> tuple[Tensor, ...]:
    """Pull the gradient of an output back to the inputs.

    Args:
        function: differentiable, from tensors to one tensor of the shape of ``grad_output``.
        inputs: its arguments.
        grad_output: the gradient with respect to its result.

    Returns:
        The gradient with respect to each input, of that input's shape.

    Example:
        >>> input_gradients(torch.mul, (torch.tensor(2.0), torch.tensor(3.0)), torch.tensor(1.0))
        (tensor(3.), tensor(2.))
    """
    with torch.enable_grad():
        leaves = [tensor.detach().requires_grad_() for tensor in inputs]
        output = function(*leaves)
    if not output.requires_grad:  # no input reached the output, as when there is no region to pool
        return tuple(torch.zeros_like(tensor) for tensor in inputs)
    return torch.autograd.grad(output, leaves, grad_output, materialize_grads=True)
