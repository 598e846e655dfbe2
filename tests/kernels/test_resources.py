"""What the kernels use of a GPU: the records are up to date and within limits, and a sample is compiled anew."""

import ast
import re
from pathlib import Path

import pytest

from mmvisattn.analysis import kernel_resources
from mmvisattn.analysis.kernel_resources import builds, read_records, sample, stale, violations

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "mmvisattn" / "ops" / "window_attention" / "triton"


def test_every_kernel_has_a_record_of_its_present_code():
    """If this fails, run `make kernels`."""
    outdated = [build.name for build in stale(read_records())]
    assert not outdated, f"run `make kernels`: {len(outdated)} kernels changed, {outdated[:3]} among them"


def test_no_shipped_kernel_breaks_a_limit():
    records = read_records()
    assert not [line for build in builds() for line in violations(build, records[build.name])]


def test_violations_are_found():
    build = next(builds())
    bad = {"spill_bytes": 65, "shared_bytes": 10**6, "matrix_instructions": 0, "wide_addresses": False}
    assert len(violations(build, bad)) == 4
    good = {"spill_bytes": 64, "shared_bytes": 99 * 1024, "matrix_instructions": 1, "wide_addresses": True}
    assert not violations(build, good)


@pytest.mark.parametrize("build", sample(), ids=lambda build: build.name)
def test_a_sample_compiles_to_what_its_record_says(build):
    found = kernel_resources.compile_build(build)._asdict()
    assert not violations(build, found)
    record = read_records()[build.name]
    assert found == {name: record[name] for name in found}


def test_the_documented_table_is_that_of_the_records():
    text = (ROOT / "docs" / "kernels.md").read_text()
    begin, end = kernel_resources.MARKS
    assert text.split(begin)[1].split(end)[0].strip() == kernel_resources.resource_table(read_records())


def test_comments_do_not_outdate_records_but_code_does(tmp_path, monkeypatch):
    copy = tmp_path / "kernel.py"
    monkeypatch.setattr(kernel_resources, "SHARED_BY_ALL", ())
    monkeypatch.setattr(kernel_resources, "find_spec", lambda name: type("Spec", (), {"origin": str(copy)}))

    def code_hash(text):
        copy.write_text(text)
        kernel_resources._code_hash.cache_clear()
        return kernel_resources._code_hash("kernel")

    plain = code_hash("def f(x):\n    return x + 1\n")
    assert plain == code_hash('def f(x):\n    """Say more."""\n    return x + 1  # one\n')
    assert plain != code_hash("def f(x):\n    return x + 2\n")
    kernel_resources._code_hash.cache_clear()


def test_kernels_have_no_atomics_and_one_grid_axis():
    for file in KERNELS.glob("*.py"):
        text = file.read_text()
        assert not re.search(r"tl\.atomic", text), file.name
        assert not re.search(r"program_id\([12]\)", text), file.name


def test_kernels_fit_on_a_few_screens():
    for file in KERNELS.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 120, (file.name, node.name)
