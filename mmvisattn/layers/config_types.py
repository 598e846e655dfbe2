"""Read what a config holds: choices by name, options by type, and layer dicts such as ``dict(type='GELU')``."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from torch import nn


def check_choice(argument: str, value: object, allowed: Sequence[str]) -> None:
    """Check that an option has one of its allowed values.

    Raises:
        ValueError: If it does not.
    """
    if value not in allowed:
        raise ValueError(f"{argument} must be one of {list(allowed)}, got {value!r}")


# What messages call a value of a type, and several of them.
_WORDS: dict[Any, tuple[str, str]] = {
    bool: ("True or False", "booleans"),
    int: ("an integer", "integers"),
    float: ("a number", "numbers"),
    str: ("a string", "strings"),
    Mapping: ("a dict", "dicts"),
    NoneType: ("None", "None"),
}


def check_types(options: Mapping[str, Any], function: Callable[..., Any]) -> None:
    """Check options against the types that a function, or a dataclass, declares for them.

    A config file knows no types: ``with_cp='False'`` would mean True, and ``drop_path_rate='0.1'`` would end in an
    error far from its cause. A list may stand for a tuple and an integer for a float, but no number for a boolean.
    Declared types that are neither these nor strings, dicts or choices allow everything.

    Raises:
        TypeError: If an option has another type.
        ValueError: If an option with a list of allowed values has another value.

    Example:
        >>> def build(with_cp: bool = False, window_size: int | tuple[int, int] = 7) -> None: ...
        >>> check_types(dict(with_cp=True, window_size=[7, 12]), build)
        >>> check_types(dict(window_size="7"), build)
        Traceback (most recent call last):
            ...
        TypeError: window_size must be an integer or a sequence of integers, got '7'
    """
    declared = get_type_hints(function)
    for name, value in options.items():
        wanted = declared.get(name, Any)
        if get_origin(wanted) is Literal:
            check_choice(name, value, get_args(wanted))
        elif not _is_a(value, wanted):
            raise TypeError(f"{name} must be {_in_words(wanted)}, got {value!r}")


def _is_a(value: object, wanted: Any) -> bool:
    kind = get_origin(wanted) or wanted
    if kind in (Union, UnionType):
        return any(_is_a(value, alternative) for alternative in get_args(wanted))
    if kind in (tuple, Sequence):
        return isinstance(value, (list, tuple)) and all(_is_a(item, get_args(wanted)[0]) for item in value)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return kind not in _WORDS or isinstance(value, kind)


def _in_words(wanted: Any) -> str:
    kind, inner = get_origin(wanted) or wanted, get_args(wanted)
    if kind in (Union, UnionType):
        return " or ".join(_in_words(alternative) for alternative in inner)
    if kind in (tuple, Sequence):
        return "a sequence" + (f" of {_WORDS[get_origin(inner[0]) or inner[0]][1]}" if inner[0] is not Any else "")
    return _WORDS[kind][0]


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


def build_layer(
    argument: str, config: Mapping[str, Any], layer: type[nn.Module], *args: Any, **options: Any
) -> nn.Module:
    """Build the layer that a config describes.

    Args:
        argument: Name of the argument that holds the config, for the error message.
        config: The config, for the error message.
        layer: The layer's type.
        *args: What the layer takes beside the options of the config.
        **options: Options of the config.

    Raises:
        TypeError: If the layer has no such option, or an option has another type.
        ValueError: If the layer refuses a value.
    """
    try:
        if layer.__module__.startswith("torch."):  # the types that other packages declare may not resolve
            check_types(options, layer.__init__)
        return layer(*args, **options)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{argument} cannot be {dict(config)!r}: {error}") from error
