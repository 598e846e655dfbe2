"""What holds for the tables of every family, whatever the sources look like."""

import importlib
import pkgutil
import re

import pytest

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


@pytest.mark.parametrize("family", FAMILIES)
def test_sources_of_a_family_have_names_of_their_own(family):
    tables = importlib.import_module(f"{maps.__name__}.{family}").KEY_MAPS
    assert tables[0].source == "mmvisattn"
    assert len({table.source for table in tables}) == len(tables)
    assert all(table.source_of("patch_embed.proj.weight") for table in tables)
