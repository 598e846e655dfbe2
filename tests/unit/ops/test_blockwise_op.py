"""The registered op of blockwise attention: what compilers see of it, and that exports see nothing of it."""

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from mmvisattn.analysis import cost
from mmvisattn.ops import blockwise, window_attention
from mmvisattn.ops.blockwise_op import attend_blockwise
from mmvisattn.ops.windows import WindowGrid

OPS = torch.ops.mmvisattn
HEADS, HEAD_DIM, WINDOW, SHIFT = 2, 3, (3, 2), (1, 0)


def arguments(terms, dtype=torch.float64, learning=True, size=(2, 4, 5)):
    generator = torch.Generator().manual_seed(0)
    wide = torch.promote_types(dtype, torch.float32)

    def draw(*shape, dtype=wide):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_(learning)

    channels, tokens = HEADS * HEAD_DIM, WINDOW[0] * WINDOW[1]
    shared = {
        "scaled": [],
        "cosine": [draw(HEADS)],
        "relative": [draw(WINDOW[0], WINDOW[0], HEAD_DIM), draw(WINDOW[1], WINDOW[1], HEAD_DIM)],
    }[terms]
    qkv, bias, padding = draw(*size, 3 * channels, dtype=dtype), draw(HEADS, tokens, tokens), draw(3 * channels)
    return qkv, bias, padding, shared, terms, HEADS, list(WINDOW), list(SHIFT), 0.5


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("terms", ["scaled", "cosine", "relative"])
def test_opcheck(terms, dtype):
    inputs = arguments(terms, dtype, learning=False)
    torch.library.opcheck(OPS.blockwise_attention.default, inputs)
    grad = torch.randn(2, 4, 5, HEADS * HEAD_DIM).to(dtype)
    tensors = 3 + len(inputs[3])
    for needs in ([True] * tensors, [place == 1 for place in range(tensors)]):
        torch.library.opcheck(OPS.blockwise_attention_backward.default, (grad, *inputs, needs))


@pytest.mark.parametrize("terms", ["scaled", "cosine", "relative"])
def test_gradients_are_those_of_finite_differences(terms):
    qkv, bias, padding, shared, *options = arguments(terms, size=(1, 2, 3))

    class OneWay(torch.autograd.Function):  # the two registered ops, without the function that joins them
        @staticmethod
        def forward(ctx, *tensors):
            ctx.save_for_backward(*tensors)
            return OPS.blockwise_attention.default(*tensors[:3], tensors[3:], *options)

        @staticmethod
        def backward(ctx, grad):
            qkv, bias, padding, *rest = ctx.saved_tensors
            needs = [True] * len(ctx.saved_tensors)
            return tuple(OPS.blockwise_attention_backward.default(grad, qkv, bias, padding, rest, *options, needs))

    assert torch.autograd.gradcheck(OneWay.apply, (qkv, bias, padding, *shared))


@pytest.mark.parametrize("terms", ["scaled", "cosine", "relative"])
def test_compiled_to_one_node_each_way_and_equal_to_eager(terms):
    qkv, bias, _, shared, *_ = arguments(terms)
    pad_kv = torch.randn(2, HEADS * HEAD_DIM, dtype=torch.float64, requires_grad=True)
    names = []

    def backend(graph, example_inputs):
        names.extend(str(node.target) for node in graph.graph.nodes)
        return make_boxed_func(graph.forward)

    def attend(qkv, bias, pad_kv, *shared):
        grid = WindowGrid(tuple(qkv.shape[1:3]), WINDOW, SHIFT)
        return attend_blockwise(qkv, bias, pad_kv, num_heads=HEADS, grid=grid, scale=0.5, terms=terms, shared=shared)

    torch._dynamo.reset()
    compiled = torch.compile(
        attend, backend=aot_autograd(fw_compiler=backend, bw_compiler=backend), fullgraph=True, dynamic=True
    )
    inputs = qkv, bias, pad_kv, *shared
    results = []
    for run in (compiled, attend):
        out = run(*inputs)
        results.append([out, *torch.autograd.grad(out.square().sum(), inputs)])
    assert all(torch.equal(ours, eager) for ours, eager in zip(*results, strict=True))
    ours = [name for name in names if name.startswith("mmvisattn")]
    assert ours == ["mmvisattn.blockwise_attention.default", "mmvisattn.blockwise_attention_backward.default"]
    torch._dynamo.reset()


def test_eager_calls_show_their_matrix_products_to_flop_counters():
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        window_attention(torch.randn(1, 4, 4, 12), num_heads=2, window_size=4, impl="sdpa")
    assert counter.get_total_flops() == 2 * 2 * 16 * 16 * 4  # two products, a multiply and an add each


def test_flop_counters_can_be_taught_the_registered_ops():
    from torch.utils.flop_counter import FlopCounterMode

    cost.register_kernel_formulas()
    qkv, *others = arguments("scaled", learning=False)
    padded, tokens, channels = 2 * 6 * 6, WINDOW[0] * WINDOW[1], HEADS * HEAD_DIM  # 4 x 5 tokens, in whole windows
    with FlopCounterMode(display=False) as counter:
        out = OPS.blockwise_attention(qkv, *others)
        OPS.blockwise_attention_backward(out, qkv, *others, [True] * 3)
    assert counter.get_total_flops() == (4 + 10) * padded * tokens * channels


@pytest.mark.parametrize("strict", [False, True])
def test_exports_hold_operations_of_pytorch_only(strict):
    class Model(torch.nn.Module):
        def forward(self, qkv):
            return window_attention(qkv, num_heads=2, window_size=4, shift_size=1)

    program = torch.export.export(Model(), (torch.randn(1, 6, 9, 12),), strict=strict)
    assert not [node for node in program.graph.nodes if "mmvisattn" in str(node.target)]


def test_a_map_of_strided_tokens_is_taken_as_it_is():
    qkv, *others = arguments("scaled", learning=False)
    strided = qkv.transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.equal(blockwise.forward(strided, *others), blockwise.forward(qkv, *others))
