"""Cutting a map into windows and putting it together again.

Padding, cyclic shift and partition are one gather; merging, shifting back and cropping are one scatter. Both follow
index tables that are built once per geometry and kept in a bounded cache.

A window *slot* is one position of one window. Slots of padding hold no token of the map.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mmvisattn.ops.tracing import is_traced

SHIFT_MASK = -100.0
"""Added to the logits between tokens that a cyclic shift brought together (Swin Transformer, section 3.2)."""

CACHED_GEOMETRIES = 64
"""Index tables kept at once: two per stage of a four-stage backbone, for eight image sizes."""


class WindowGrid(NamedTuple):
    """How an H x W map is cut into windows. Every pair is (rows, columns), in tokens."""

    size: tuple[int, int]
    window: tuple[int, int]
    shift: tuple[int, int] = (0, 0)

    @property
    def counts(self) -> tuple[int, int]:
        """Rows and columns of windows, the last ones padded where the map is no multiple of the window."""
        (height, width), (rows, columns) = self.size, self.window
        return -(-height // rows), -(-width // columns)

    @property
    def tokens(self) -> int:
        """Slots of one window."""
        return self.window[0] * self.window[1]

    @property
    def pairs(self) -> int:
        """Pairs of query and key in all windows: the logits of one head of one map."""
        return self.counts[0] * self.counts[1] * self.tokens**2

    @property
    def is_whole(self) -> bool:
        """Whether the map is one window, without padding or shift."""
        return self.window == self.size and self.shift == (0, 0)

    @property
    def runs(self) -> list[tuple[int, int, int]]:
        """Runs of windows that share one shift mask: (kind, first window, last window + 1).

        Kind 0 is the interior, 1 the last column of windows, 2 the last row, 3 the corner. The tables list the
        windows in this order. A map that is not shifted is one run of kind 0.
        """
        rows, columns = self.counts
        last_rows, last_columns = int(self.shift[0] > 0), int(self.shift[1] > 0)
        inner_rows, inner_columns = rows - last_rows, columns - last_columns
        sizes = (
            inner_rows * inner_columns,
            inner_rows * last_columns,
            last_rows * inner_columns,
            last_rows * last_columns,
        )
        runs, start = [], 0
        for kind, size in enumerate(sizes):
            if size > 0:
                runs.append((kind, start, start + size))
            start += size
        return runs


class WindowTables(NamedTuple):
    """Where the tokens of one map go. Windows are listed in the order of `WindowGrid.runs`."""

    source: Tensor
    """(windows, N) token index of each slot; H*W at padding."""
    slot: Tensor
    """(H*W,) slot of each token: window * N + position."""
    padding: Tensor
    """(padded slots,) the slots without a token."""


def window_tables(grid: WindowGrid, like: Tensor) -> WindowTables:
    """Return the index tables of `grid` on the device of `like`, from the cache where they can be kept."""
    if is_traced(like):  # a recorded tensor must not outlive its recording
        return _build_tables(grid, like.device)
    return _cached_tables(grid, like.device)


@lru_cache(maxsize=CACHED_GEOMETRIES)
def _cached_tables(grid: WindowGrid, device: torch.device) -> WindowTables:
    with torch.inference_mode(False):  # a table first built for inference serves training later
        return _build_tables(grid, device)


def _build_tables(grid: WindowGrid, device: torch.device) -> WindowTables:
    (height, width), (rows, columns) = grid.size, grid.counts
    # Place on the padded map of each slot, after rolling by -shift.
    y = (torch.arange(rows * grid.window[0], device=device) + grid.shift[0]) % (rows * grid.window[0])
    x = (torch.arange(columns * grid.window[1], device=device) + grid.shift[1]) % (columns * grid.window[1])
    y = y.view(rows, 1, grid.window[0], 1)
    x = x.view(1, columns, 1, grid.window[1])
    source = torch.where((y < height) & (x < width), y * width + x, height * width)
    source = source.reshape(rows * columns, grid.tokens)
    source = source[_window_kinds(grid, device).argsort(stable=True)]
    # Sorting lists the slots by token; the padding, which has the largest index, comes last.
    slots = source.flatten().argsort(stable=True)
    return WindowTables(source, slots[: height * width], slots[height * width :])


def _window_kinds(grid: WindowGrid, device: torch.device) -> Tensor:
    """Return the kind (see `WindowGrid.runs`) of each window in row-major order."""
    rows, columns = grid.counts
    last_row = (torch.arange(rows, device=device) == rows - 1) & (grid.shift[0] > 0)
    last_column = (torch.arange(columns, device=device) == columns - 1) & (grid.shift[1] > 0)
    return (2 * last_row[:, None] + last_column).flatten()


def row_major(windows: Tensor, grid: WindowGrid) -> Tensor:
    """Bring windows, first axis, from the order of the tables to row-major order on the rolled map."""
    order = _window_kinds(grid, windows.device).argsort(stable=True)
    return windows[order.argsort()]


def shift_masks(grid: WindowGrid, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the additive mask of each kind of window, (4, N, N).

    After the roll, only the last window on a shifted axis mixes tokens from both ends of the (padded) map: its first
    `window - shift` lines are the end of the map, the others come from the beginning.
    """
    rows, columns = grid.window
    wrapped_row = torch.arange(rows, device=device) >= rows - grid.shift[0]
    wrapped_column = torch.arange(columns, device=device) >= columns - grid.shift[1]
    by_row = wrapped_row[:, None].expand(rows, columns).flatten()
    by_column = wrapped_column.expand(rows, columns).flatten()
    rows_differ = by_row[:, None] != by_row
    columns_differ = by_column[:, None] != by_column
    apart = torch.stack((torch.zeros_like(rows_differ), columns_differ, rows_differ, rows_differ | columns_differ))
    return apart.to(dtype) * SHIFT_MASK


def partition(tokens: Tensor, grid: WindowGrid, padding: Tensor | None = None) -> Tensor:
    """Gather the windows of a map: pad bottom and right, roll by -shift, cut.

    Args:
        tokens: (B, H, W, C).
        grid: the geometry.
        padding: (C,) value of every padded slot; None for zeros.

    Returns:
        (windows, B, N, C), windows in the order of `WindowGrid.runs`.
    """
    if grid.is_whole:
        return tokens.flatten(1, 2)[None]
    tables = window_tables(grid, tokens)
    return _Partition.apply(tokens, padding, grid.size, *tables)  # type: ignore[no-any-return]


def pad_row(pad_kv: Tensor | None) -> Tensor | None:
    """Return the qkv row (3*C,) of padded slots from their key and value (2, C); their query is never read."""
    return None if pad_kv is None else torch.cat((torch.zeros_like(pad_kv[:1]), pad_kv)).flatten()


def split_windows(qkv: Tensor, num_heads: int, grid: WindowGrid, pad_kv: Tensor | None) -> tuple[Tensor, ...]:
    """Gather the windows of (B, H, W, 3*C): query, key and value, each (windows, B, heads, N, D)."""
    windows = partition(qkv, grid, pad_row(pad_kv))
    head_dim = qkv.shape[3] // (3 * num_heads)
    return windows.reshape(*windows.shape[:3], 3, num_heads, head_dim).permute(3, 0, 1, 4, 2, 5).unbind()


def join_heads(attended: Tensor, grid: WindowGrid) -> Tensor:
    """Bring (windows*B, heads, N, D) to (windows, B, N, heads*D)."""
    rows, heads, tokens, head_dim = attended.shape
    windows = grid.counts[0] * grid.counts[1]
    return attended.transpose(1, 2).reshape(windows, rows // windows, tokens, heads * head_dim)


def merge(windows: Tensor, grid: WindowGrid) -> Tensor:
    """Undo `partition`: (windows, B, N, C) to (B, H, W, C), rolled back and cropped."""
    if grid.is_whole:
        return windows.reshape(windows.shape[1], *grid.size, windows.shape[3])
    tables = window_tables(grid, windows)
    return _Merge.apply(windows, grid.size, *tables)  # type: ignore[no-any-return]


def slot_rows(tables: WindowTables, batch: int, map_tokens: int) -> Tensor:
    """Return for each slot (windows, B, N) its row in the (B*H*W, C) matrix of tokens, and B*H*W for padding."""
    source = tables.source[:, None, :]
    offset = torch.arange(batch, device=source.device)[:, None] * map_tokens
    return torch.where(source < map_tokens, source + offset, batch * map_tokens)


def _token_rows(tables: WindowTables, batch: int) -> Tensor:
    """Return for each token (B, H*W) its row in the (windows*B*N, C) matrix of slots."""
    tokens = tables.source.shape[1]
    first = tables.slot + (tables.slot // tokens) * ((batch - 1) * tokens)
    return first + torch.arange(batch, device=first.device)[:, None] * tokens


def _padding_rows(tables: WindowTables, batch: int) -> Tensor:
    """Return for each padded slot (B, padded slots) its row in the (windows*B*N, C) matrix of slots."""
    return _token_rows(tables._replace(slot=tables.padding), batch)


class _Partition(torch.autograd.Function):
    """The gather. Its adjoint is the scatter, so both differentiate any number of times without index_add."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, padding: Tensor | None, size: tuple[int, int], *arrays: Tensor) -> Tensor:
        tables = WindowTables(*arrays)
        ctx.save_for_backward(*arrays)
        ctx.size, ctx.pads = size, padding is not None
        batch, height, width, channels = tokens.shape
        rows = slot_rows(tables, batch, height * width)
        flat = tokens.reshape(-1, channels).index_select(0, rows.flatten().clamp(max=batch * height * width - 1))
        if tables.padding.shape[0] > 0:
            fill = flat.new_zeros(channels) if padding is None else padding.to(flat.dtype)
            flat[_padding_rows(tables, batch)] = fill
        return flat.view(*rows.shape, channels)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        tables = WindowTables(*ctx.saved_tensors)
        grad_tokens = grad_padding = None
        if ctx.needs_input_grad[0]:
            grad_tokens = _Merge.apply(grad, ctx.size, *tables)
        if ctx.pads and ctx.needs_input_grad[1]:
            grad_padding = grad.flatten(0, 2)[_padding_rows(tables, grad.shape[1])].sum((0, 1))
        return grad_tokens, grad_padding, None, None, None, None


class _Merge(torch.autograd.Function):
    """The scatter, as a gather by the inverse table."""

    @staticmethod
    def forward(ctx: Any, windows: Tensor, size: tuple[int, int], *arrays: Tensor) -> Tensor:
        ctx.save_for_backward(*arrays)
        ctx.size = size
        rows = _token_rows(WindowTables(*arrays), windows.shape[1])
        flat = windows.reshape(-1, windows.shape[3]).index_select(0, rows.flatten())
        return flat.view(windows.shape[1], *size, windows.shape[3])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _Partition.apply(grad, None, ctx.size, *ctx.saved_tensors), None, None, None, None
