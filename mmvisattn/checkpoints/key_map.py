"""Tables that translate the parameter names and layouts of one publisher into ours, and back.

A table is a list of rules. Every key of a checkpoint must be described by exactly one of them, and no two keys may
lead to one parameter; anything else is an error, so nothing is ever lost or overwritten without a word.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from mmvisattn.checkpoints.templates import Template
from mmvisattn.checkpoints.transforms import Transform

Pieces = tuple[str | None, ...]


@dataclass(frozen=True)
class Rename:
    """One rule: what the source calls `source`, we call `target`.

    Either side may be a tuple of equal pieces of the other side along dimension 0: ``(query, key, value)`` to ``qkv``
    joins three tensors, ``qkv`` to three names splits one. None in a tuple is a piece without a name: left out when
    splitting, zeros when joining. All templates of a rule have the same fields, so it can be read in both directions.

    Attributes:
        source: Template, or templates of the pieces, in the source's naming.
        target: Template, or templates of the pieces, in our naming.
        transform: Change of layout of the whole (joined) tensor on the way from source to target.
        legacy: An older spelling: read, but not written by the inverse table.

    Raises:
        ValueError: If the templates do not share their fields, or both sides are tuples.

    Example:
        >>> rule = Rename("layers.{s}.attn.{part}.{param}", "stages.{s}.token_mixer.{part:qkv|proj}.{param}")
        >>> rule.targets[0].fill(rule.sources[0].match("layers.2.attn.qkv.bias"))
        'stages.2.token_mixer.qkv.bias'
    """

    source: str | Pieces
    target: str | Pieces
    transform: Transform | None = None
    legacy: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.source, tuple) and isinstance(self.target, tuple):
            raise ValueError(f"{self}: only one side of a rule may consist of pieces")
        if len({template.fields for template in (*self.sources, *self.targets) if template}) != 1:
            raise ValueError(f"{self}: all templates of a rule must have the same fields")

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"

    @cached_property
    def _choices(self) -> tuple[tuple[str, str], ...]:
        texts = [text for side in (_pieces(self.source), _pieces(self.target)) for text in side if text is not None]
        return tuple({pair for text in texts for pair in Template(text).listed_choices.items()})

    @cached_property
    def sources(self) -> tuple[Template | None, ...]:
        """Templates of the source side."""
        return tuple(None if text is None else Template(text, self._choices) for text in _pieces(self.source))

    @cached_property
    def targets(self) -> tuple[Template | None, ...]:
        """Templates of our side."""
        return tuple(None if text is None else Template(text, self._choices) for text in _pieces(self.target))

    def inverse(self) -> Rename:
        """Return the rule from our naming to the source's."""
        transform = self.transform and self.transform.inverse()
        return dataclasses.replace(self, source=self.target, target=self.source, transform=transform)

    def apply(self, pieces: Sequence[Tensor | None]) -> list[Tensor]:
        """Return the tensors of the target side, those of unnamed pieces included.

        Args:
            pieces: Tensors of the source side; None for unnamed pieces.

        Raises:
            ValueError: If pieces differ in shape, the whole cannot be split, or its layout is not what the rule says.
        """
        given = next(piece for piece in pieces if piece is not None)
        whole = given
        if shapes := {tuple(piece.shape) for piece in pieces if piece is not None and piece.shape != given.shape}:
            raise ValueError(f"cannot join pieces of the shapes {tuple(given.shape)} and {shapes.pop()}")
        if len(pieces) > 1:
            if given.ndim == 0:
                raise ValueError("cannot join single numbers")
            whole = torch.cat([torch.zeros_like(given) if piece is None else piece for piece in pieces])
        if self.transform is not None:
            whole = self.transform.forward(whole)
        if len(self.targets) == 1:
            return [whole]
        if whole.ndim == 0 or whole.shape[0] % len(self.targets):
            raise ValueError(f"cannot split {tuple(whole.shape)} into {len(self.targets)} equal pieces")
        return list(whole.chunk(len(self.targets)))


@dataclass(frozen=True)
class Drop:
    """One rule: keys that the source stores and a dense model does not need.

    Attributes:
        source: Template in the source's naming.
        reason: Why nothing is lost, for the report.
    """

    source: str
    reason: str

    @cached_property
    def sources(self) -> tuple[Template]:
        """The template, in a tuple as in `Rename`."""
        return (Template(self.source),)


@dataclass
class Converted:
    """What a table made of a state dict.

    Attributes:
        tensors: By our names.
        origin: The source's keys of each of our names.
        dropped: Keys that were left out, with the reason.
    """

    tensors: dict[str, Tensor] = field(default_factory=dict)
    origin: dict[str, list[str]] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class KeyMap:
    """The table of one source.

    Attributes:
        source: Who names parameters like this, in words.
        rules: Renames and drops; their order has no meaning.
        optional: Templates, in our naming, of parameters that a file may lack (they keep their initial values) and of
            parameters in a file that a model may lack (they are left out), such as the output norms.

    Example:
        >>> rules = (Rename("layers.{s}.{param}", "stages.{s}.{param}"), Drop("head.{*}", "classifier"))
        >>> table = KeyMap("example", rules)
        >>> converted = table.convert({"layers.0.bias": torch.zeros(2), "head.bias": torch.zeros(9)})
        >>> list(converted.tensors), converted.dropped
        (['stages.0.bias'], {'head.bias': 'classifier'})
        >>> list(table.inverse().convert(converted.tensors).tensors)
        ['layers.0.bias']
    """

    source: str
    rules: tuple[Rename | Drop, ...]
    optional: tuple[str, ...] = ()

    def rule_for(self, key: str) -> tuple[Rename | Drop, dict[str, str]] | None:
        """Return the one rule that describes a key and the values of its fields; None if there is none.

        Raises:
            ValueError: If several rules describe the key.
        """
        found = [
            (rule, values)
            for rule in self.rules
            for template in rule.sources
            if template is not None and (values := template.match(key)) is not None
        ]
        if len(found) > 1:
            rules = ", ".join(repr(rule.source) for rule, _ in found)
            raise ValueError(f"the {self.source} table describes the key '{key}' more than once: {rules}")
        return found[0] if found else None

    def unknown(self, keys: Iterable[str]) -> list[str]:
        """Return the keys that no rule describes."""
        return [key for key in keys if self.rule_for(key) is None]

    def is_optional(self, name: str) -> bool:
        """Whether a parameter of this name (ours) may be missing in the file or in the model."""
        return any(Template(text).match(name) is not None for text in self.optional)

    def source_of(self, name: str) -> str | None:
        """Return the source's key of one of our parameters (the first, if it has several); None if it has none."""
        found = self.inverse().rule_for(name)
        if found is None or isinstance(found[0], Drop):
            return None
        return next(template.fill(found[1]) for template in found[0].targets if template is not None)

    def convert(self, state: Mapping[str, Tensor]) -> Converted:
        """Return the tensors under our names and in our layouts. Joined tensors are copies, the others may be views.

        Raises:
            ValueError: If a key is unknown, described twice, leads to the same parameter as another, or lacks its
                companions (query without key), or if a tensor's shape is not what the table says.
        """
        result = Converted()
        for key in state:
            found = self.rule_for(key)
            if found is None:
                raise ValueError(self.explain_unknown(self.unknown(state)))
            rule, values = found
            if isinstance(rule, Drop):
                result.dropped[key] = rule.reason
                continue
            keys = _fill(rule.sources, values)
            if key == next(piece for piece in keys if piece in state):  # the others are converted together with it
                self._convert_group(state, rule, keys, _fill(rule.targets, values), result)
        return result

    def _convert_group(
        self, state: Mapping[str, Tensor], rule: Rename, keys: Pieces, names: Pieces, result: Converted
    ) -> None:
        given = [key for key in keys if key in state]
        if missing := [key for key in keys if key not in state and key is not None]:
            raise ValueError(f"the checkpoint has '{given[0]}' but not '{missing[0]}'")
        try:
            tensors = rule.apply([None if key is None else state[key] for key in keys])
        except ValueError as error:
            raise ValueError(f"'{given[0]}' does not fit the {self.source} table: {error}") from error
        for name, tensor in zip(names, tensors, strict=True):
            if name is None:
                continue
            if name in result.tensors:
                raise ValueError(f"the keys '{result.origin[name][0]}' and '{given[0]}' both lead to '{name}'")
            result.tensors[name] = tensor
            result.origin[name] = [key for key in keys if key is not None]

    def explain_unknown(self, unknown: Sequence[str]) -> str:
        """Say in words that the table does not know some keys, and what it knows that is nearest to the first."""
        texts = [template.text for rule in self.rules for template in rule.sources if template is not None]
        nearest = difflib.get_close_matches(unknown[0], texts, n=1, cutoff=0.0)[0]
        keys = ", ".join(f"'{key}'" for key in unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        count = f"{len(unknown)} key{'s' if len(unknown) > 1 else ''}"
        return f"the {self.source} table does not know {count}: {keys}; the nearest it knows is '{nearest}'"

    def inverse(self) -> KeyMap:
        """Return the table from our naming to the source's.

        Optional parameters for which the source has no name are dropped. Keys which this table drops do not come back.
        """
        renames = tuple(rule.inverse() for rule in self.rules if isinstance(rule, Rename) and not rule.legacy)
        named = {template.text for rule in renames for template in rule.sources if template is not None}
        drops = tuple(Drop(text, f"{self.source} has no such parameter") for text in self.optional if text not in named)
        return KeyMap(f"inverse {self.source}", renames + drops)


def own_names(key_map: KeyMap) -> KeyMap:
    """Return the table of our own naming: every target of `key_map` leads to itself.

    Targets must list the words of their word fields themselves.
    """
    renames = [rule for rule in key_map.rules if isinstance(rule, Rename) and not rule.legacy]
    texts = [text for rule in renames for text in _pieces(rule.target) if text is not None]
    return KeyMap("mmvisattn", tuple(Rename(text, text) for text in texts), key_map.optional)


def _pieces(side: str | Pieces) -> Pieces:
    return side if isinstance(side, tuple) else (side,)


def _fill(templates: Iterable[Template | None], values: Mapping[str, str]) -> Pieces:
    return tuple(None if template is None else template.fill(values) for template in templates)
