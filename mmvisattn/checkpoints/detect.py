"""Find out who named the keys of a checkpoint, and under which prefix the backbone lies in it.

Neither is written in the files, and the wrappers do not tell (several publishers share each of them), so every table
of the family is tried and has to prove itself: it must describe every key below the prefix, and what it makes of them
must be the parameters of the model.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from mmvisattn.checkpoints.key_map import Converted, KeyMap, Rename

# The anchor by which a table finds the prefix: all families have this parameter.
_FIRST_PARAMETER = "patch_embed.proj.weight"


@dataclass(frozen=True)
class Detected:
    """The table that fits a checkpoint.

    Attributes:
        key_map: The table.
        prefix: What stands before the backbone's keys, such as ``backbone.``.
        converted: The keys below the prefix in our names and layouts.
        outside: Keys without the prefix.
    """

    key_map: KeyMap
    prefix: str
    converted: Converted
    outside: list[str]


@dataclass(frozen=True)
class _Candidate:
    key_map: KeyMap
    prefix: str
    unknown: list[str]
    converted: Converted | None = None
    misfits: int = 0
    error: str = ""

    @property
    def rank(self) -> tuple[bool, int, int]:
        return (self.converted is None, len(self.unknown), self.misfits)

    def describe(self) -> str:
        where = f" (below '{self.prefix}')" if self.prefix else ""
        return (self.error or self.key_map.explain_unknown(self.unknown)) + where


def key_maps_of(model: nn.Module) -> list[KeyMap]:
    """Return the tables of a model's family: those of ``maps/swin.py`` for a model defined in ``backbones/swin.py``.

    The first is that of our own names, with all names of this very model.

    Raises:
        TypeError: If the model is not a backbone of this package, or of a class derived from one.
    """
    for cls in type(model).__mro__:
        package, _, family = cls.__module__.rpartition(".")
        if package == "mmvisattn.backbones" and family != "base":
            own, *others = importlib.import_module(f"mmvisattn.checkpoints.maps.{family}").KEY_MAPS
            rest = tuple(Rename(name, name) for name in own.unknown(model.state_dict()))  # of batch norms, for instance
            return [dataclasses.replace(own, rules=own.rules + rest), *others]
    raise TypeError(f"{type(model).__name__} is not a backbone of mmvisattn, so no table of parameter names is known")


def detect(
    state: Mapping[str, Tensor],
    key_maps: Iterable[KeyMap],
    expected: Mapping[str, Tensor],
    prefix: str | None = None,
) -> Detected:
    """Find the table and the prefix under which a checkpoint fits a model best, and convert it.

    The keys must all be known to the table; whether the model gets all it needs is not checked here.

    Args:
        state: Tensors by the checkpoint's keys.
        key_maps: The tables to try.
        expected: The model's state dict.
        prefix: Take the keys below this prefix only. None tries each place where a patch embedding is found.

    Raises:
        ValueError: If no table knows all keys, or the checkpoint holds several backbones that fit equally well.
    """
    if prefix and not any(key.startswith(prefix) for key in state):
        starts = ", ".join(f"'{start}.'" for start in sorted({key.partition(".")[0] for key in state})[:8])
        raise ValueError(f"prefix='{prefix}' starts no key of the checkpoint; its keys start with {starts}")
    candidates = [
        _try(state, key_map, place, expected)
        for key_map in key_maps
        for place in ([prefix] if prefix is not None else _places(state, key_map))
    ]
    candidates.sort(key=lambda candidate: candidate.rank)  # stable: earlier tables win ties
    best = candidates[0]
    if best.converted is None:
        others = ", ".join(f"{other.key_map.source} ({len(other.unknown)} unknown)" for other in candidates[1:4])
        raise ValueError(f"no table of parameter names fits the checkpoint: {best.describe()}; also tried: {others}")
    rivals = sorted({c.prefix for c in candidates if c.rank == best.rank})
    if len(rivals) > 1:
        raise ValueError(f"the checkpoint holds several backbones: choose one by prefix=, out of {rivals}")
    return Detected(
        best.key_map, best.prefix, best.converted, [key for key in state if not key.startswith(best.prefix)]
    )


def _places(state: Mapping[str, Tensor], key_map: KeyMap) -> list[str]:
    anchor = key_map.source_of(_FIRST_PARAMETER)
    found = {key[: -len(anchor)] for key in state if anchor and key.endswith(anchor)}
    return sorted({place for place in found if not place or place.endswith(".")} | {""})


def _try(state: Mapping[str, Tensor], key_map: KeyMap, prefix: str, expected: Mapping[str, Tensor]) -> _Candidate:
    inside = {key[len(prefix) :]: tensor for key, tensor in state.items() if key.startswith(prefix)}
    if unknown := key_map.unknown(inside):
        return _Candidate(key_map, prefix, unknown)
    try:
        converted = key_map.convert(inside)
    except ValueError as error:
        return _Candidate(key_map, prefix, [], error=str(error))
    names = {name for name in converted.tensors.keys() ^ expected.keys() if not key_map.is_optional(name)}
    shared = converted.tensors.keys() & expected.keys()
    misfits = len(names) + sum(converted.tensors[name].ndim != expected[name].ndim for name in shared)
    return _Candidate(key_map, prefix, [], converted, misfits)
