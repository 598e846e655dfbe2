"""Mixed precision on the CPU: bfloat16 autocast, which needs no loss scaling."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from mmengine.optim import OptimWrapper
from torch import nn


class CpuAmpOptimWrapper(OptimWrapper):
    """MMEngine's ``OptimWrapper`` with the forward pass under ``torch.autocast('cpu', torch.bfloat16)``.

    MMEngine's own ``AmpOptimWrapper`` refuses to run without a GPU. bfloat16 has the exponent range of float32, so
    gradients neither overflow nor vanish and no loss scaling is done; parameters, gradients and optimizer states stay
    in float32. ``--amp`` of ``tools/train.py`` chooses this wrapper when there is no GPU.

    Args:
        **kwargs: As for ``mmengine.optim.OptimWrapper`` (``optimizer``, ``clip_grad``, ``accumulative_counts``).
    """

    @contextmanager
    def optim_context(self, model: nn.Module) -> Iterator[None]:
        """Run a forward pass in bfloat16, and without gradient synchronisation while gradients accumulate.

        Args:
            model: The model being trained.
        """
        with super().optim_context(model), torch.autocast("cpu", torch.bfloat16):
            yield
