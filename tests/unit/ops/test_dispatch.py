import sys

import pytest
import torch

from mmvisattn.ops import (
    attention,
    dispatch,
    mask_unit_attention,
    relative_position_attention,
    why_not,
    window_attention,
)

QKV = torch.zeros(1, 4, 4, 12)
REL = torch.zeros(3, 2)
QUERY = torch.zeros(1, 2, 3, 4)

CALLS = {
    "attention": lambda impl: attention(QUERY, QUERY, QUERY, impl=impl),
    "window_attention": lambda impl: window_attention(QKV, num_heads=2, window_size=2, impl=impl),
    "relative_position_attention": lambda impl: relative_position_attention(
        QKV, REL, REL, num_heads=2, window_size=2, impl=impl
    ),
    "mask_unit_attention": lambda impl: mask_unit_attention(QKV, num_heads=2, unit_size=2, query_stride=2, impl=impl),
}


@pytest.mark.parametrize("op", CALLS)
def test_an_unknown_implementation_is_named(op):
    with pytest.raises(ValueError, match="impl is 'flash'; allowed are 'auto', 'reference', 'sdpa', 'triton'"):
        CALLS[op]("flash")


@pytest.mark.parametrize("op", CALLS)
def test_a_named_implementation_never_falls_back(op, monkeypatch):
    monkeypatch.setitem(dispatch.TRITON_REFUSALS, op, lambda qkv, **arguments: "no kernel for this call")
    with pytest.raises(ValueError, match="no kernel for this call"):
        CALLS[op]("triton")


@pytest.mark.parametrize("op", CALLS)
def test_an_op_without_kernels_says_so(op, monkeypatch):
    monkeypatch.delitem(dispatch.TRITON_REFUSALS, op, raising=False)
    with pytest.raises(ValueError, match=f"impl 'triton' of {op} is not part of this build"):
        CALLS[op]("triton")


@pytest.mark.parametrize("op", CALLS)
@pytest.mark.parametrize("impl", ["auto", "reference", "sdpa"])
def test_eager_implementations_take_every_call(op, impl):
    assert why_not(op, impl, QKV) is None
    CALLS[op](impl)


def test_triton_serves_mask_units_where_they_are_windows(monkeypatch):
    asked = []

    def refuse(qkv, **arguments):
        asked.append(arguments)
        return "asked the kernels of windows"

    monkeypatch.setitem(dispatch.TRITON_REFUSALS, "window_attention", refuse)
    call = {"num_heads": 2, "query_stride": 1, "impl": "triton"}
    with pytest.raises(ValueError, match="asked the kernels of windows"):
        mask_unit_attention(QKV, unit_size=(2, 4), **call)
    assert asked[-1]["window_size"] == (2, 4)
    assert why_not("mask_unit_attention", "triton", QKV, num_heads=2, unit_size=2) == "asked the kernels of windows"
    with pytest.raises(ValueError, match="query_stride 1 with unit_size None"):
        mask_unit_attention(QKV, unit_size=None, **call)
    with pytest.raises(ValueError, match="query_stride 2 with unit_size \\(2, 2\\)"):
        mask_unit_attention(QKV, unit_size=2, **{**call, "query_stride": 2})


def test_sizes_may_be_asked_about_as_they_are_passed(monkeypatch):
    """The kernels compare rows and columns; a caller of why_not may give one int, as to the op."""
    monkeypatch.setitem(dispatch.TRITON_REFUSALS, "window_attention", lambda qkv, **a: repr(a["window_size"]))
    assert why_not("window_attention", "triton", QKV, num_heads=2, window_size=7) == "(7, 7)"


def test_automatic_choice():
    assert dispatch.choose("window_attention", "auto", QKV) == "sdpa"
    assert dispatch.choose("window_attention", "auto", QKV.to("meta")) == "reference"
    assert dispatch.choose("window_attention", "auto", QKV, logits=dispatch.SMALL_CALL) == "reference"
    assert dispatch.choose("window_attention", "auto", QKV, logits=dispatch.SMALL_CALL + 1) == "sdpa"
    assert dispatch.choose("window_attention", "sdpa", QKV, logits=1) == "sdpa"


@pytest.mark.parametrize("op", ["window_attention", "relative_position_attention"])
def test_small_calls_on_cpu_run_the_reference(op, monkeypatch):
    chosen = []

    def spy(name, impl, qkv, *, logits=None, **arguments):
        chosen.append(logits)
        return "reference"

    monkeypatch.setattr(sys.modules[f"mmvisattn.ops.{op}.api"], "choose", spy)
    CALLS[op]("auto")
    assert chosen == [2 * 4 * 4**2]  # heads, windows, pairs of a window


def test_an_unknown_op_is_named():
    with pytest.raises(ValueError, match="op is 'convolution'; allowed are 'attention'"):
        why_not("convolution", "sdpa", QKV)
