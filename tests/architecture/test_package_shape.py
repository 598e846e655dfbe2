"""The shape of the package: what importing it costs, and how long its files are."""

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
