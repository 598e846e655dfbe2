"""What a call of the fused window attention costs the processor that issues it, beside the kernels.

Small maps are bound by this cost, not by the GPU. The kernels are replaced by nothing; allocation, choice of the
launch, registration and checks of the arguments stay. The yardstick is a plain ``autograd.Function`` around the same
launcher, the least that a differentiable operation written in Python costs. Run it with

    TRITON_INTERPRET=1 python -m mmvisattn.analysis.benchmark.call_overhead

on any machine (the variable lets the op take tensors on the CPU), or without the variable on one with a GPU.
"""

import time
import timeit
from collections.abc import Callable
from unittest import mock

import torch
from torch import Tensor

from mmvisattn.ops import window_attention
from mmvisattn.ops.window_attention.triton import launch
from mmvisattn.ops.window_attention.triton import window_attention as registered_window_attention

PLAIN, REGISTERED, PUBLIC = "plain autograd.Function", "registered op", "public function"
CALLS_AT_ONCE = 100
GEOMETRY = {"num_heads": 1, "window_size": (7, 7), "shift_size": (3, 3)}
SCALE = 32**-0.5


class PlainFunction(torch.autograd.Function):
    """The launcher's two functions, joined without registration or checks."""

    @staticmethod
    def forward(ctx, *arguments):
        """Take the arguments of ``launch.forward``."""
        ctx.save_for_backward(*arguments[:4])
        ctx.geometry = arguments[4:]
        return launch.forward(*arguments)

    @staticmethod
    def backward(ctx, grad_out):
        """Return the wanted gradients."""
        needs = ctx.needs_input_grad[:4]
        grads = iter(launch.backward(grad_out, *ctx.saved_tensors, *ctx.geometry, needs))
        return *(next(grads) if needed else None for needed in needs), None, None, None, None


def subjects(device: str) -> dict[str, tuple[Callable[[], Tensor], list[Tensor]]]:
    """Name to a forward call of Swin V1's kind on one small map, and the tensors that want gradients."""
    qkv = torch.randn(1, 14, 14, 3 * 32, device=device, requires_grad=True)
    table = torch.randn(13 * 13, 1, device=device, requires_grad=True)
    plain = (*GEOMETRY.values(), SCALE)
    calls: dict[str, Callable[[], Tensor]] = {
        PLAIN: lambda: PlainFunction.apply(qkv, table, None, None, *plain),
        REGISTERED: lambda: registered_window_attention(
            qkv, table, **GEOMETRY, scale=SCALE, logit_multiplier=None, pad_kv=None
        ),
        PUBLIC: lambda: window_attention(qkv, table, **GEOMETRY, impl="triton"),
    }
    return {name: (call, [qkv, table]) for name, call in calls.items()}


def measure(device: str, rounds: int) -> dict[str, tuple[float, float]]:
    """Microseconds of processor time of a forward, and of a forward with its backward, by name of the subject.

    Args:
        device: ``'cpu'`` (in Triton's interpreter) or ``'cuda'``.
        rounds: How often some hundred calls of each are timed, in turns; the fastest counts.
    """
    best: dict[str, tuple[float, float]] = {}
    with mock.patch.object(launch, "_run", lambda plan, pointers, qkv: None):
        found = subjects(device)
        grad_out = torch.ones_like(found[PLAIN][0]())
        for _ in range(rounds):
            for name, (call, inputs) in found.items():
                both = _microseconds(lambda: torch.autograd.grad(call(), inputs, grad_out))  # noqa: B023
                now = _microseconds(call), both
                best[name] = tuple(map(min, now, best.get(name, now)))  # type: ignore[assignment]
    return best


def _microseconds(call: Callable[[], object]) -> float:
    return timeit.timeit(call, number=CALLS_AT_ONCE, timer=time.process_time) / CALLS_AT_ONCE * 1e6


def main() -> None:
    """Print the table."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found = measure(device, rounds=100)
    print("| call | forward, us | forward and backward, us | ratio |\n|---|---|---|---|")
    for name, (forward, both) in found.items():
        ratios = f"{forward / found[PLAIN][0]:.2f}, {both / found[PLAIN][1]:.2f}"
        print(f"| {name} | {forward:.1f} | {both:.1f} | {ratios} |")


if __name__ == "__main__":
    main()
