"""Keep the first part of a backbone as it is while the rest trains."""

from collections.abc import Iterable

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


def freeze(parts: Iterable[nn.Module | nn.Parameter]) -> None:
    """Stop the gradients of modules and parameters, and put the modules in eval mode.

    Eval mode also turns off drop path and stops the running statistics of batch norms.
    """
    for part in parts:
        part.requires_grad_(False)
        if isinstance(part, nn.Module):
            part.eval()


def freeze_batch_statistics(module: nn.Module) -> None:
    """Put all batch norms in a module in eval mode; their weights still train."""
    for part in module.modules():
        if isinstance(part, _BatchNorm):
            part.eval()
