"""Read what a config holds: choices by name, and layer dicts such as ``dict(type='GELU')``."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn


def check_choice(argument: str, value: object, allowed: Sequence[str]) -> None:
    """Check that an option has one of its allowed values.

    Raises:
        ValueError: If it does not.
    """
    if value not in allowed:
        raise ValueError(f"{argument} must be one of {list(allowed)}, got {value!r}")


def split_config(argument: str, config: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Split a config into its type and its other entries.

    Args:
        argument: Name of the argument that holds the config, for the error message.
        config: Mapping with a string under ``type``.

    Raises:
        TypeError: If ``config`` is not such a mapping.

    Example:
        >>> split_config("norm_cfg", dict(type="LN", eps=1e-6))
        ('LN', {'eps': 1e-06})
    """
    if not isinstance(config, Mapping) or not isinstance(config.get("type"), str):
        raise TypeError(f"{argument} must be a dict with a string under 'type', got {config!r}")
    options = dict(config)
    return options.pop("type"), options


def find_host_type(argument: str, name: str, known: Mapping[str, Any]) -> type[nn.Module]:
    """Look up a layer type that this package does not define in the registry of mmengine.

    Args:
        argument: Name of the argument that holds the config, for the error message.
        name: The type to look for.
        known: The types that need no registry, for the error message.

    Raises:
        ValueError: If mmengine is not installed or does not know the type.
    """
    try:
        found = importlib.import_module("mmengine.registry").MODELS.get(name)
    except ImportError:
        found = None
    if found is None:
        raise ValueError(
            f"{argument} has type {name!r}, must be one of {sorted(known)} or a type in mmengine's registry"
        )
    layer: type[nn.Module] = found
    return layer
