"""Runs the files of `interpreted/`, each in a process of its own.

Triton decides when it is imported whether kernels are compiled or interpreted, so these tests cannot share a process
with tests that compile. To run one file by hand: `TRITON_INTERPRET=1 python -m pytest tests/kernels/interpreted/FILE`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "interpreted"


@pytest.mark.parametrize("file", sorted(path.name for path in FOLDER.glob("test_*.py")))
def test_in_the_interpreter(file):
    # A child of an xdist worker must not take itself for one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment.update(TRITON_INTERPRET="1", OMP_NUM_THREADS="1")
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:xdist", "-p", "no:cacheprovider"]
    child = subprocess.run([*command, str(FOLDER / file)], env=environment, capture_output=True, text=True)
    assert child.returncode == 0, child.stdout + child.stderr
