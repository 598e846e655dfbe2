"""`mmvisattn configs list|path|copy`: finds a shipped config by name, and copies it so that it works elsewhere."""

import shutil

import pytest
from mmengine.config import Config

from mmvisattn.__main__ import main
from mmvisattn.analysis import shipped_configs

NAME = "swin/swin-large-patch4-window12-in22k-384x384-pre_upernet_8xb2-160k_ade20k-512x512"  # a chain of three configs


def test_list_prints_every_config_and_no_base(capsys, experiments):
    assert main(["configs", "list"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert set(experiments) <= set(printed)
    assert not [name for name in printed if name.startswith("_base_")]


@pytest.mark.parametrize("spelling", ["{}", "{}.py", "configs/{}.py"])
def test_path_takes_every_spelling(spelling, capsys):
    assert main(["configs", "path", spelling.format(NAME)]) == 0
    assert capsys.readouterr().out.strip().endswith(f"configs/{NAME}.py")


def test_path_takes_the_file_name_alone():
    assert shipped_configs.config_path(NAME.split("/")[1]) == shipped_configs.config_path(NAME)


def test_unknown_name_suggests_the_nearest(capsys):
    assert main(["configs", "path", "maskrcnn_swin-t-p4-w7_fpn_1x_coco"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "did you mean swin/mask-rcnn_swin-t-p4-w7_fpn_1x_coco" in captured.err
    assert len(captured.err.splitlines()) == 1


def test_name_like_no_other_points_to_the_list():
    with pytest.raises(ValueError, match="configs list"):
        shipped_configs.config_path("@@@")


def test_copy_means_the_same_outside_the_repository(tmp_path, capsys, read_config):
    assert main(["configs", "copy", NAME, "--to", str(tmp_path)]) == 0
    copied = Config.fromfile(capsys.readouterr().out.strip())
    assert copied.to_dict() == read_config(NAME).to_dict()


def test_copies_share_their_bases(tmp_path):
    for name in (NAME, "swin/mask-rcnn_swin-t-p4-w7_fpn_1x_coco"):
        shipped_configs.copy_config(name, tmp_path)
    assert len(list(tmp_path.rglob("default.py"))) == 1


def test_copy_replaces_a_changed_file_only_by_force(tmp_path, capsys):
    path = shipped_configs.copy_config(NAME, tmp_path)
    original = path.read_text()
    path.write_text(original + "\nseed = 1\n")
    assert main(["configs", "copy", NAME, "--to", str(tmp_path)]) == 1
    assert "differs" in capsys.readouterr().err
    assert path.read_text() != original
    assert main(["configs", "copy", NAME, "--to", str(tmp_path), "--force"]) == 0
    assert path.read_text() == original


def test_configs_inside_an_installed_package_are_found_first(tmp_path, monkeypatch):
    package = tmp_path / "mmvisattn"
    shutil.copytree(shipped_configs.configs_root() / "_base_", package / "configs" / "_base_")
    monkeypatch.setattr(shipped_configs, "PACKAGE", package)
    assert shipped_configs.configs_root() == package / "configs"


def test_package_without_configs_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(shipped_configs, "PACKAGE", tmp_path / "mmvisattn")
    assert main(["configs", "list"]) == 1
    assert "reinstall" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["configs"], ["configs", "path"], ["configs", "move", NAME]])
def test_incomplete_command_shows_its_usage(arguments, capsys):
    with pytest.raises(SystemExit) as error:
        main(arguments)
    assert error.value.code == 2
    assert "usage: mmvisattn" in capsys.readouterr().err
