"""Every bad argument is a ValueError of one sentence that names the argument, its value and what is allowed."""

import math

import pytest
import torch

from mmvisattn.ops import (
    attention,
    attention_weights,
    mask_unit_attention,
    mask_unit_attention_weights,
    relative_position_attention,
    relative_position_attention_weights,
    window_attention,
    window_attention_weights,
)

QKV = torch.zeros(1, 4, 5, 12)  # two heads of two channels

WINDOW = {"qkv": QKV, "num_heads": 2, "window_size": 3}
RELATIVE = {"qkv": QKV, "rel_h": torch.zeros(5, 2), "rel_w": torch.zeros(5, 2), "num_heads": 2, "window_size": 3}
UNIT = {"qkv": QKV, "num_heads": 2, "unit_size": 4, "query_stride": 2}
DENSE = {"query": torch.zeros(2, 3, 4, 8), "key": torch.zeros(2, 3, 5, 8), "value": torch.zeros(2, 3, 5, 8)}

MAPS = [
    ({"qkv": "map"}, "qkv must be a tensor, not str"),
    ({"qkv": QKV.long()}, "qkv has dtype torch.int64; allowed are float16, bfloat16, float32 and float64"),
    ({"qkv": QKV[0]}, r"qkv has shape \(4, 5, 12\); expected \(B, H, W, 3\*C\)"),
    ({"qkv": QKV[:, :0]}, "qkv has a map of 0 x 5 tokens; expected at least 1 x 1"),
    ({"qkv": QKV[..., :11]}, "num_heads is 2 and qkv has 11 channels"),
    ({"qkv": QKV[..., :0]}, "num_heads is 2 and qkv has 0 channels"),
    ({"num_heads": 3}, r"num_heads is 3 and qkv has 12 channels; expected 3\*C with num_heads dividing C"),
    ({"num_heads": 0}, "num_heads is 0; expected an int of at least 1"),
    ({"num_heads": True}, "num_heads is True"),
    ({"num_heads": 2.0}, "num_heads is 2.0"),
    ({"scale": "1"}, "scale is '1'; expected a finite number, or None"),
    ({"scale": math.nan}, "scale is nan"),
    ({"scale": torch.ones(())}, r"scale is tensor\(1.\)"),
    ({"pad_kv": torch.zeros(4)}, r"pad_kv has shape \(4,\); expected \(2, 4\)"),
    ({"pad_kv": [0, 0]}, "pad_kv must be a tensor, not list"),
    ({"pad_kv": torch.zeros(2, 4, device="meta")}, "pad_kv is on meta; expected cpu"),
]
WINDOWS = [
    ({"window_size": 0}, r"window_size is 0; expected an int, or \(rows, columns\), of at least 1"),
    ({"window_size": (2, 3, 4)}, r"window_size is \(2, 3, 4\)"),
    ({"window_size": 2.5}, "window_size is 2.5"),
    ({"window_size": (2, "3")}, r"window_size is \(2, '3'\)"),
    ({"window_size": True}, "window_size is True"),
]
WINDOW_CASES = [
    *MAPS,
    *WINDOWS,
    ({"window_size": None}, "window_size is None"),
    ({"shift_size": -1}, r"shift_size is -1; expected an int, or \(rows, columns\), of at least 0"),
    ({"shift_size": 3}, "shift_size is 3; expected less than window_size 3 on each axis"),
    ({"shift_size": (0, 3)}, r"shift_size is \(0, 3\)"),
    ({"bias_table": torch.zeros(9, 2)}, r"bias_table has shape \(9, 2\); expected \(25, 2\)"),
    ({"bias_table": torch.zeros(25, 2).int()}, "bias_table has dtype torch.int32"),
    ({"bias_table": torch.zeros(25, 2, device="meta")}, "bias_table is on meta"),
    ({"logit_scale": torch.zeros(1)}, r"logit_scale has shape \(1,\); expected \(2,\) or \(2, 1, 1\)"),
    ({"logit_scale": torch.zeros(2), "scale": 1.0}, "scale is 1.0; expected None where logit_scale is given"),
]
RELATIVE_CASES = [
    *MAPS,
    *WINDOWS,
    ({"rel_h": torch.zeros(3, 2)}, r"rel_h has shape \(3, 2\); expected \(5, 2\)"),
    ({"rel_w": torch.zeros(5, 4)}, r"rel_w has shape \(5, 4\); expected \(5, 2\)"),
    ({"rel_w": None}, "rel_w must be a tensor, not NoneType"),
    ({"window_size": None}, r"rel_h has shape \(5, 2\); expected \(7, 2\)"),
]
UNIT_CASES = [
    *MAPS,
    ({"unit_size": 0}, "unit_size is 0"),
    ({"unit_size": 3}, "unit_size is 3; expected multiples of query_stride 2"),
    ({"unit_size": (4, 5)}, r"unit_size is \(4, 5\)"),
    ({"query_stride": 0}, "query_stride is 0; expected an int of at least 1"),
    ({"query_stride": (2, 2)}, r"query_stride is \(2, 2\)"),
]
DENSE_CASES = [
    ({"query": torch.zeros(3, 4, 8)}, r"query has shape \(3, 4, 8\); expected \(B, heads, N, D\)"),
    ({"query": torch.zeros(2, 3, 4, 0)}, r"query has shape \(2, 3, 4, 0\)"),
    ({"key": torch.zeros(2, 3, 5, 7)}, r"key has shape \(2, 3, 5, 7\); expected \(2, 3, M, 8\)"),
    ({"key": torch.zeros(2, 3, 0, 8)}, "with M of at least 1"),
    ({"key": torch.zeros(2, 3, 5, 8).double()}, "expected the dtype and device of query"),
    ({"key": None}, "key must be a tensor, not NoneType"),
    ({"bias": torch.zeros(4, 4)}, r"bias has shape \(4, 4\); expected one that broadcasts to \(2, 3, 4, 5\)"),
    ({"bias": torch.zeros(1, 1, 1, 4, 5)}, r"bias has shape \(1, 1, 1, 4, 5\)"),
    ({"bias": torch.ones(4, 5, dtype=torch.bool)}, "bias has dtype torch.bool"),
    ({"bias": torch.zeros(4, 5, device="meta")}, "bias is on meta; expected cpu"),
    ({"scale": math.inf}, "scale is inf"),
]


def parametrized(cases):
    return pytest.mark.parametrize(("change", "message"), cases, ids=[message[:40] for _, message in cases])


@parametrized(WINDOW_CASES)
@pytest.mark.parametrize("function", [window_attention, window_attention_weights])
def test_window_attention(function, change, message):
    with pytest.raises(ValueError, match=message):
        function(**{**WINDOW, **change})


@parametrized(RELATIVE_CASES)
@pytest.mark.parametrize("function", [relative_position_attention, relative_position_attention_weights])
def test_relative_position_attention(function, change, message):
    with pytest.raises(ValueError, match=message):
        function(**{**RELATIVE, **change})


@parametrized(UNIT_CASES)
@pytest.mark.parametrize("function", [mask_unit_attention, mask_unit_attention_weights])
def test_mask_unit_attention(function, change, message):
    with pytest.raises(ValueError, match=message):
        function(**{**UNIT, **change})


@parametrized(DENSE_CASES)
@pytest.mark.parametrize("function", [attention, attention_weights])
def test_attention(function, change, message):
    arguments = {**DENSE, **change}
    if function is attention_weights:
        del arguments["value"]
    with pytest.raises(ValueError, match=message):
        function(**arguments)


def test_attention_wants_values_like_the_keys():
    for value in (torch.zeros(2, 3, 5, 7), torch.zeros(2, 3, 4, 8), torch.zeros(2, 3, 5, 8).double()):
        with pytest.raises(ValueError, match="value is .* as key is"):
            attention(**{**DENSE, "value": value})
    with pytest.raises(ValueError, match="value must be a tensor"):
        attention(**{**DENSE, "value": None})


@pytest.mark.parametrize(
    ("function", "good"),
    [
        (window_attention, WINDOW),
        (relative_position_attention, RELATIVE),
        (mask_unit_attention, UNIT),
        (attention, DENSE),
    ],
)
def test_the_unchanged_arguments_are_good(function, good):
    function(**good)
