"""The doctor names each problem and the command that mends it."""

import subprocess
import sys
from pathlib import Path

import pytest

from mmvisattn.hosts import doctor

ROOT = Path(__file__).parents[3]


@pytest.fixture
def pretend(monkeypatch):
    """Pretend that just these distributions are installed, and that these modules fail to import."""

    def apply(installed, broken=()):
        def version(*names):
            return next((f"{name} {installed[name]}" for name in names if name in installed), None)

        monkeypatch.setattr(doctor, "installed_version", version)
        monkeypatch.setattr(doctor, "side_by_side", lambda names: [found for name in names if (found := version(name))])
        monkeypatch.setattr(doctor, "import_error", lambda module: dict(broken).get(module))

    return apply


def test_the_tested_environment_is_healthy():
    run = subprocess.run([sys.executable, "tools/doctor.py"], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "All is well." in run.stdout
    assert len(run.stdout.splitlines()) <= 24  # one screen


def test_both_opencv_wheels(pretend):
    pretend({"opencv-python": "5.0", "opencv-python-headless": "5.0"})
    finding = doctor.check_opencv()
    assert "uninstall -y opencv-python opencv-python-headless" in finding.remedy


def test_no_opencv_wheel(pretend):
    pretend({})
    assert "opencv-python-headless" in doctor.check_opencv().remedy


def test_opencv_without_system_libraries(pretend):
    pretend({"opencv-python": "5.0"}, {"cv2": "ImportError: libGL.so.1: cannot open shared object file"})
    finding = doctor.check_opencv()
    assert "libGL" in finding.state and "opencv-python-headless" in finding.remedy


def test_mmcv_too_new_for_mmdet(pretend):
    pretend({"mmcv": "2.2.0", "mmdet": "3.3.0"})
    finding = doctor.check_mmcv()
    assert "<2.2.0" in finding.state and "mmcv-lite==2.1.0" in finding.remedy


def test_newer_mmcv_is_fine_for_the_forks(pretend):
    pretend({"onedl-mmcv": "2.3.6", "onedl-mmdetection": "3.5.1"})
    assert doctor.check_mmcv().healthy


def test_missing_pkg_resources(pretend):
    pretend({"mmengine": "0.10.7"}, {"pkg_resources": "ModuleNotFoundError: No module named 'pkg_resources'"})
    assert "setuptools<82" in doctor.check_mmengine().remedy


def test_undeclared_dependency_of_mmseg(pretend):
    pretend({"mmsegmentation": "1.2.2"}, {"mmseg.models": "ModuleNotFoundError: No module named 'ftfy'"})
    assert doctor.check_host("mmseg").remedy.endswith("'ftfy'")


def test_mmpretrain_that_takes_mmdet_down(pretend):
    pretend({"mmpretrain": "1.2.0"}, {"mmpretrain.models": "TypeError: NoneType takes no arguments"})
    assert doctor.check_mmpretrain().remedy.endswith("'transformers<5'")
    pretend({})
    assert doctor.check_mmpretrain().healthy


def test_one_host_is_enough(pretend):
    pretend({"mmdet": "3.3.0"})
    assert doctor.check_host("mmseg").healthy
    assert doctor.check_host("mmdet").healthy


def test_no_host_at_all(pretend):
    pretend({})
    assert not doctor.check_host("mmdet").healthy


def test_torch_too_old_or_unmatched(pretend):
    pretend({"torch": "2.5.1"})
    assert "2.6" in doctor.check_torch().state
    pretend({"torchvision": "0.29.1"}, {"torchvision": "RuntimeError: operator torchvision::nms does not exist"})
    assert "does not fit this torch" in doctor.check_torchvision().state


def test_exit_code_tells(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "CHECKS", (lambda: doctor.Finding("torch", "not installed", "pip install torch"),))
    assert doctor.main() == 1
    assert "-> pip install torch" in capsys.readouterr().out


def test_wheels_of_layered_environments_do_not_count_as_side_by_side(tmp_path, monkeypatch):
    for folder, name in (("upper", "one"), ("upper", "two"), ("lower", "three")):
        info = tmp_path / folder / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path / "lower"))
    monkeypatch.syspath_prepend(str(tmp_path / "upper"))
    assert doctor.side_by_side(("three", "two", "one")) == ["two 1.0", "one 1.0"]
    assert doctor.installed_version("three", "two") == "two 1.0"
    assert doctor.side_by_side(("three", "absent")) == ["three 1.0"]
    assert doctor.side_by_side(("absent",)) == []
