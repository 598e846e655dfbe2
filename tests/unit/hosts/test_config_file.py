"""Reading a config: the options laid over it, the registry, the work dir."""

import pytest
from mmengine.config import Config

from mmvisattn.hosts import config_file
from mmvisattn.hosts.input_error import InputError

CONTENT = """
default_scope = 'mmdet'
model = dict(backbone=dict(type='A', depth=1), stages=[dict(channels=1), dict(channels=2)])
train_dataloader = dict(batch_size=2, sampler=dict(type='DefaultSampler'))
"""


@pytest.fixture
def write(tmp_path):
    def written(extra=""):
        path = tmp_path / "my_model.py"
        path.write_text(CONTENT + extra)
        return str(path)

    return written


def test_options_work_dir_and_launcher(write):
    cfg = config_file.read_config(write(), {"model.backbone.depth": 5}, launcher="slurm")
    assert (cfg.model.backbone.depth, cfg.work_dir, cfg.launcher) == (5, "work_dirs/my_model", "slurm")
    assert config_file.read_config(write("work_dir = 'mine'\n")).work_dir == "mine"
    assert config_file.read_config(write("work_dir = 'mine'\n"), work_dir="given").work_dir == "given"


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ("", ["mmvisattn.registry"]),
        ("custom_imports = dict(imports=['json'], allow_failed_imports=False)\n", ["mmvisattn.registry", "json"]),
        ("custom_imports = dict(imports='json', allow_failed_imports=False)\n", ["mmvisattn.registry", "json"]),
        ("custom_imports = dict(imports=['mmvisattn.registry'])\n", ["mmvisattn.registry"]),
    ],
    ids=["none", "a list", "a name", "ours"],
)
def test_the_registry_is_imported_whatever_the_config_imports(write, own, expected):
    assert config_file.read_config(write(own)).custom_imports["imports"] == expected


@pytest.mark.parametrize(
    "option",
    [
        "model.backbone.with_cp",  # an argument the config leaves at its default
        "model.backbone.init_cfg.checkpoint",  # a group the config does not have
        "model.stages.1.channels",  # an index into a list
        "train_dataloader.batch_sampler.type",  # resembles its neighbour 'sampler'
        "randomness.seed",  # known to the Runner
        "find_unused_parameters",
        "test_evaluator.metric",
    ],
)
def test_keys_that_may_be_added(option):
    config_file.check_option_keys(Config.fromstring(CONTENT, ".py"), {option: 1})


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("randomnes.seed", "'randomness'"),
        ("modle.backbone.depth", "'model'"),
        ("train_dataloader.smapler.x", "'sampler'"),
    ],
)
def test_misspelt_keys(option, hint):
    with pytest.raises(InputError, match=f"--cfg-options has the key '{option}', .*did you mean {hint}"):
        config_file.check_option_keys(Config.fromstring(CONTENT, ".py"), {option: 1})


def test_a_host_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(config_file, "find_spec", lambda name: None)
    with pytest.raises(
        InputError, match=r"^default_scope in the config is 'mmseg', but mmsegmentation is not installed"
    ):
        config_file.check_host(Config(dict(default_scope="mmseg")))
