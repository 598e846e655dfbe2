"""Build script: everything is declared in pyproject.toml; this adds configs and tools to the wheel."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
SHIPPED_FOLDERS = ("configs", "tools")


class BuildWithConfigsAndTools(build_py):
    """Copy ``configs/`` and ``tools/`` to ``mmvisattn/configs`` and ``mmvisattn/tools`` of the wheel."""

    def run(self):
        """Build the package, then add the shipped folders (an editable install reads them in place)."""
        super().run()
        if self.editable_mode:
            return
        for folder in SHIPPED_FOLDERS:
            target = Path(self.build_lib) / "mmvisattn" / folder
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(ROOT / folder, target, ignore=shutil.ignore_patterns("__pycache__"))


setup(cmdclass={"build_py": BuildWithConfigsAndTools})
