import dataclasses

import pytest
import torch

from mmvisattn.checkpoints.key_map import Drop, KeyMap, Rename, own_names
from mmvisattn.checkpoints.transforms import CONV_TO_LINEAR

TABLE = KeyMap(
    "toy",
    (
        Rename("layers.{s}.{unit}.{param}", "stages.{s}.{unit:norm|proj}.{param}"),
        Rename(("layers.{s}.q.{param}", "layers.{s}.k.{param}", "layers.{s}.v.{param}"), "stages.{s}.qkv.{param}"),
        Rename("mlp.weight", "mlp.weight", CONV_TO_LINEAR),
        Rename("bias", ("q_bias", None, "v_bias")),
        Rename("old.norm.{param}", "patch.norm.{param}", legacy=True),
        Rename("patch.norm.{param}", "patch.norm.{param}"),
        Drop("head.{*}", "classifier"),
    ),
    optional=("out_norms.{s}.{param}",),
)


def random(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_every_kind_of_rule_and_back():
    state = {
        "layers.0.norm.weight": random(3),
        "layers.2.q.weight": random(2, 5),
        "layers.2.k.weight": random(2, 6)[:, :5],
        "layers.2.v.weight": random(2, 7)[:, :5],
        "mlp.weight": random(4, 3, 1, 1),
        "patch.norm.bias": random(2),
        "head.fc.weight": random(9),
    }
    converted = TABLE.convert(state)
    assert set(converted.tensors) == {
        "stages.0.norm.weight",
        "stages.2.qkv.weight",
        "mlp.weight",
        "patch.norm.bias",
    }
    assert converted.tensors["mlp.weight"].shape == (4, 3)
    assert torch.equal(converted.tensors["stages.2.qkv.weight"][2:4], state["layers.2.k.weight"])
    assert converted.origin["stages.2.qkv.weight"] == [f"layers.2.{piece}.weight" for piece in "qkv"]
    assert converted.dropped == {"head.fc.weight": "classifier"}
    back = TABLE.inverse().convert(converted.tensors).tensors
    assert back.keys() == state.keys() - {"head.fc.weight"}
    assert all(torch.equal(back[key], state[key]) for key in back)


def test_a_piece_without_a_name_is_left_out_and_comes_back_as_zeros():
    bias = torch.arange(6.0)
    tensors = TABLE.convert({"bias": bias}).tensors
    assert {name: tensor.tolist() for name, tensor in tensors.items()} == {"q_bias": [0, 1], "v_bias": [4, 5]}
    assert TABLE.inverse().convert(tensors).tensors["bias"].tolist() == [0, 1, 0, 0, 4, 5]


def test_legacy_spelling_is_read_but_not_written():
    tensors = TABLE.convert({"old.norm.bias": torch.zeros(2)}).tensors
    assert list(TABLE.inverse().convert(tensors).tensors) == ["patch.norm.bias"]


def test_inverse_drops_optional_parameters_that_the_source_has_no_name_for():
    converted = TABLE.inverse().convert(
        {"out_norms.0.bias": torch.zeros(2), "q_bias": torch.zeros(2), "v_bias": torch.zeros(2)}
    )
    assert list(converted.tensors) == ["bias"]
    assert converted.dropped == {"out_norms.0.bias": "toy has no such parameter"}


def test_unknown_keys_are_an_error_with_a_suggestion():
    state = {"layers.0.norm.weight": torch.zeros(1), "layers.0.nrom.weight": torch.zeros(1), "xyz": torch.zeros(1)}
    with pytest.raises(ValueError, match=r"toy table does not know 2 keys: 'layers.0.nrom.weight', 'xyz'; the nearest"):
        TABLE.convert(state)


def test_a_key_that_two_rules_describe_is_an_error():
    table = dataclasses.replace(TABLE, rules=(*TABLE.rules, Drop("layers.{s}.{*}", "everything")))
    with pytest.raises(ValueError, match=r"describes the key 'layers.0.norm.bias' more than once: 'layers.*, 'layers"):
        table.convert({"layers.0.norm.bias": torch.zeros(1)})


def test_two_keys_that_lead_to_one_parameter_are_an_error():
    state = {"old.norm.bias": torch.zeros(2), "patch.norm.bias": torch.ones(2)}
    with pytest.raises(ValueError, match="'old.norm.bias' and 'patch.norm.bias' both lead to 'patch.norm.bias'"):
        TABLE.convert(state)


def test_a_missing_piece_is_an_error():
    with pytest.raises(ValueError, match="has 'layers.1.q.weight' but not 'layers.1.k.weight'"):
        TABLE.convert({"layers.1.v.weight": torch.zeros(2, 2), "layers.1.q.weight": torch.zeros(2, 2)})


def test_a_shape_that_does_not_fit_is_an_error_with_the_key():
    with pytest.raises(ValueError, match=r"'mlp.weight' does not fit the toy table: .* but got \(4, 3\)"):
        TABLE.convert({"mlp.weight": torch.zeros(4, 3)})
    with pytest.raises(ValueError, match=r"'bias' does not fit the toy table: cannot split \(5,\) into 3 equal pieces"):
        TABLE.convert({"bias": torch.zeros(5)})


def test_rules_that_cannot_be_inverted_are_refused():
    with pytest.raises(ValueError, match="same fields"):
        Rename("layers.{s}.weight", "weight")
    with pytest.raises(ValueError, match="only one side"):
        Rename(("a", "b"), ("c", "d"))


def test_own_names_are_the_targets():
    table = own_names(TABLE)
    names = ["stages.3.proj.bias", "stages.3.qkv.bias", "q_bias", "v_bias", "patch.norm.weight"]
    assert table.unknown(names) == []
    assert table.unknown(["layers.3.proj.bias", "bias"]) == ["layers.3.proj.bias", "bias"]
    assert list(table.convert({name: torch.zeros(3) for name in names}).tensors) == names


def test_source_of():
    assert TABLE.source_of("stages.1.norm.bias") == "layers.1.norm.bias"
    assert TABLE.source_of("stages.1.qkv.bias") == "layers.1.q.bias"
    assert TABLE.source_of("out_norms.1.bias") is None
    assert TABLE.source_of("elsewhere") is None
