"""Global response normalisation, which makes the channels of a map compete."""

import torch
from torch import Tensor, nn


class GlobalResponseNorm(nn.Module):
    """Scale each channel by its share of the response of the whole map (Woo et al., "ConvNeXt V2", 2023, section 3).

    The norms are taken in float32 or wider.

    Args:
        dim: Channels.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.empty(dim))
        self.beta = nn.Parameter(torch.empty(dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set both parameters to zero, with which the layer passes its input on."""
        nn.init.zeros_(self.gamma)
        nn.init.zeros_(self.beta)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, H, W, C) to (B, H, W, C)."""
        wide = torch.promote_types(x.dtype, torch.float32)
        response = torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True, dtype=wide)  # (B, 1, 1, C)
        share = response / (response.mean(dim=-1, keepdim=True) + 1e-6)
        return torch.addcmul(self.beta.to(x.dtype), x, (1 + self.gamma * share).to(x.dtype))
