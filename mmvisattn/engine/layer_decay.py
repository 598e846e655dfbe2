"""Layer-wise learning-rate decay and weight decay for any backbone of this package, under both hosts.

The hosts' own constructors know two or three backbones by class name and compare short names such as ``pos_embed``
with full ones, so that they decay what they mean to spare. This one asks the backbone: ``parameter_depth`` gives a
parameter's layer, ``no_weight_decay`` the names to spare.
"""

from collections.abc import Iterator
from typing import Any

from mmengine.logging import print_log
from mmengine.optim import DefaultOptimWrapperConstructor
from torch import nn

MULTIPLIERS = ("lr_mult", "decay_mult")  # what a custom key may change
DECAY_TYPES = ("layer_wise", "stage_wise")
OPTIONS = ("decay_rate", "layer_decay_rate", "decay_type", "num_layers", "custom_keys")


class LayerDecayOptimWrapperConstructor(DefaultOptimWrapperConstructor):
    """Build an optimizer whose parameter groups follow the backbone's layers.

    A backbone parameter of layer ``id`` gets ``lr * decay_rate ** (num_layers + 1 - id)``; everything outside the
    backbone gets ``lr``. Biases, norms and other one-axis parameters, and whatever the backbone names in
    ``no_weight_decay``, get no weight decay. Frozen parameters are left out; every other parameter is in exactly one
    group. The groups are logged as a table.

    ``paramwise_cfg`` takes:

    - ``decay_rate`` (or, as in mmpretrain, ``layer_decay_rate``): factor per layer, in (0, 1]; 1 when not given.
    - ``decay_type``: ``'layer_wise'`` (each block is a layer) or ``'stage_wise'`` (each stage is one; downsampling
      layers count as layer 0), the two schemes of ConvNeXt (https://github.com/facebookresearch/ConvNeXt, MIT).
    - ``num_layers``: under ``'stage_wise'`` it only sets the scale; under ``'layer_wise'`` it must be the backbone's
      own number.
    - ``custom_keys``: as in mmengine, ``{part of a name: dict(lr_mult=, decay_mult=)}``; the longest match wins.
      ``lr_mult`` multiplies the layer's rate; ``decay_mult`` replaces the rules for weight decay.

    Raises:
        ValueError: If an option is unknown or out of range, or the model has no backbone that tells its layers.
    """

    def __init__(self, optim_wrapper_cfg: dict[str, Any], paramwise_cfg: dict[str, Any] | None = None) -> None:
        super().__init__(optim_wrapper_cfg, paramwise_cfg)
        unknown = sorted(set(self.paramwise_cfg) - set(OPTIONS))
        if unknown:
            raise ValueError(f"paramwise_cfg has the unknown option {unknown[0]!r}; allowed are {', '.join(OPTIONS)}")
        if {"decay_rate", "layer_decay_rate"} <= set(self.paramwise_cfg):
            raise ValueError("decay_rate and layer_decay_rate are two names of one option, give only one of them")
        self.decay_rate = self.paramwise_cfg.get("decay_rate", self.paramwise_cfg.get("layer_decay_rate", 1.0))
        if not isinstance(self.decay_rate, (int, float)) or not 0 < self.decay_rate <= 1:
            raise ValueError(f"decay_rate must be in (0, 1], got {self.decay_rate!r}")
        self.decay_type = self.paramwise_cfg.get("decay_type", "layer_wise")
        if self.decay_type not in DECAY_TYPES:
            raise ValueError(f"decay_type must be one of {DECAY_TYPES}, got {self.decay_type!r}")
        for key, setting in self.paramwise_cfg.get("custom_keys", {}).items():
            if not all(name in MULTIPLIERS and isinstance(value, (int, float)) for name, value in setting.items()):
                raise ValueError(f"custom_keys[{key!r}] must give numbers for {', '.join(MULTIPLIERS)}, got {setting}")
        # mmengine takes the plain path, one group for all, when paramwise_cfg is empty
        self.paramwise_cfg.setdefault("decay_rate", self.decay_rate)

    def add_params(self, params: list[dict[str, Any]], module: nn.Module, **unused: Any) -> None:
        """Append the model's parameter groups to ``params``; called by mmengine with the whole model."""
        groups: dict[tuple[float, float], dict[str, Any]] = {}
        for name, parameter, scale, decay in self.settings(module):
            group = groups.setdefault(
                (scale, decay),
                {
                    "params": [],
                    "param_names": [],
                    "lr": self.base_lr * scale,
                    "lr_scale": scale,
                    "weight_decay": decay,
                },
            )
            group["params"].append(parameter)
            group["param_names"].append(name)
        params.extend(groups[key] for key in sorted(groups))
        print_log("parameter groups\n" + table(params), logger="current")

    def settings(self, model: nn.Module) -> Iterator[tuple[str, nn.Parameter, float, float]]:
        """Yield name, parameter, learning-rate scale and weight decay of every trainable parameter."""
        backbone = getattr(model, "backbone", model)
        if not hasattr(backbone, "parameter_depth"):
            raise ValueError(
                f"layer decay needs a backbone with parameter_depth, got {type(backbone).__name__}; "
                "use a backbone of mmvisattn or mmengine's DefaultOptimWrapperConstructor"
            )
        prefix = "" if backbone is model else "backbone."
        num_layers = self.num_layers(backbone)
        spared = {prefix + name for name in backbone.no_weight_decay()}
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue
            scale = 1.0
            if name.startswith(prefix):
                depth = backbone.parameter_depth(name[len(prefix) :], decay_type=self.decay_type)
                last = depth > backbone.num_decay_layers  # follows every layer, as heads do
                scale = 1.0 if last else self.decay_rate ** (num_layers + 1 - depth)
            decay = 0.0 if name in spared or parameter.ndim <= 1 else self.base_wd or 0.0
            custom = self.custom_setting(name)
            if custom is not None:
                scale *= custom.get("lr_mult", 1.0)
                decay = (self.base_wd or 0.0) * custom["decay_mult"] if "decay_mult" in custom else decay
            yield name, parameter, scale, decay

    def num_layers(self, backbone: nn.Module) -> int:
        """Number of layers that sets the scale of the first one."""
        own: int = backbone.num_decay_layers
        given = self.paramwise_cfg.get("num_layers")
        if given is None or given == own:
            return own
        if self.decay_type == "stage_wise":
            return int(given)
        raise ValueError(
            f"num_layers must be {own} for layer_wise decay of this {type(backbone).__name__}, got {given}"
        )

    def custom_setting(self, name: str) -> dict[str, float] | None:
        """The setting of the longest custom key that is part of a name."""
        custom_keys = self.paramwise_cfg.get("custom_keys", {})
        matches = [key for key in custom_keys if key in name]
        return custom_keys[max(matches, key=lambda key: (len(key), key))] if matches else None


def table(groups: list[dict[str, Any]]) -> str:
    """One line per group: learning-rate scale, weight decay, number of tensors and of values.

    >>> import torch
    >>> print(table([dict(params=[torch.zeros(3, 2)], lr_scale=0.7, weight_decay=0.05)]))
    lr scale   weight decay  tensors       values
    0.70000           0.05        1            6
    """
    lines = [f"{'lr scale':<10} {'weight decay':>12} {'tensors':>8} {'values':>12}"]
    for group in groups:
        values = sum(parameter.numel() for parameter in group["params"])
        lines.append(
            f"{group['lr_scale']:<10.5f} {group['weight_decay']:>12g} {len(group['params']):>8} {values:>12,}".rstrip()
        )
    return "\n".join(lines)
