"""What the Triton kernels use of a GPU, found by compiling them ahead of time: no GPU, no driver.

Every row of the table of configurations is compiled for its architecture with all features on, and the registers,
spills and shared memory that the assembler reports are kept in `kernel_resources.json` beside this file. A record is
valid as long as the code of its kernel, its configuration and Triton itself stay the same; `stale` finds the others.
"""

import ast
import contextlib
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from mmvisattn.ops.window_attention.triton.configurations import (
    EXAMPLE_WINDOW,
    Configuration,
    Row,
    read_table,
)

RECORDS_FILE = Path(__file__).with_name("kernel_resources.json")
KERNELS = "mmvisattn.ops.window_attention.triton"
SHARED_BY_ALL = ("addressing", "blocks")

# op -> module and kernel
KERNEL_OF = {
    "whole_forward": ("whole_window", "whole_window_forward"),
    "whole_backward": ("whole_window", "whole_window_backward"),
    "whole_backward_no_table": ("whole_window", "whole_window_backward"),
    "tiled_forward": ("tiled_forward", "tiled_forward"),
    "tiled_backward_queries": ("tiled_backward_queries", "tiled_backward_queries"),
    "tiled_backward_keys": ("tiled_backward_keys", "tiled_backward_keys_and_bias"),
    "reduction": ("reduction", "reduce_partials"),
}

MARKS = ("<!-- resources -->", "<!-- end of resources -->")
NARROW = 32  # the narrowest class of heads: Swin's
MAX_SPILL_BYTES = 64
# CUDA C programming guide, table of compute capabilities: the most shared memory one block can have. 8.6 and 8.9 run
# the rows of 8.0, so those keep to the smaller limit.
SHARED_LIMIT = {"80": 99 * 1024, "90": 227 * 1024, "120": 99 * 1024}
FLOAT32_POINTERS = (
    "table_ptr",
    "multiplier_ptr",
    "statistics_ptr",
    "bias_partial_ptr",
    "multiplier_partial_ptr",
    "pad_partial_ptr",
    "grad_table_ptr",
    "grad_multiplier_ptr",
    "grad_pad_ptr",
)


class Build(NamedTuple):
    """One compilation: a row of the table on one architecture, as Swin V1 ("plain") or Swin V2 ("cosine") uses it."""

    architecture: str
    row: Row
    logits: str

    @property
    def name(self) -> str:
        """Key of the record."""
        row = self.row
        size = f"{row.max_tokens}_tokens/{row.max_head_dim}_channels"
        return f"sm_{self.architecture}/{row.op}/{size}/{row.numbers}/{self.logits}"


class Resources(NamedTuple):
    """What the assembler reports for one kernel."""

    registers: int
    """Per thread."""
    spill_bytes: int
    """Per thread, stored to local memory."""
    shared_bytes: int
    """Per block."""
    matrix_instructions: int
    """In the text of the program: mma.sync or wgmma."""
    wide_addresses: bool
    """Whether row numbers of the image tensors are 64-bit integers in the intermediate representation."""


def builds() -> Iterator[Build]:
    """Every compilation that the table of configurations calls for, and those of the reduction.

    Cosine logits need more registers than plain ones, and wide heads more than narrow ones; the lighter variant is
    compiled for half precision and the narrowest class of heads only.
    """
    for architecture, rows in read_table().items():
        for row in rows:
            yield Build(architecture, row, "cosine")
            if row.max_head_dim == NARROW and row.numbers == "half":
                yield Build(architecture, row, "plain")
        for tokens in (64, 1024):
            row = Row("reduction", tokens, 32, "ieee", Configuration(0, 0, warps=4, stages=1, programs=0))
            yield Build(architecture, row, "cosine")


def sample(size: int = 10) -> list[Build]:
    """A fixed choice of builds in half precision, spread over kernels and architectures by a hash of their names."""
    candidates = [build for build in builds() if build.row.numbers == "half"]
    return sorted(candidates, key=lambda build: hashlib.sha256(build.name.encode()).hexdigest())[:size]


def read_records(file: Path = RECORDS_FILE) -> dict[str, dict[str, Any]]:
    """Read the records, by name of the build. Each holds the key it was made for, and the fields of `Resources`."""
    return json.loads(file.read_text()) if file.exists() else {}


def write_records(records: dict[str, dict[str, Any]], file: Path = RECORDS_FILE) -> None:
    """Write the records that the present table calls for, one a line."""
    names = [build.name for build in builds()]
    lines = [f"  {json.dumps(name)}: {json.dumps(records[name])}" for name in names if name in records]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def stale(records: dict[str, dict[str, Any]]) -> list[Build]:
    """Builds without a record, or whose kernel, configuration or Triton changed since."""
    return [build for build in builds() if records.get(build.name, {}).get("key") != record_key(build)]


def record_key(build: Build) -> str:
    """What a record depends on: the version of Triton, the kernel's code and the configuration."""
    parts = (version("triton"), _code_hash(KERNEL_OF[build.row.op][0]), tuple(build.row), build.logits)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


@lru_cache
def _code_hash(module: str) -> str:
    """Hash of the code of a kernel's module and of those all kernels share, without comments and docstrings."""
    digest = hashlib.sha256()
    for name in (*SHARED_BY_ALL, module):
        source = find_spec(f"{KERNELS}.{name}").origin  # type: ignore[union-attr]
        tree = ast.parse(Path(str(source)).read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.Module) and ast.get_docstring(node) is not None:
                node.body = node.body[1:]
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()


def refresh(
    chosen: Iterable[Build], records: dict[str, dict[str, Any]], jobs: int, save: bool = True
) -> dict[str, dict[str, Any]]:
    """Compile the builds in parallel, and return and (after each) save the records with theirs renewed."""
    records = dict(records)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(compile_build, build): build for build in chosen}
        for future in as_completed(futures):
            build = futures[future]
            records[build.name] = {"key": record_key(build), **future.result()._asdict()}
            if save:
                write_records(records)
    return records


def violations(build: Build, record: dict[str, Any]) -> list[str]:
    """What a kernel uses beyond what we ship: spills, shared memory, no matrix instructions, narrow addresses."""
    found = []
    if record["spill_bytes"] > MAX_SPILL_BYTES:
        found.append(f"{build.name} spills {record['spill_bytes']} bytes; at most {MAX_SPILL_BYTES} are allowed")
    if record["shared_bytes"] > SHARED_LIMIT[build.architecture]:
        limit = SHARED_LIMIT[build.architecture]
        found.append(f"{build.name} needs {record['shared_bytes']} bytes of shared memory; a block has {limit}")
    if build.row.numbers != "ieee" and not record["matrix_instructions"]:
        found.append(f"{build.name} has no matrix instruction")
    if not record["wide_addresses"]:
        found.append(f"{build.name} numbers rows with less than 64 bits")
    return found


def resource_table(records: dict[str, dict[str, Any]]) -> str:
    """The records as a Markdown table: registers / spilled bytes / shared KiB per architecture."""
    architectures = list(read_table())
    lines = [
        "| kernel, largest window and head, numbers, logits | " + " | ".join(f"sm_{a}" for a in architectures) + " |",
        "|---" * (len(architectures) + 1) + "|",
    ]
    cells: dict[str, dict[str, str]] = {}
    for build in builds():
        record = records[build.name]
        row = f"{build.row.op}, {build.row.max_tokens}, {build.row.max_head_dim}, {build.row.numbers}, {build.logits}"
        shared = record["shared_bytes"] / 1024
        use = f"{record['registers']} / {record['spill_bytes']} / {shared:.0f}"
        cells.setdefault(row, {})[build.architecture] = use
    for row, by_architecture in cells.items():
        lines.append(f"| {row} | " + " | ".join(by_architecture.get(a, "") for a in architectures) + " |")
    return "\n".join(lines)


def write_into(document: Path, table: str) -> None:
    """Replace what stands between the marks of the resource table in a document.

    Raises:
        ValueError: The document lacks the marks.
    """
    text = document.read_text()
    if MARKS[0] not in text or MARKS[1] not in text:
        raise ValueError(f"{document} lacks the marks {MARKS[0]} and {MARKS[1]}")
    before, rest = text.split(MARKS[0])
    document.write_text(f"{before}{MARKS[0]}\n{table}\n{MARKS[1]}{rest.split(MARKS[1])[1]}")


def make(document: Path, jobs: int, everything: bool, report: Callable[[str], object]) -> int:
    """Compile what changed (or everything), save the records and the table in the document, and report violations.

    Args:
        document: The Markdown file that holds the resource table.
        jobs: Compilations at a time.
        everything: Also compile what did not change.
        report: Called with each line of the report.

    Returns:
        The number of violations.
    """
    records = read_records()
    chosen = list(builds()) if everything else stale(records)
    report(f"compiling {len(chosen)} of {len(list(builds()))} kernels")
    records = refresh(chosen, records, jobs)
    write_records(records)
    write_into(document, resource_table(records))
    found = [line for build in builds() for line in violations(build, records[build.name])]
    for line in found:
        report(line)
    report(f"{len(found)} violations")
    return len(found)


def compile_build(build: Build) -> Resources:
    """Compile one kernel for its architecture and return what it uses."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    module, name = KERNEL_OF[build.row.op]
    kernel = getattr(import_module(f"{KERNELS}.{module}"), name)
    constants = _constants(build)
    element = "bf16" if build.row.numbers == "half" else "fp32"
    signature: dict[str, str] = {}
    attributes = {}
    values = {}
    for position, argument in enumerate(kernel.arg_names):
        if argument in constants:
            signature[argument] = "constexpr"
            values[argument] = constants[argument]
        elif argument.endswith("_ptr"):
            signature[argument] = "*fp32" if argument in FLOAT32_POINTERS else f"*{element}"
            attributes[(position,)] = [["tt.divisibility", 16]]
        else:
            signature[argument] = "fp32" if argument == "scale" else "i32"
    log = io.StringIO()
    options = build.row.configuration.options
    with triton.knobs.nvidia.scope(), triton.knobs.compilation.scope(), contextlib.redirect_stdout(log):
        triton.knobs.nvidia.dump_ptxas_log = True
        triton.knobs.compilation.always_compile = True
        compiled = triton.compile(
            ASTSource(fn=kernel, signature=signature, constexprs=values, attrs=attributes),
            target=GPUTarget("cuda", int(build.architecture), 32),
            options=options,
        )
    return _resources(log.getvalue(), compiled)


def _constants(build: Build) -> dict[str, Any]:
    """Compile-time arguments with every feature on; absent pointers are None, as the launcher passes them."""
    row = build.row
    rows, columns = EXAMPLE_WINDOW[row.max_tokens]
    table = row.op != "whole_backward_no_table"
    cosine = build.logits == "cosine"
    constants: dict[str, Any] = {
        "HEAD_DIM": row.max_head_dim,
        "PADDED_DIM": row.max_head_dim,
        "WINDOW_H": rows,
        "WINDOW_W": columns,
        "SLOTS": row.max_tokens,
        **row.configuration.blocks,
        "HAS_BIAS": table,
        "HAS_SHIFT": True,
        "HAS_PAD": True,
        "COSINE": cosine,
        "PRECISION": "ieee" if row.numbers == "half" else row.numbers,
        "NEED_QKV": True,
        "NEED_TABLE": table,
        "NEED_MULTIPLIER": cosine,
        "NEED_PAD": True,
    }
    if row.op == "reduction":
        from mmvisattn.ops.window_attention.triton.plans import REDUCTION

        constants.update(REDUCTION, STRIDE=64 if row.max_tokens == 64 else rows * columns)
    if not table:
        constants.update(table_ptr=None, bias_partial_ptr=None)
    if not cosine:
        constants.update(multiplier_ptr=None, multiplier_partial_ptr=None)
    return constants


def _resources(log: str, compiled: Any) -> Resources:
    registers = re.search(r"Used (\d+) registers", log)
    spills = re.search(r"(\d+) bytes spill stores", log)
    assert registers is not None and spills is not None, f"unknown report of the assembler: {log[-500:]}"
    assembly = compiled.asm["ptx"]
    return Resources(
        registers=int(registers[1]),
        spill_bytes=int(spills[1]),
        shared_bytes=compiled.metadata.shared,
        matrix_instructions=assembly.count("mma.sync") + assembly.count("wgmma.mma_async"),
        wide_addresses=re.search(r"arith.muli .* : tensor<\d+xi64", compiled.asm["ttir"]) is not None,
    )
