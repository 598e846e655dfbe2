"""Opt-in tuning: time candidate configurations on this machine's GPU and rewrite the table. Never runs by itself."""

from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from mmvisattn.ops.window_attention.triton.configurations import (
    EXAMPLE_WINDOW,
    TABLE_FILE,
    Configuration,
    Row,
    architecture_of,
    read_table,
    replaced,
    write_table,
)

TUNED_CHANNELS = 384  # of the timed image: Swin-T's third stage, whatever the width of its heads
TUNED_WINDOWS = (8, 16, 16)  # images, rows and columns of windows: enough to fill any GPU


def tune(
    report: Callable[[str], object],
    measure: Callable[[Row, Configuration], float] | None = None,
    architecture: str | None = None,
    file: Path = TABLE_FILE,
) -> None:
    """Rewrite the rows of one architecture with the fastest candidates.

    The choice of the number of programs decides in which order gradients are summed, so results may change in their
    last bits. Compile the kernels anew afterwards (`make kernels`): a fast candidate may spill more than we ship.

    Args:
        report: Called with a line for each row.
        measure: Milliseconds of one call; by default measured on the first GPU.
        architecture: Key of the table; by default that of the first GPU.
        file: The table.
    """
    architecture = architecture or architecture_of(torch.device("cuda", 0))
    measure = measure or _on_gpu(architecture)
    table = read_table(file)
    tuned = []
    for row in table[architecture]:
        times = {candidate: measure(row, candidate) for candidate in candidates(row)}
        fastest = min(times, key=lambda candidate: times[candidate])
        tuned.append(row._replace(configuration=fastest))
        report(f"{row.op} {row[1:4]}: {times[row.configuration]:.4f} -> {times[fastest]:.4f} ms with {fastest}")
    write_table(table | {architecture: tuned}, file)


def candidates(row: Row) -> Iterator[Configuration]:
    """The present configuration and its neighbours."""
    now = row.configuration
    yield now
    if row.op.startswith("whole"):
        options = [(now.block_q, now.block_k, warps, programs) for warps in (2, 4, 8) for programs in (1, 2, 3, 4, 8)]
    else:
        blocks = [(32, 32), (32, 64), (64, 32), (64, 64), (128, 64)]
        options = [(*block, warps, now.programs) for block in blocks for warps in (4, 8)]
    for block_q, block_k, warps, programs in options:
        for stages in (1, 2):
            candidate = Configuration(block_q, block_k, warps, stages, programs)
            if candidate != now:
                yield candidate


def _on_gpu(architecture: str) -> Callable[[Row, Configuration], float]:
    from triton.runtime.errors import OutOfResources
    from triton.testing import do_bench

    def milliseconds(row: Row, candidate: Configuration) -> float:
        call = _example_call(row)
        try:
            with replaced(architecture, row, candidate):
                return float(do_bench(call))
        except OutOfResources:
            return float("inf")

    return milliseconds


def _example_call(row: Row) -> Callable[[], object]:
    """A forward or backward of Swin's kind that runs the row's kernel."""
    from mmvisattn.ops.window_attention.triton import launch

    heads = max(1, TUNED_CHANNELS // row.max_head_dim)
    channels = heads * row.max_head_dim
    dtype = torch.float16 if row.numbers == "half" else torch.float32
    rows, columns = EXAMPLE_WINDOW[row.max_tokens]
    batch, down, across = TUNED_WINDOWS
    # One row of windows ends in padding.
    qkv = torch.randn(batch, down * rows - 1, across * columns, 3 * channels, dtype=dtype, device="cuda")
    table = torch.randn((2 * rows - 1) * (2 * columns - 1), heads, device="cuda")
    table = None if row.op == "whole_backward_no_table" else table
    pad_kv = torch.randn(2, channels, dtype=dtype, device="cuda")
    arguments = (qkv, table, None, pad_kv, heads, (rows, columns), (rows // 2, columns // 2), row.max_head_dim**-0.5)
    if row.op.endswith("forward"):
        return lambda: launch.forward(*arguments)
    grad_out = torch.randn_like(qkv[..., :channels])
    return lambda: launch.backward(grad_out, *arguments, [True, table is not None, False, True])
