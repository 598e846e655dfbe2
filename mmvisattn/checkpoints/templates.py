r"""Patterns for whole parameter names, matched in one direction and filled in in the other.

====================  ==================================================================================
``{s}``, ``{b}``      a whole number; multiples and sums too: in ``{2s+1}`` the text 7 means s = 3
``{param}``           ``weight`` or ``bias``
``{unit:fc1|fc2}``    one of the given words
``{*}``               anything (cannot be filled in)
====================  ==================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

_FIELD = re.compile(
    r"\{(?P<scale>\d*)(?P<number>[a-z])(?P<offset>[+-]\d+)?\}"
    r"|\{(?P<word>[a-z]{2,})(?::(?P<choices>[^{}]+))?\}"
    r"|(?P<anything>\{\*\})"
)


@dataclass(frozen=True)
class Template:
    """A pattern for whole names, anchored at both ends.

    Attributes:
        text: The pattern.
        choices: Pairs (word field, its words joined by ``|``) for fields whose words stand in another template.

    Example:
        >>> template = Template("features.{2s+1}.{b}.{unit:norm1|norm2}.{param}")
        >>> template.match("features.3.0.norm1.bias")
        {'s': '1', 'b': '0', 'unit': 'norm1', 'param': 'bias'}
        >>> template.match("features.2.0.norm1.bias") is None
        True
        >>> Template("stages.{s}.blocks.{b}.{unit}.bias").fill({"s": "1", "b": "0", "unit": "norm1"})
        'stages.1.blocks.0.norm1.bias'
    """

    text: str
    choices: tuple[tuple[str, str], ...] = ()

    @cached_property
    def listed_choices(self) -> dict[str, str]:
        """The words which the text itself lists for its word fields."""
        return {part["word"]: part["choices"] for part in _FIELD.finditer(self.text) if part["choices"]}

    @cached_property
    def fields(self) -> frozenset[str]:
        """Names of the fields."""
        return frozenset(part["number"] or part["word"] or "*" for part in _FIELD.finditer(self.text))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        words = {"param": "weight|bias", **dict(self.choices), **self.listed_choices}
        pattern, end = "", 0
        for part in _FIELD.finditer(self.text):
            pattern += re.escape(self.text[end : part.start()])
            if part["number"]:
                pattern += rf"(?P<{part['number']}>0|[1-9][0-9]*)"
            elif part["word"]:
                pattern += f"(?P<{part['word']}>{'|'.join(map(re.escape, words[part['word']].split('|')))})"
            else:
                pattern += ".+"
            end = part.end()
        return re.compile(pattern + re.escape(self.text[end:]))

    def match(self, name: str) -> dict[str, str] | None:
        """Return the values of the fields if the template describes `name`, else None."""
        found = self._pattern.fullmatch(name)
        if found is None:
            return None
        values = found.groupdict()
        for part in _FIELD.finditer(self.text):
            if part["number"]:
                shifted = int(values[part["number"]]) - int(part["offset"] or 0)
                number, remainder = divmod(shifted, int(part["scale"] or 1))
                if remainder or number < 0:
                    return None
                values[part["number"]] = str(number)
        return values

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the name with these values of the fields."""

        def text_of(part: re.Match[str]) -> str:
            if part["number"]:
                return str(int(part["scale"] or 1) * int(values[part["number"]]) + int(part["offset"] or 0))
            return values[part["word"]]

        return _FIELD.sub(text_of, self.text)
