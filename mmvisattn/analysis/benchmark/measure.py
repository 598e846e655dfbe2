"""Timing several things in turns, and the memory that one of them needs."""

import ctypes
import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

Work = Callable[[], object]
GPU_CACHE = 256 * 2**20  # bytes; more than the last-level cache of any GPU


@dataclass(frozen=True)
class Timing:
    """Times of one piece of work.

    Attributes:
        seconds: Every run, in order.
    """

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle run, in seconds."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Slowest over fastest run."""
        return max(self.seconds) / min(self.seconds)


def time_in_turns(work: Mapping[str, Work], rounds: int, device: str) -> dict[str, Timing]:
    """Time pieces of work in turns, so that whatever else the machine does hits all of them alike.

    Args:
        work: Name to a callable without arguments.
        rounds: How often each is timed; one more round, first, is not counted.
        device: ``'cpu'`` or ``'cuda'``; on a GPU its own clock is read, and its cache is emptied before each run.

    Raises:
        ValueError: If ``rounds`` is not positive.

    Example:
        >>> timings = time_in_turns({"sleep": lambda: time.sleep(0.01)}, rounds=2, device="cpu")
        >>> len(timings["sleep"].seconds), timings["sleep"].median >= 0.01
        (2, True)
    """
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}")
    seconds: dict[str, list[float]] = {name: [] for name in work}
    clock = _gpu_seconds if device == "cuda" else _cpu_seconds
    for turn in range(rounds + 1):
        for name, run in work.items():
            elapsed = clock(run)
            if turn:
                seconds[name].append(elapsed)
    return {name: Timing(tuple(times)) for name, times in seconds.items()}


def _cpu_seconds(run: Work) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _gpu_seconds(run: Work) -> float:
    """Time between two events on the GPU, with nothing of the input left in its cache."""
    torch.empty(GPU_CACHE, dtype=torch.uint8, device="cuda").zero_()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e3


def peak_memory(run: Work, device: str) -> int:
    """Most memory, in bytes, that a piece of work holds at once beyond what was held before.

    On a GPU that is what torch allocates. On the CPU it is the growth of the process' resident set, which Linux tracks
    and which rounds to pages; freed memory is handed back to the system first, so that it is not used again unseen.
    """
    gc.collect()
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest resident set so far
    before = _status_bytes("VmRSS")
    run()
    return max(0, _status_bytes("VmHWM") - before)


def _status_bytes(field: str) -> int:
    """A memory figure of this process from Linux, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise ValueError(f"/proc/self/status has no field {field!r}")
