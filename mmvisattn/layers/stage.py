"""One stage of a hierarchical backbone."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Stage(nn.Module):
    """A downsampling layer followed by blocks of one resolution.

    Args:
        downsample: Layer at the start of the stage; ``nn.Identity()`` in the first stage.
        blocks: The blocks, each of which maps (B, H, W, C) to (B, H, W, C).
        with_cp: Recompute each block in the backward pass instead of keeping its activations. The random state is
            kept too, so the gradients are those of the plain pass, with drop path as well.
    """

    def __init__(self, downsample: nn.Module, blocks: Iterable[nn.Module], with_cp: bool = False) -> None:
        super().__init__()
        self.downsample = downsample
        self.blocks = nn.ModuleList(blocks)
        self.with_cp = with_cp

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, H, W, C) to the (B, H', W', C') of this stage."""
        x = self.downsample(x)
        recompute = self.with_cp and torch.is_grad_enabled()
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if recompute else block(x)
        return x
