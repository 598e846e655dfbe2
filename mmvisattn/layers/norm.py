"""Normalisation layers for (B, H, W, C) maps, built from a host's ``norm_cfg``."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from torch import Tensor, nn

from mmvisattn.layers.config_types import build_layer, find_host_type, split_config

CHANNELS_FIRST_NORMS: dict[str, type[nn.Module]] = {
    "BN": nn.BatchNorm2d,
    "BN2d": nn.BatchNorm2d,
    "SyncBN": nn.SyncBatchNorm,
    "GN": nn.GroupNorm,
    "IN": nn.InstanceNorm2d,
}
LAST_AXIS_NORMS = ("LN", "LN2d")


class ChannelsLast(nn.Module):
    """Apply a layer written for (B, C, H, W) to a (B, H, W, C) map.

    A wrapper rather than a subclass, so that ``SyncBatchNorm.convert_sync_batchnorm`` can replace what it holds.

    Args:
        norm: The layer to apply.
    """

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: Tensor) -> Tensor:
        """Normalise ``x`` of shape (B, H, W, C)."""
        y: Tensor = self.norm(x.permute(0, 3, 1, 2))
        return y.permute(0, 2, 3, 1)


def build_norm(norm_cfg: Mapping[str, Any], channels: int) -> nn.Module:
    """Build the norm that a host's config describes, for maps of shape (B, H, W, C).

    ``LN`` and ``LN2d`` both normalise every token over its channels. Types other than those named in this file are
    looked up in mmengine's registry and are expected to work on (B, C, H, W).

    Args:
        norm_cfg: ``type`` and the arguments of the layer. ``requires_grad=False`` keeps its parameters from training.
        channels: Number of channels.

    Raises:
        TypeError: If ``norm_cfg`` is not a dict with a ``type``, or the layer has no such option.
        ValueError: If the type is unknown, ``GN`` comes without ``num_groups``, or the layer refuses a value.

    Example:
        >>> build_norm(dict(type="LN", eps=1e-6), 96)
        LayerNorm((96,), eps=1e-06, elementwise_affine=True, bias=True)
    """
    name, options = split_config("norm_cfg", norm_cfg)
    requires_grad = options.pop("requires_grad", True)
    build = partial(build_layer, "norm_cfg", norm_cfg)
    if name in LAST_AXIS_NORMS:
        norm = build(nn.LayerNorm, channels, **options)
    elif name == "GN":
        if "num_groups" not in options:
            raise ValueError(f"norm_cfg of type 'GN' must give num_groups, got {dict(norm_cfg)!r}")
        norm = ChannelsLast(build(nn.GroupNorm, num_channels=channels, **options))
    else:
        known = {**CHANNELS_FIRST_NORMS, **dict.fromkeys(LAST_AXIS_NORMS)}
        layer = CHANNELS_FIRST_NORMS.get(name) or find_host_type("norm_cfg", name, known)
        norm = ChannelsLast(build(layer, channels, **options))
    return norm.requires_grad_(requires_grad)
