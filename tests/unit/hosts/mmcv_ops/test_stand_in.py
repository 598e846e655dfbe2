import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mmvisattn.hosts import mmcv_ops


def run_python(code, cwd=None):
    """Run code in a fresh interpreter; returns what it prints."""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def extension_names_asked_by_mmcv():
    """Every name that a file of mmcv.ops gives to ext_loader.load_ext."""
    names = set()
    folder = Path(importlib.util.find_spec("mmcv").origin).parent / "ops"
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "load_ext":
                names.update(ast.literal_eval(node.args[1]))
    return names


def test_installing_again_changes_nothing():
    before = list(sys.meta_path)
    assert mmcv_ops.install() and mmcv_ops.is_active()
    assert sys.meta_path == before


def test_the_module_is_found_like_any_other():
    import mmcv
    import mmcv.ops  # noqa: F401
    from mmcv.utils import ext_loader

    spec = importlib.util.find_spec("mmcv._ext")
    assert spec.name == "mmcv._ext" and spec.loader is not None
    assert mmcv._ext is sys.modules["mmcv._ext"]
    assert ext_loader.load_ext("_ext", ["nms"]) is mmcv._ext


def test_every_name_that_mmcv_loads_is_a_callable():
    from mmcv import _ext

    names = extension_names_asked_by_mmcv()
    assert len(names) > 100
    assert all(callable(getattr(_ext, name)) for name in names)


def test_what_is_provided_is_what_mmcv_asks_for():
    assert set(mmcv_ops.provided_ops()) <= extension_names_asked_by_mmcv()


def test_an_op_that_is_not_provided_fails_when_called_and_names_the_way_out():
    from mmcv.ops import ball_query

    with pytest.raises(NotImplementedError, match="'ball_query_forward' is not provided.*MMCV_WITH_OPS=1 pip install"):
        ball_query(0, 1, 2, torch.zeros(1, 4, 3), torch.zeros(1, 2, 3))


def test_mmcv_describes_its_compiler_as_none():
    from mmcv.ops import get_compiler_version, get_compiling_cuda_version

    assert get_compiler_version().startswith("none (ops by mmvisattn")
    assert get_compiling_cuda_version().startswith("none")


def test_before_mmcv_and_without_loading_it():
    printed = run_python(
        "import sys\n"
        "from mmvisattn.hosts import mmcv_ops\n"
        "print(mmcv_ops.is_active(), mmcv_ops.install(), mmcv_ops.is_active())\n"
        "print(any(name in sys.modules for name in ('mmcv', 'torch', 'torchvision')))\n"
    )
    assert printed == ["False", "True", "True", "False"]


def test_after_an_import_of_mmcv_ops_that_failed():
    printed = run_python(
        "import mmcv\n"
        "try:\n"
        "    import mmcv.ops\n"
        "except ModuleNotFoundError as error:\n"
        "    print(error.name)\n"
        "from mmvisattn.hosts import mmcv_ops\n"
        "print(mmcv_ops.install())\n"
        "from mmcv.ops import RoIAlign\n"
        "print(RoIAlign.__name__)\n"
    )
    assert printed == ["mmcv._ext", "True", "RoIAlign"]


@pytest.mark.parametrize("body", ["", "raise ImportError('undefined symbol')"], ids=["works", "broken"])
def test_never_in_the_place_of_a_compiled_module(tmp_path, body):
    (tmp_path / "mmcv").mkdir()
    (tmp_path / "mmcv" / "__init__.py").write_text("")
    (tmp_path / "mmcv" / "_ext.py").write_text(body)
    printed = run_python(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from mmvisattn.hosts import mmcv_ops\n"
        "print(mmcv_ops.install(), mmcv_ops.is_active())\n"
        "try:\n"
        "    import mmcv._ext\n"
        "    print(mmcv._ext.__file__.endswith('_ext.py'), mmcv_ops.install())\n"
        "except ImportError as error:\n"
        "    print('undefined' in str(error), mmcv_ops.install())\n"
    )
    assert printed == ["False", "False", "True", "False"]


def test_not_active_without_mmcv():
    printed = run_python(
        "import sys; sys.modules['mmcv'] = None\n"
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name == 'mmcv' else find(name)\n"
        "from mmvisattn.hosts import mmcv_ops\n"
        "print(mmcv_ops.install())\n"
    )
    assert printed == ["False"]
