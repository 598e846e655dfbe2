"""Which tiles and how many warps each kernel runs with: a static table, one row per kernel and size class.

The rows are data, in `configurations.json`; `tuner.py` rewrites them on the machine it runs on. There is no autotuning
at run time: it would stall training on images of many sizes, and its choices would change results in their last bits.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

TABLE_FILE = Path(__file__).with_name("configurations.json")
OPS = (
    "whole_forward",
    "whole_backward",
    "whole_backward_no_table",
    "tiled_forward",
    "tiled_backward_queries",
    "tiled_backward_keys",
)
EXAMPLE_WINDOW = {32: (5, 6), 64: (7, 7), 1024: (12, 12)}
"""By `max_tokens`, a window to compile and time its rows with: one that fills its tiles badly."""
MAX_ROWS = 60
"""Rows per architecture: what a person can still read and a continuous-integration run still compile."""
CACHED_CALLS = 1024
"""Signatures whose launches are kept: four stages, with and without shift, for a hundred image sizes."""
_CACHES: list[Any] = []


class Configuration(NamedTuple):
    """How one kernel is launched."""

    block_q: int
    """Queries per tile."""
    block_k: int
    """Keys per tile."""
    warps: int
    stages: int
    """Depth of the software pipeline of loads."""
    programs: int
    """Programs per multiprocessor, for kernels whose programs loop over windows."""

    @property
    def blocks(self) -> dict[str, int]:
        """The tile, as arguments of a tiled kernel."""
        return {"BLOCK_Q": self.block_q, "BLOCK_K": self.block_k}

    @property
    def options(self) -> dict[str, int]:
        """The launch options."""
        return {"num_warps": self.warps, "num_stages": self.stages}


class Row(NamedTuple):
    """One row of the table: a size class and its configuration. A call uses the first row whose limits hold it."""

    op: str
    max_tokens: int
    """Largest window, in tokens."""
    max_head_dim: int
    numbers: str
    """Kind of matrix product: "half" for float16 and bfloat16, "ieee" or "tf32" for float32."""
    configuration: Configuration


def read_table(file: Path = TABLE_FILE) -> dict[str, list[Row]]:
    """Read the rows of every architecture.

    Raises:
        ValueError: An architecture has more than `MAX_ROWS` rows, or a row names an unknown kernel.
    """
    table: dict[str, list[Row]] = {}
    for architecture, rows in json.loads(file.read_text()).items():
        table[architecture] = [Row(*row[:4], Configuration(*row[4:])) for row in rows]
        if len(rows) > MAX_ROWS:
            raise ValueError(f"{file} has {len(rows)} rows for {architecture}; at most {MAX_ROWS} are allowed")
        unknown = {row.op for row in table[architecture]} - set(OPS)
        if unknown:
            raise ValueError(f"{file} names the kernels {sorted(unknown)}; known are {', '.join(OPS)}")
    return table


def write_table(table: dict[str, list[Row]], file: Path = TABLE_FILE) -> None:
    """Write the rows of every architecture, one a line."""
    parts = []
    for architecture, rows in table.items():
        lines = [json.dumps([*row[:4], *row.configuration]) for row in rows]
        parts.append(f'  "{architecture}": [\n    ' + ",\n    ".join(lines) + "\n  ]")
    file.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def cached_until_replaced(function: Callable[..., Any]) -> Any:
    """Keep the results of a function that depends on the table, as long as no row has another configuration."""
    cached = lru_cache(maxsize=CACHED_CALLS)(function)
    _CACHES.append(cached)
    return cached


def forget() -> None:
    """Forget every result that depends on the table."""
    for cached in _CACHES:
        cached.cache_clear()


@cached_until_replaced
def find_configuration(op: str, tokens: int, head_dim: int, numbers: str, architecture: str) -> Configuration | None:
    """Return the configuration of a kernel, or None where the table has no row for the call.

    Args:
        op: One of `OPS`.
        tokens: Tokens per window.
        head_dim: Channels per head.
        numbers: "half", "ieee" or "tf32".
        architecture: A key of the table, from `architecture_of`.
    """
    for row in _table()[architecture]:
        fits = tokens <= row.max_tokens and head_dim <= row.max_head_dim and numbers == row.numbers
        if row.op == op and fits:
            return row.configuration
    return None


@lru_cache
def architecture_of(device: torch.device) -> str:
    """Return the key of the table for a device: the newest architecture in it that is not newer than the device.

    The interpreter, on the CPU, uses the rows of the oldest.
    """
    known = sorted(int(name) for name in _table())
    if device.type != "cuda":
        return str(known[0])
    major, minor = torch.cuda.get_device_capability(device)
    return str(max(number for number in known if number <= 10 * major + minor))


@contextmanager
def replaced(architecture: str, row: Row, configuration: Configuration) -> Iterator[None]:
    """Let one row have another configuration for a while: to time it."""
    rows = _table()[architecture]
    place = rows.index(row)
    rows[place] = row._replace(configuration=configuration)
    forget()
    try:
        yield
    finally:
        rows[place] = row
        forget()


@lru_cache
def _table() -> dict[str, list[Row]]:
    return read_table()
