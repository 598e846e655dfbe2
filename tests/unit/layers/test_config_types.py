from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from mmvisattn.layers.config_types import check_types

Mode = Literal["pad", "shrink"]


@dataclass
class Options:
    flag: bool
    count: int
    rate: float
    name: str
    pair: int | tuple[int, int]
    many: Sequence[float]
    anything: Sequence[Any]
    config: Mapping[str, Any] | None
    configs: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    mode: Mode
    other: Exception


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("flag", (True, False)),
        ("count", (0, -1)),
        ("rate", (0, 0.5)),
        ("name", ("",)),
        ("pair", (1, (1, 2), [1, 2], ())),
        ("many", ((0.5, 1), [])),
        ("anything", (["1", None],)),
        ("config", ({}, None)),
        ("configs", ({}, [{}], ())),
        ("mode", ("pad",)),
        ("other", (3, None)),  # nothing is said about such types
        ("undeclared", (3,)),
    ],
)
def test_values_of_the_type(option, values):
    for value in values:
        check_types({option: value}, Options)


@pytest.mark.parametrize(
    ("option", "wanted", "values"),
    [
        ("flag", "True or False", (1, 0, "False", None)),
        ("count", "an integer", (True, 1.0, "1", None)),
        ("rate", "a number", (True, "0.1", None, (0.1,))),
        ("name", "a string", (1, None, b"")),
        ("pair", "an integer or a sequence of integers", ("12", (1, 2.0), (1, True), {1: 2}, {1, 2})),
        ("many", "a sequence of numbers", ("12", 1.0, (None,))),
        ("anything", "a sequence", ("12", 1.0)),
        ("config", "a dict or None", ("LN", [{}], 0)),
        ("configs", "a dict or a sequence of dicts", ("LN", ["LN"], None)),
    ],
)
def test_values_of_another_type(option, wanted, values):
    for value in values:
        with pytest.raises(TypeError) as caught:
            check_types({option: value}, Options)
        assert str(caught.value) == f"{option} must be {wanted}, got {value!r}"


@pytest.mark.parametrize("value", ["Pad", None, [], 1])
def test_choices(value):
    with pytest.raises(ValueError, match=r"mode must be one of \['pad', 'shrink'\], got"):
        check_types(dict(mode=value), Options)
