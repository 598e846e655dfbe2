"""The shape of the package: what importing it costs, and how long its files are."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "mmvisattn"
MAX_LINES = 400  # a file fits on a few screens


def test_importing_the_package_imports_nothing_else():
    code = "import sys; before = set(sys.modules); import mmvisattn; print(sorted(set(sys.modules) - before))"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "['mmvisattn']"


@pytest.mark.parametrize("folder", ["mmvisattn", "tools"])
def test_files_are_short(folder):
    too_long = {
        str(path.relative_to(ROOT)): lines
        for path in (ROOT / folder).rglob("*.py")
        if (lines := len(path.read_text().splitlines())) > MAX_LINES
    }
    assert not too_long


def test_forbidden_file_names_are_absent():
    vague = {"utils.py", "helpers.py", "misc.py", "common.py"}
    assert not [path for path in PACKAGE.rglob("*.py") if path.name in vague]


def test_no_tool_hides_a_package_that_a_library_looks_for():
    """A script's own folder comes first on the import path, so tools/kernels.py would be imported as ``kernels``."""
    probes = Path(importlib.util.find_spec("transformers").origin).parent / "utils" / "import_utils.py"
    wanted = set(re.findall(r'_is_package_available\("(\w+)"', probes.read_text()))
    assert "kernels" in wanted  # the pattern still finds them
    assert not wanted & {path.stem for path in (ROOT / "tools").glob("*.py")}
