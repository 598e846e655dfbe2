"""What holds for the tables of every family, whatever the sources look like."""

import importlib
import itertools
import pkgutil
import re

import pytest
import torch

from mmvisattn.checkpoints import maps
from mmvisattn.checkpoints.key_map import Rename

FAMILIES = [module.name for module in pkgutil.iter_modules(maps.__path__)]
TABLES = [
    pytest.param(table, id=f"{family}-{table.source}")
    for family in FAMILIES
    for table in importlib.import_module(f"{maps.__name__}.{family}").KEY_MAPS
]


def examples(template):
    """Names that a template describes: small numbers, every word, something for anything."""
    words = {"param": "weight|bias", **dict(template.choices), **template.listed_choices}
    fields = {
        field: words[field].split("|") if field in words else ["0", "1", "3"] for field in template.fields - {"*"}
    }
    values = [{}]
    for field, choices in fields.items():
        values = [{**given, field: choice} for given in values for choice in choices]
    if "*" in template.fields:
        return [template.text.replace("{*}", "x.0.weight")]
    return [name for given in values if not re.search(r"-\d", name := template.fill(given))]


@pytest.mark.parametrize("table", TABLES)
def test_no_key_is_described_twice(table):
    for direction in (table, table.inverse()):
        for rule in direction.rules:
            for template in rule.sources:
                for name in examples(template) if template else ():
                    found, _ = direction.rule_for(name)  # raises if there are two
                    assert found is rule


@pytest.mark.parametrize("table", TABLES)
def test_every_parameter_of_the_family_has_one_name_in_each_direction(table):
    for rule in table.rules:
        if not isinstance(rule, Rename) or rule.legacy:
            continue
        for source in filter(None, rule.sources):
            for key in examples(source):
                values = source.match(key)
                assert source.fill(values) == key
                for target in filter(None, rule.targets):
                    assert target.match(target.fill(values)) == values


@pytest.mark.parametrize("table", TABLES)
def test_a_tensor_of_any_shape_is_converted_or_refused_in_words(table):
    shapes = [(), (0,), (1,), (5,), (16,), (3, 5), (8, 8), (0, 3), (3, 5, 7), (1, 4, 8), (2, 3, 5, 7), (8, 8, 1, 1)]
    for rule in table.rules:
        for given, other in itertools.product(shapes, repeat=2) if isinstance(rule, Rename) else ():
            template = next(filter(None, rule.sources))
            values = template.match(examples(template)[-1])
            keys = [piece.fill(values) for piece in rule.sources if piece is not None]
            state = dict.fromkeys(keys, torch.zeros(given)) | {keys[-1]: torch.zeros(other)}
            try:
                table.convert(state)
            except ValueError as error:  # any other error comes from inside torch
                assert re.search(rf"'{re.escape(keys[0])}' does not fit the .* table: (expected|cannot)", str(error))


@pytest.mark.parametrize("family", FAMILIES)
def test_sources_of_a_family_have_names_of_their_own(family):
    tables = importlib.import_module(f"{maps.__name__}.{family}").KEY_MAPS
    assert tables[0].source == "mmvisattn"
    assert len({table.source for table in tables}) == len(tables)
    assert all(table.source_of("patch_embed.proj.weight") for table in tables)
