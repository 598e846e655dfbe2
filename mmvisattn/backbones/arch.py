"""Architectures: a frozen dataclass of sizes and a table of published ones in each family."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from mmvisattn.backbones.suggest import did_you_mean

ArchT = TypeVar("ArchT")


def resolve_arch(arch: str | Mapping[str, Any] | ArchT, archs: Mapping[str, ArchT]) -> ArchT:
    """Turn the ``arch`` option of a backbone into its architecture.

    Args:
        arch: A name in ``archs``, a mapping with the fields of an architecture, or an architecture. In a mapping
            ``embed_dims``, the hosts' word, means ``embed_dim``.
        archs: Architectures by name, all of one dataclass.

    Raises:
        ValueError: If the name is unknown.
        TypeError: If ``arch`` is none of these, or a field of the mapping is unknown, missing or of another type.
    """
    arch_type = type(next(iter(archs.values())))
    if isinstance(arch, arch_type):
        return arch
    if isinstance(arch, str):
        if arch not in archs:
            raise ValueError(f"arch must be one of {list(archs)} or a dict, got {arch!r}{did_you_mean(arch, archs)}")
        return archs[arch]
    if not isinstance(arch, Mapping):
        raise TypeError(f"arch must be one of {list(archs)} or a dict, got {arch!r}")
    if "embed_dim" in arch and "embed_dims" in arch:
        raise TypeError("embed_dims and embed_dim are two names of one field of arch, give only one of them")
    values = {"embed_dim" if name == "embed_dims" else name: value for name, value in arch.items()}
    fields = {field.name: field for field in dataclasses.fields(arch_type)}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            raise TypeError(f"arch has no field {name!r}, must be of {list(fields)}{did_you_mean(name, fields)}")
    for name, field in fields.items():
        if name not in values and field.default is dataclasses.MISSING:
            raise TypeError(f"arch must have the field {name!r}, got {dict(arch)!r}")
    return arch_type(**values)


def per_stage(field: str, values: Sequence[int], stages: int | None = None) -> tuple[int, ...]:
    """Check a field of an architecture that holds one positive integer per stage.

    Args:
        field: Name of the field, for the error message.
        values: The integers.
        stages: Number of stages; None for any.

    Raises:
        ValueError: If ``values`` is anything else.

    Example:
        >>> per_stage("depths", [2, 2, 6, 2])
        (2, 2, 6, 2)
    """
    valid = isinstance(values, Sequence) and all(type(value) is int and value >= 1 for value in values)
    if not valid or not values or (stages is not None and len(values) != stages):
        count = "one positive integer per stage" if stages is None else f"{stages} positive integers, one per stage"
        raise ValueError(f"{field} must be {count}, got {values!r}")
    return tuple(values)
