"""The window attention op, from the output of the qkv projection to the input of the output projection.

Compared at the four stages of Swin-T with attention written step by step as in mmdet (float32, autocast, half), the
op's own SDPA path, compiled ``flex_attention`` and, as the ceiling, a device copy of the bytes that no implementation
can avoid. In favour of the others, their padding, rolling and cutting of the *input* is not counted: they get it cut
into windows. Before a case is timed, ours must be at most twice as far from the float64 reference as the step-by-step
code is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvisattn.analysis.benchmark.measure import Timing, time_in_turns
from mmvisattn.ops import window_attention
from mmvisattn.ops.relative_position import relative_bias
from mmvisattn.ops.windows import WindowGrid, row_major, shift_masks

WINDOW, SHIFT = (7, 7), (3, 3)
STAGES = ((4, 96, 3), (8, 192, 6), (16, 384, 12), (32, 768, 24))  # stride, channels, heads of Swin-T
OURS = "mmvisattn"


@dataclass(frozen=True)
class Case:
    """One call.

    Attributes:
        batch: Images.
        size: Rows and columns of the map, in tokens.
        channels: Channels of a token.
        heads: Attention heads.
        dtype: Of ``qkv``.
    """

    batch: int
    size: tuple[int, int]
    channels: int
    heads: int
    dtype: torch.dtype

    @property
    def least_bytes(self) -> dict[str, int]:
        """Bytes that must be read and written: q, k, v and the output; backward, q, k, v and all four gradients."""
        values = self.batch * self.size[0] * self.size[1] * self.channels * self.dtype.itemsize
        return {"forward": 4 * values, "backward": 7 * values}


def swin_tiny_cases(image: tuple[int, int], batch: int, dtype: torch.dtype) -> list[Case]:
    """The four stages of Swin-T on an image of a height and width in pixels.

    >>> [case.size for case in swin_tiny_cases((800, 1344), 1, torch.float16)]
    [(200, 336), (100, 168), (50, 84), (25, 42)]
    """
    return [
        Case(batch, (-(-image[0] // stride), -(-image[1] // stride)), channels, heads, dtype)
        for stride, channels, heads in STAGES
    ]


@dataclass(frozen=True)
class Inputs:
    """Tensors of a case, for the op and, cut into windows, for the step-by-step code."""

    qkv: Tensor  # (B, H, W, 3C)
    windows: Tensor  # (B * windows, N, 3C), row-major windows of the padded and rolled map
    table: Tensor  # (169, heads) float32
    mask: Tensor  # (windows, N, N) float32
    grad_out: Tensor  # (B, H, W, C)


def make_inputs(case: Case, device: str) -> Inputs:
    """Random inputs of a case; all but ``mask`` and ``grad_out`` require gradients."""
    generator = torch.Generator(device).manual_seed(0)

    def random(*shape: int, dtype: torch.dtype = case.dtype) -> Tensor:
        return torch.randn(*shape, generator=generator, device=device, dtype=torch.float32).to(dtype)

    (height, width), grid = case.size, WindowGrid(case.size, WINDOW, SHIFT)
    qkv = random(case.batch, height, width, 3 * case.channels)
    kinds = torch.cat([torch.full((stop - start,), kind, device=device) for kind, start, stop in grid.runs])
    mask = shift_masks(grid, torch.float32, torch.device(device))[row_major(kinds, grid)]
    return Inputs(
        qkv.requires_grad_(),
        cut_windows(qkv.detach()).requires_grad_(),
        random((2 * WINDOW[0] - 1) * (2 * WINDOW[1] - 1), case.heads, dtype=torch.float32).requires_grad_(),
        mask,
        random(case.batch, height, width, case.channels),
    )


def cut_windows(x: Tensor) -> Tensor:
    """Pad, roll and cut (B, H, W, C) into (B * windows, N, C), step by step."""
    x = F.pad(x, (0, 0, 0, -x.shape[2] % WINDOW[1], 0, -x.shape[1] % WINDOW[0]))
    x = x.roll((-SHIFT[0], -SHIFT[1]), (1, 2))
    batch, height, width, channels = x.shape
    x = x.view(batch, height // WINDOW[0], WINDOW[0], width // WINDOW[1], WINDOW[1], channels)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, WINDOW[0] * WINDOW[1], channels)


def join_windows(windows: Tensor, case: Case) -> Tensor:
    """Undo :func:`cut_windows`: join, roll back and crop to (B, H, W, C)."""
    rows, columns = (-(-side // window) for side, window in zip(case.size, WINDOW, strict=True))
    x = windows.view(case.batch, rows, columns, *WINDOW, -1).permute(0, 1, 3, 2, 4, 5)
    x = x.reshape(case.batch, rows * WINDOW[0], columns * WINDOW[1], -1).roll(SHIFT, (1, 2))
    return x[:, : case.size[0], : case.size[1]]


def step_by_step(inputs: Inputs, case: Case) -> Tensor:
    """Attention as mmdet writes it: every intermediate is a tensor in memory."""
    count, tokens, _ = inputs.windows.shape
    qkv = inputs.windows.view(count, tokens, 3, case.heads, -1).permute(2, 0, 3, 1, 4)
    query, key, value = qkv[0], qkv[1], qkv[2]
    logits = (query * query.shape[-1] ** -0.5) @ key.mT
    logits = logits + relative_bias(inputs.table, WINDOW).to(_bias_dtype(logits))
    logits = logits.view(case.batch, -1, case.heads, tokens, tokens) + inputs.mask[:, None].to(_bias_dtype(logits))
    weights = logits.view(count, case.heads, tokens, tokens).softmax(-1)
    return join_windows((weights.to(value.dtype) @ value).transpose(1, 2).reshape(count, tokens, -1), case)


def _bias_dtype(logits: Tensor) -> torch.dtype:
    """Under autocast the float32 bias promotes the logits; in pure half it is half as well."""
    return torch.float32 if torch.is_autocast_enabled(logits.device.type) else logits.dtype


def flex(case: Case, device: str) -> Callable[[Inputs], Tensor]:
    """The same through compiled ``flex_attention``, with table and mask in its score function."""
    from torch.nn.attention.flex_attention import flex_attention

    compiled = torch.compile(flex_attention)

    def run(inputs: Inputs) -> Tensor:
        count, tokens, _ = inputs.windows.shape
        qkv = inputs.windows.view(count, tokens, 3, case.heads, -1).permute(2, 0, 3, 1, 4)
        bias = relative_bias(inputs.table, WINDOW)  # (heads, N, N)
        mask, windows = inputs.mask, inputs.mask.shape[0]

        def score(logit: Tensor, window: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return logit + bias[head, query, key] + mask[window % windows, query, key]

        options = {"FORCE_USE_FLEX_ATTENTION": True}  # fewer than 128 queries otherwise take the decoding kernel
        out = compiled(qkv[0], qkv[1], qkv[2], score_mod=score, kernel_options=options)
        return join_windows(out.transpose(1, 2).reshape(count, tokens, -1), case)

    return run


def subjects(case: Case, device: str) -> dict[str, Callable[[Inputs], Tensor]]:
    """Name to a function of the inputs, ours first."""

    def op(impl: str) -> Callable[[Inputs], Tensor]:
        options = {"num_heads": case.heads, "window_size": WINDOW, "shift_size": SHIFT, "impl": impl}
        return lambda inputs: window_attention(inputs.qkv, inputs.table, **options)

    found = {OURS: op("auto"), "sdpa": op("sdpa"), "step by step": lambda inputs: step_by_step(inputs, case)}
    if device == "cuda":
        found["flex"] = flex(case, device)
    return found


def check_gate(case: Case, device: str) -> None:
    """Compare with the float64 reference: at most twice the error of the step-by-step code at the same dtype.

    Raises:
        AssertionError: If ours is further off.
    """
    inputs = make_inputs(case, device)
    exact = window_attention(
        inputs.qkv.detach().double().cpu(),
        inputs.table.detach().double().cpu(),
        num_heads=case.heads,
        window_size=WINDOW,
        shift_size=SHIFT,
        impl="reference",
    )
    with torch.no_grad():
        errors = {
            name: (run(inputs).double().cpu() - exact).norm() / exact.norm()
            for name, run in subjects(case, device).items()
            if name in (OURS, "step by step")
        }
    allowed = 2 * errors["step by step"] + 2 * torch.finfo(torch.float32).eps
    if not errors[OURS] <= allowed:
        raise AssertionError(f"ours is off by {errors[OURS]:.1e} on {case}, more than {allowed:.1e}")


def compare(cases: Sequence[Case], device: str, rounds: int) -> str:
    """Check and time every case; returns a Markdown table of ratios.

    Args:
        cases: What to run.
        device: ``'cpu'`` or ``'cuda'``.
        rounds: How often each is timed.
    """
    lines = [
        "| map | channels | batch | dtype | pass | mode | ms | time / ours | share of copy bandwidth |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for case in cases:
        check_gate(case, device)
        inputs = make_inputs(case, device)
        for direction in ("forward", "backward"):
            timings = time_case(case, inputs, direction, device, rounds)
            ours, copy = timings[OURS].median, timings.pop("copy").median
            for name, timing in timings.items():
                share = f"{copy / timing.median:.2f}" if name == OURS else ""
                numbers = f"{timing.median * 1e3:.3f} | {timing.median / ours:.2f} | {share}"
                lines.append(f"{describe(case)} | {direction} | {name} | {numbers} |")
    return "\n".join(lines)


def describe(case: Case) -> str:
    """The first cells of a row.

    >>> describe(Case(1, (50, 84), 384, 12, torch.float16))
    '| 50 x 84 | 384 | 1 | float16'
    """
    dtype = str(case.dtype).removeprefix("torch.")
    return f"| {case.size[0]} x {case.size[1]} | {case.channels} | {case.batch} | {dtype}"


def time_case(case: Case, inputs: Inputs, direction: str, device: str, rounds: int) -> dict[str, Timing]:
    """Time all subjects of a case in one direction, and a copy of the bytes that cannot be avoided."""
    source = torch.empty(case.least_bytes[direction] // 2, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    work: dict[str, Callable[[], object]] = {"copy": lambda: target.copy_(source)}
    for name, run in subjects(case, device).items():
        work[name] = _directed(run, inputs, direction)
    if device == "cuda" and case.dtype != torch.float32:
        work["step by step, autocast"] = _autocast(_directed(lambda i: step_by_step(i, case), inputs, direction), case)
    return time_in_turns(work, rounds, device)


def _directed(run: Callable[[Inputs], Tensor], inputs: Inputs, direction: str) -> Callable[[], object]:
    """The forward pass without gradients, or the backward pass alone of a forward pass made once."""
    if direction == "forward":

        def forward() -> None:
            with torch.no_grad():
                run(inputs)

        return forward
    leaves = [inputs.qkv, inputs.windows, inputs.table]
    out = run(inputs)
    return lambda: torch.autograd.grad(out, leaves, inputs.grad_out.to(out.dtype), retain_graph=True, allow_unused=True)


def _autocast(run: Callable[[], object], case: Case) -> Callable[[], object]:
    def wrapped() -> None:
        with torch.autocast("cuda", dtype=case.dtype):
            run()

    return wrapped
