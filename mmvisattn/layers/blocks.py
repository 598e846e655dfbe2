"""Residual blocks: how a token mixer, an MLP and their norms are put together."""

from torch import Tensor, nn

from mmvisattn.layers.drop_path import DropPath


class PreNormBlock(nn.Module):
    """Two residual branches, each of which normalises first: a token mixer, then an MLP.

    Args:
        norm1: Norm before the token mixer.
        token_mixer: Module that maps (B, H, W, C) to (B, H, W, C).
        norm2: Norm before the MLP.
        mlp: Module that maps (..., C) to (..., C).
        drop_path_rate: Probability that a branch is left out for an image in training.
    """

    def __init__(
        self, norm1: nn.Module, token_mixer: nn.Module, norm2: nn.Module, mlp: nn.Module, drop_path_rate: float
    ) -> None:
        super().__init__()
        self.norm1 = norm1
        self.token_mixer = token_mixer
        self.norm2 = norm2
        self.mlp = mlp
        self.drop_path = DropPath(drop_path_rate)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, H, W, C) to (B, H, W, C)."""
        x = x + self.drop_path(self.token_mixer(self.norm1(x)))
        x = x + self.drop_path(self.mlp(self.norm2(x)))
        return x
