"""torch.compile and torch.export see every op whole, for changing sizes, on the path that any device takes."""

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from mmvisattn.ops import attention, mask_unit_attention, relative_position_attention, window_attention

DOUBLE = {"dtype": torch.float64, "requires_grad": True}


def window(qkv, table, impl):
    return window_attention(
        qkv, table, num_heads=2, window_size=4, shift_size=1, pad_kv=table[:2].expand(2, 2, 2).flatten(1), impl=impl
    )


def cosine(qkv, table, impl):
    return window_attention(qkv, num_heads=2, window_size=4, shift_size=(0, 2), logit_scale=table[0], impl=impl)


def relative(qkv, table, impl):
    return relative_position_attention(qkv, table[:7], table[7:14], num_heads=2, window_size=4, impl=impl)


def units(qkv, table, impl):
    return mask_unit_attention(qkv, num_heads=2, unit_size=4, query_stride=2, impl=impl)


def dense(qkv, table, impl):
    query, key, value = qkv.flatten(1, 2).unflatten(2, (6, 2)).transpose(1, 2).chunk(3, 1)
    return attention(query, key, value, table[0, 0], impl=impl)


CALLS = [window, cosine, relative, units, dense]


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


slow = pytest.mark.slow
QUICK = [(call, "sdpa") for call in CALLS]
SLOW = [(call, "reference") for call in CALLS]


@pytest.mark.parametrize(("call", "impl"), [*QUICK, *(pytest.param(*case, marks=slow) for case in SLOW)])
def test_compiled_once_for_all_sizes(call, impl, assert_close, outputs_and_gradients):
    # No two sizes are equal: the compiler takes equal ones for one and the same.
    backend = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda *tensors: call(*tensors, impl), backend=backend, fullgraph=True, dynamic=True)
    table = torch.randn(49, 2, **DOUBLE)
    for size in ((3, 9, 10), (5, 13, 11)):
        qkv = torch.randn(*size, 12, **DOUBLE)
        ours = outputs_and_gradients(lambda: compiled(qkv, table), [qkv, table])  # noqa: B023
        assert_close(ours, outputs_and_gradients(lambda: call(qkv, table, "reference"), [qkv, table]))  # noqa: B023
    assert backend.frame_count == 1


@pytest.mark.parametrize("call", CALLS)
def test_exported_with_dynamic_sizes(call):
    class Model(torch.nn.Module):
        def forward(self, qkv, table):
            return call(qkv, table, "auto")

    dynamic = {axis: torch.export.Dim.AUTO for axis in range(3)}
    example = torch.randn(3, 9, 10, 12), torch.randn(49, 2)
    program = torch.export.export(Model(), example, dynamic_shapes=(dynamic, None)).module()
    for size in ((3, 9, 10), (5, 13, 11)):
        qkv, table = torch.randn(*size, 12), torch.randn(49, 2)
        torch.testing.assert_close(program(qkv, table), call(qkv, table, "auto"))
