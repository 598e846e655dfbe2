"""Bytes that the kernels load and store, counted in the interpreter, and launches.

The least that attention over an image of T tokens and C channels of e bytes can move is q, k, v in and the output out,
4 T C e; backward q, k, v and the gradient of the output in and the gradient of qkv out, 7 T C e.
"""

from collections import defaultdict
from dataclasses import dataclass
from math import ceil, prod

import numpy as np
import pytest
import torch
from triton.runtime import interpreter

from mmvisattn.ops.window_attention.triton import launch
from mmvisattn.ops.window_attention.triton.configurations import find_configuration


class Traffic:
    """What the kernels loaded and stored, as addresses, and which kernels ran with how many programs."""

    def __init__(self, monkeypatch):
        self.accesses = []  # (load or store, addresses of elements, bytes of an element)
        self.launches = []  # (kernel, programs)
        builder = interpreter.InterpreterBuilder
        self._record(monkeypatch, builder, "create_masked_load", "load")
        self._record(monkeypatch, builder, "create_masked_store", "store")
        run = interpreter.GridExecutor.__call__

        def counted(executor, *args, **kwargs):
            self.launches.append((executor.fn.__name__, prod(executor.grid)))
            return run(executor, *args, **kwargs)

        monkeypatch.setattr(interpreter.GridExecutor, "__call__", counted)

    def _record(self, monkeypatch, builder, method, kind):
        original = getattr(builder, method)

        def recorded(builder_self, pointers, *rest):
            mask = rest[0] if kind == "load" else rest[1]
            addresses = np.broadcast_to(pointers.data, mask.data.shape)[mask.data]
            self.accesses.append((kind, addresses, pointers.get_element_ty().primitive_bitwidth // 8))
            return original(builder_self, pointers, *rest)

        monkeypatch.setattr(builder, method, recorded)

    def bytes_of(self, tensors):
        """Bytes loaded and stored, and distinct bytes, per tensor; "scratch" is all that is none of them."""
        moved, distinct = defaultdict(int), defaultdict(set)
        for kind, addresses, size in self.accesses:
            rest = np.ones(addresses.shape, dtype=bool)
            for name, tensor in tensors.items():
                start = tensor.data_ptr()
                hit = (addresses >= start) & (addresses < start + tensor.nbytes)
                moved[name, kind] += int(hit.sum()) * size
                distinct[name, kind].update(addresses[hit].tolist())
                rest &= ~hit
            moved["scratch", kind] += int(rest.sum()) * size
        sizes = {name: tensor.element_size() for name, tensor in tensors.items()}
        return moved, {key: len(found) * sizes[key[0]] for key, found in distinct.items()}


@dataclass
class Pass:
    """What one forward or backward did."""

    moved: dict
    distinct: dict
    launches: list
    unit: int
    """T C e, the bytes of the output."""


# window, shift, map, heads, head_dim, cosine: padded and shifted, with windows of every kind; and whole windows only
WHOLE, EXACT, TILED = "whole", "whole, exact", "tiled"
CASES = {
    WHOLE: ((7, 7), (3, 3), (8, 16), 2, 32, True),
    EXACT: ((8, 8), (4, 4), (16, 16), 1, 24, False),
    TILED: ((9, 8), (4, 4), (10, 9), 1, 16, True),
}


@pytest.fixture(scope="module")
def passes(make_call):
    """Forward and backward of every case."""
    found = {}
    for case, (window, shift, size, heads, head_dim, cosine) in CASES.items():
        call = make_call(size, window, shift, head_dim=head_dim, heads=heads, cosine=cosine, dtype=torch.float16)
        qkv, pad_kv, table = call.qkv.half(), call.pad_kv.half(), call.bias_table.float()
        multiplier = call.logit_scale.exp().float() if cosine else torch.ones(heads)
        arguments = (qkv, table, multiplier if cosine else None, pad_kv, heads, window, shift, 0.25)
        inputs = {"qkv": qkv, "table": table, "vectors": pad_kv, "multiplier": multiplier}
        with pytest.MonkeyPatch.context() as monkeypatch:
            traffic = Traffic(monkeypatch)
            out = launch.forward(*arguments)
            forward = Pass(*traffic.bytes_of(inputs | {"out": out}), traffic.launches, out.nbytes)
        with pytest.MonkeyPatch.context() as monkeypatch:
            traffic = Traffic(monkeypatch)
            grad_out = torch.ones_like(out)
            grads = launch.backward(grad_out, *arguments, [True, True, cosine, True])
            made = {"grad_out": grad_out, "grad_qkv": grads[0], "grad_table": grads[1]}
            backward = Pass(*traffic.bytes_of(inputs | made), traffic.launches, out.nbytes)
        found[case] = forward, backward
    return found


@pytest.mark.parametrize("case", [WHOLE, EXACT])
def test_whole_windows_move_each_image_tensor_once(case, passes):
    forward, backward = passes[case]
    assert forward.moved["qkv", "load"] + forward.moved["out", "store"] <= 1.02 * 4 * forward.unit
    moved = backward.moved["qkv", "load"] + backward.moved["grad_out", "load"] + backward.moved["grad_qkv", "store"]
    assert moved <= 1.05 * 7 * backward.unit


def test_one_launch_forward_and_at_most_three_backward(passes):
    names = {case: [[name for name, _ in one.launches] for one in both] for case, both in passes.items()}
    whole = [["whole_window_forward"], ["whole_window_backward", "reduce_partials"]]
    tiled = [["tiled_forward"], ["tiled_backward_queries", "tiled_backward_keys_and_bias", "reduce_partials"]]
    assert names == {WHOLE: whole, EXACT: whole, TILED: tiled}


@pytest.mark.parametrize("case", [WHOLE, EXACT])
def test_tiles_move_once_per_program_not_once_per_window(case, passes):
    window, _, size, heads, head_dim, _ = CASES[case]
    forward, backward = passes[case]
    live, tile = prod(window) ** 2 * 4, 64 * 64 * 4
    programs = backward.launches[0][1]
    assert forward.moved["table", "load"] == forward.launches[0][1] * live
    assert forward.moved["scratch", "store"] == 0
    assert backward.moved["table", "load"] == programs * live
    # Beside the tiles: a multiplier per program, two padding rows per window and head, and the sums of both.
    windows = ceil(size[0] / window[0]) * ceil(size[1] / window[1])
    vectors = 4 * (programs + 2 * head_dim * windows * heads)
    assert backward.moved["scratch", "store"] <= programs * tile + 2 * vectors
    # The reduction reads each live pair of the partial tiles once.
    assert backward.moved["scratch", "load"] <= programs * live + vectors


def test_tiled_windows_move_distinct_bytes_once_and_re_read_only_blocks(passes):
    forward, backward = passes[TILED]
    unit = forward.unit
    # The image tensors themselves: as little as possible. What is read again is read by neighbouring programs.
    assert forward.distinct["qkv", "load"] + forward.moved["out", "store"] <= 1.02 * 4 * unit
    distinct = backward.distinct["qkv", "load"] + backward.distinct["grad_out", "load"]
    assert distinct + backward.moved["grad_qkv", "store"] <= 1.05 * 7 * unit

    # Re-reads: every block of queries reads all keys and values once per pass, and the other way round.
    tokens = prod(CASES[TILED][0])

    def blocks(op):
        found = find_configuration(op, tokens, 16, "half", "80")
        return ceil(tokens / found.block_q), ceil(tokens / found.block_k)

    assert forward.moved["qkv", "load"] <= (1 + 2 * blocks("tiled_forward")[0]) * unit
    by_query, by_key = blocks("tiled_backward_keys")
    first_launch = 2 + 2 * 2 * blocks("tiled_backward_queries")[0]
    keys, bias = 2 + 2 * by_key, 2 * by_key + 2 * by_query
    moved = backward.moved["qkv", "load"] + backward.moved["grad_out", "load"]
    assert moved <= (first_launch + keys + bias) * unit
