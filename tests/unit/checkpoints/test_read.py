import argparse
import datetime
import os
import pathlib
import random
import urllib.error
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
import torch
from mmengine.config import ConfigDict
from mmengine.logging import HistoryBuffer
from safetensors.torch import save_file

from mmvisattn.checkpoints.read import read_checkpoint

STATE = {"a.weight": torch.arange(6.0).view(2, 3), "b.bias": torch.ones(2)}


def save(tmp_path, content, **options):
    path = str(tmp_path / "file.pth")
    torch.save(content, path, **options)
    return path


def assert_is_state(file):
    assert file.state.keys() == STATE.keys()
    assert all(torch.equal(file.state[key], STATE[key]) for key in STATE)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("entry", ["state_dict", "model", "module", "teacher", "student", "model_state"])
def test_entries(tmp_path, entry, zipped):
    path = save(tmp_path, {entry: OrderedDict(STATE), "epoch": 3}, _use_new_zipfile_serialization=zipped)
    file = read_checkpoint(path)
    assert_is_state(file)
    assert file.entry == entry


def test_the_path_may_be_an_object_but_nothing_else(tmp_path):
    assert_is_state(read_checkpoint(pathlib.Path(save(tmp_path, STATE))))
    for wrong in (5, None, STATE):
        with pytest.raises(TypeError, match=r"^checkpoint must be a path or an http\(s\) address, got "):
            read_checkpoint(wrong)


def test_no_entry_and_nested_entries(tmp_path):
    assert read_checkpoint(save(tmp_path, STATE)).entry == ""
    assert read_checkpoint(save(tmp_path, {"model": {"state_dict": STATE}})).entry == "model.state_dict"


def test_averaged_weights_come_first(tmp_path):
    file = read_checkpoint(save(tmp_path, {"model": {"a.weight": torch.zeros(1)}, "model_ema": STATE}))
    assert_is_state(file)
    assert file.entry == "model_ema"


def test_mmengine_averages_are_in_state_dict(tmp_path):
    file = read_checkpoint(save(tmp_path, {"state_dict": STATE, "ema_state_dict": {"a.weight": torch.zeros(1)}}))
    assert_is_state(file)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."])
def test_outer_prefixes(tmp_path, prefix):
    assert_is_state(read_checkpoint(save(tmp_path, {prefix + key: value for key, value in STATE.items()})))


def test_an_outer_prefix_on_some_keys_belongs_to_them(tmp_path):
    file = read_checkpoint(save(tmp_path, {"module.x": torch.zeros(1), "y": torch.zeros(1)}))
    assert set(file.state) == {"module.x", "y"}


def test_safetensors(tmp_path):
    path = str(tmp_path / "model.bin")  # the content counts, not the suffix
    save_file(STATE, path)
    assert_is_state(read_checkpoint(path))


OTHER_OBJECTS = {
    "namespace": argparse.Namespace(lr=0.1, output=pathlib.PosixPath("/somewhere")),
    "config": ConfigDict(a=ConfigDict(b=1)),
    "history": {"log": HistoryBuffer([1.0, 2.0], [1, 1])},
    "numpy": [np.float64(3.0), np.arange(3)],
    "time": datetime.datetime(2024, 1, 1),
}


@pytest.mark.parametrize("name", OTHER_OBJECTS)
def test_harmless_objects_beside_the_weights(tmp_path, name):
    assert_is_state(read_checkpoint(save(tmp_path, {"state_dict": STATE, "other": OTHER_OBJECTS[name]})))


class Hostile:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.makedirs, (self.path,))


class HostileThroughGetattr(Hostile):
    def __reduce__(self):
        return (getattr, (self.path, "touch"))


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_code_in_a_file_is_not_run(tmp_path, zipped):
    victim = tmp_path / "victim"
    path = save(tmp_path, {"model": STATE, "x": Hostile(victim)}, _use_new_zipfile_serialization=zipped)
    with pytest.raises(ValueError, match=r"was not opened, since it asks to run os.makedirs"):
        read_checkpoint(path)
    assert not victim.exists()


def test_getattr_in_a_file_is_not_the_real_one(tmp_path):
    path = save(tmp_path, {"model": STATE, "x": HostileThroughGetattr(tmp_path / "victim")})
    assert_is_state(read_checkpoint(path))


def test_what_the_process_allows_is_neither_used_nor_changed(tmp_path):
    path = save(tmp_path, {"model": STATE, "args": argparse.Namespace(lr=0.1), "values": np.arange(3)})
    allowed = torch.serialization.get_safe_globals()
    with torch.serialization.safe_globals([(print, "argparse.Namespace"), np.ndarray]):
        inside = torch.serialization.get_safe_globals()
        assert_is_state(read_checkpoint(path))
        assert set(torch.serialization.get_safe_globals()) == set(inside)
    torch.serialization.add_safe_globals(allowed)  # leaving torch's context takes away what was allowed before it too


@pytest.mark.parametrize("content", [b"", b"no checkpoint at all", b"PK\x03\x04 and no more", b"\x80\x02\x8c\x01\x96."])
def test_not_a_checkpoint(tmp_path, content):
    path = tmp_path / "file.pth"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="file.pth' is not a file of torch.save or safetensors, it is incomplete"):
        read_checkpoint(str(path))


def test_a_download_that_broke_off(tmp_path):
    path = pathlib.Path(save(tmp_path, {"model": {"a": torch.zeros(10_000)}}))
    path.write_bytes(path.read_bytes()[:20_000])
    assert not zipfile.is_zipfile(path)
    with pytest.raises(ValueError, match="it is incomplete"):
        read_checkpoint(str(path))


@pytest.mark.parametrize("kind", ["zip", "legacy", "safetensors"])
def test_a_damaged_file_is_named_whatever_the_damage(tmp_path, kind):
    path = pathlib.Path(save(tmp_path, STATE, _use_new_zipfile_serialization=kind == "zip"))
    if kind == "safetensors":
        save_file(STATE, path)
    whole, generator = path.read_bytes(), random.Random(0)
    damaged = [whole[:length] for length in range(0, len(whole), max(1, len(whole) // 20))]
    for _ in range(40):
        content = bytearray(whole)
        for _ in range(8):
            content[generator.randrange(len(content))] ^= 0xFF
        damaged.append(bytes(content))
    refused = 0
    for content in damaged:
        path.write_bytes(content)
        try:
            read_checkpoint(str(path))  # damage to the numbers alone cannot be seen
        except ValueError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > len(damaged) / 2


def test_no_weights(tmp_path):
    with pytest.raises(ValueError, match="holds no weights under the usual names; its entries are: 'epoch', 'net'"):
        read_checkpoint(save(tmp_path, {"epoch": 1, "net": {"a": torch.zeros(1)}}))
    with pytest.raises(ValueError, match="holds a list, not a dictionary"):
        read_checkpoint(save(tmp_path, [torch.zeros(1)]))


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="checkpoint='.*nowhere.pth' is not a file"):
        read_checkpoint(str(tmp_path / "nowhere.pth"))


def test_addresses_are_downloaded_once(tmp_path, monkeypatch):
    calls = []

    def download(address, path):
        calls.append(address)
        torch.save(STATE, path)

    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", download)
    for _ in range(2):
        assert_is_state(read_checkpoint("https://example.org/weights/swin.pth?download=1"))
    assert calls == ["https://example.org/weights/swin.pth?download=1"]
    assert (tmp_path / "checkpoints" / "swin.pth").exists()


def test_a_download_that_fails_names_the_address(tmp_path, monkeypatch):
    def download(address, path):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", download)
    with pytest.raises(OSError, match="checkpoint='https://example.org/swin.pth' could not be downloaded: .*no route"):
        read_checkpoint("https://example.org/swin.pth")
