"""The two-layer perceptron of transformer blocks, and its activation."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from mmvisattn.layers.config_types import build_layer, find_host_type, split_config

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "GELU": nn.GELU,
    "ReLU": nn.ReLU,
    "SiLU": nn.SiLU,
    "Swish": nn.SiLU,
    "LeakyReLU": nn.LeakyReLU,
}


def build_activation(act_cfg: Mapping[str, Any]) -> nn.Module:
    """Build the activation that a host's config describes.

    Args:
        act_cfg: ``type`` and the arguments of the layer. Types other than those named in this file are looked up in
            mmengine's registry.

    Raises:
        TypeError: If ``act_cfg`` is not a dict with a ``type``, or the layer has no such option.
        ValueError: If the type is unknown.

    Example:
        >>> build_activation(dict(type="GELU"))
        GELU(approximate='none')
    """
    name, options = split_config("act_cfg", act_cfg)
    layer = ACTIVATIONS.get(name) or find_host_type("act_cfg", name, ACTIVATIONS)
    return build_layer("act_cfg", act_cfg, layer, **options)


class Mlp(nn.Module):
    """Two linear layers with an activation between them, applied to every token alone.

    Args:
        dim: Channels in and out.
        hidden_dim: Channels between the two layers.
        act_cfg: Activation, see :func:`build_activation`.
    """

    def __init__(self, dim: int, hidden_dim: int, act_cfg: Mapping[str, Any]) -> None:
        super().__init__()
        self.fc1 = nn.Linear(dim, hidden_dim)
        self.act = build_activation(act_cfg)
        self.fc2 = nn.Linear(hidden_dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., C) to (..., C)."""
        y: Tensor = self.fc2(self.act(self.fc1(x)))
        return y
