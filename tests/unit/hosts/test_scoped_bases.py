"""Bases of MMSegmentation are found by the module's name where the distribution has another one."""

from importlib.metadata import PackageNotFoundError

import pytest
from mmengine.config import Config
from mmengine.config.utils import MODULE2PACKAGE

from mmvisattn.hosts import scoped_bases


@pytest.fixture
def fork_installed(monkeypatch):
    def absent(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(scoped_bases, "distribution", absent)
    monkeypatch.setitem(MODULE2PACKAGE, "mmseg", "mmsegmentation")  # undone afterwards


def test_a_base_of_the_fork(fork_installed):
    scoped_bases.install()
    assert MODULE2PACKAGE["mmseg"] == "mmseg"
    cfg = Config.fromstring("_base_ = 'mmseg::_base_/models/upernet_swin.py'\n", ".py")
    assert (cfg.model.type, cfg.model._scope_) == ("EncoderDecoder", "mmseg")


def test_without_mmsegmentation_nothing_changes(fork_installed, monkeypatch):
    monkeypatch.setattr(scoped_bases, "find_spec", lambda name: None)
    scoped_bases.install()
    assert MODULE2PACKAGE["mmseg"] == "mmsegmentation"


def test_bases_of_both_hosts():
    for base, kind in (
        ("mmdet::_base_/models/retinanet_r50_fpn.py", "RetinaNet"),
        ("mmseg::_base_/models/upernet_swin.py", "EncoderDecoder"),
    ):
        assert Config.fromstring(f"_base_ = '{base}'\n", ".py").model.type == kind
