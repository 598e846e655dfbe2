import pytest

from mmvisattn.checkpoints.templates import Template


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("norm.{param}", "norm.weight", {"param": "weight"}),
        ("layers.{s-1}.x", "layers.0.x", {"s": "1"}),
        ("features.{2s+2}.{b}.x", "features.6.11.x", {"s": "2", "b": "11"}),
        ("a.{unit:b|c.d}.e", "a.c.d.e", {"unit": "c.d"}),
    ],
)
def test_match_and_fill_are_inverse(text, name, values):
    assert Template(text).match(name) == values
    assert Template(text).fill(values) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("norm.{param}", "norm.weights"),  # anchored at the end
        ("norm.{param}", "patch_embed.norm.weight"),  # and at the start
        ("norm.{param}", "normXweight"),  # a dot is a dot
        ("features.{2s+1}.x", "features.4.x"),  # no whole number
        ("layers.{s+1}.x", "layers.0.x"),  # would be -1
        ("layers.{s}.x", "layers.01.x"),  # could not be written back
        ("layers.{s}.x", "layers.-1.x"),
        ("a.{unit:b|c}", "a.d"),
    ],
)
def test_no_match(text, name):
    assert Template(text).match(name) is None


def test_anything():
    assert Template("head.{*}").match("head.layers.3.weight") == {}
    assert Template("head.{*}").match("head.") is None
