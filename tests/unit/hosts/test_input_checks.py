"""Datasets inside wrappers are checked; datasets that cannot be looked at without reading them are left alone."""

import pytest
from mmengine.config import ConfigDict
from mmengine.dataset import BaseDataset, ConcatDataset, RepeatDataset
from mmengine.registry import DATASETS
from mmengine.runner.runner import _SlicedDataset

from mmvisattn.hosts import input_checks
from mmvisattn.hosts.input_error import InputError


class LazyDataset(BaseDataset):
    """As the hosts' datasets: its paths can be resolved without reading them."""


class EagerDataset(BaseDataset):
    """A user's dataset, whose constructor takes less than the host's."""

    def __init__(self, ann_file, pipeline):
        super().__init__(ann_file=ann_file, pipeline=pipeline)

    def load_data_list(self):
        return [{"img_path": "a.jpg"}]


@pytest.fixture(autouse=True)
def registered():
    kinds = (LazyDataset, EagerDataset)
    for kind in kinds:
        DATASETS.register_module(module=kind)
    yield
    for kind in kinds:
        del DATASETS.module_dict[kind.__name__]


def test_leaves_of_configs():
    leaves = [ConfigDict(type="A"), ConfigDict(type="B"), ConfigDict(type="C")]
    nested = ConfigDict(type="Concat", datasets=[leaves[0], dict(type="Repeat", dataset=leaves[1]), leaves[2]])
    assert list(input_checks.leaf_configs(nested)) == leaves


def test_leaves_of_datasets():
    inner = EagerDataset("", [])
    assert list(input_checks.leaf_datasets(ConcatDataset([inner, inner]))) == [inner, inner]
    assert list(input_checks.leaf_datasets(RepeatDataset(inner, times=2))) == [inner]
    assert list(input_checks.leaf_datasets(_SlicedDataset(inner, 1))) == [inner]  # num_batch_per_epoch


def test_a_dataset_without_lazy_init_is_left_to_the_host():
    config = ConfigDict(type="EagerDataset", ann_file="lost.json", pipeline=[])
    assert input_checks.unread_dataset(config, "mmengine") is None
    input_checks.check_paths(ConfigDict(dataset=config), "mmengine")


def test_files_on_another_machine_are_left_to_the_host():
    config = ConfigDict(type="LazyDataset", ann_file="lost.json", backend_args=dict(backend="petrel"))
    assert input_checks.unread_dataset(config, "mmengine") is None
    del config["backend_args"]
    assert input_checks.unread_dataset(config, "mmengine").ann_file == "lost.json"


def test_relative_paths_are_joined_as_the_host_joins_them(tmp_path):
    (tmp_path / "all.json").write_text("{}")
    config = dict(type="LazyDataset", data_root=str(tmp_path), ann_file="all.json", data_prefix=dict(img_path="images"))
    with pytest.raises(InputError, match=rf"^data_prefix.img_path is '{tmp_path}/images', which is not a folder\.$"):
        input_checks.check_paths(ConfigDict(dataset=config), "mmengine")
    (tmp_path / "images").mkdir()
    input_checks.check_paths(ConfigDict(dataset=config), "mmengine")
