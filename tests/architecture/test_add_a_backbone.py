"""docs/add_a_backbone.md is true: the family on the page is added in the way it says, and it works in both hosts."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS as ROOT_MODELS
from mmengine.registry import DefaultScope
from mmengine.structures import InstanceData, PixelData

import mmvisattn.backbones
import mmvisattn.checkpoints.maps
from mmvisattn import registry
from mmvisattn.analysis import contract
from mmvisattn.checkpoints.load import load_pretrained

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "add_a_backbone.md").read_text()
FILES = dict(
    re.findall(r"^## \d\. `(\S+\.py)`\n\n(?:[^`\n][^\n]*\n\n)?```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
)
BACKBONE = "mmvisattn/backbones/mean_mixer.py"
CONFIG = next(path for path in FILES if path.startswith("configs/"))
SIDE = 64  # of the images, in pixels

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:mmseg", "ignore::UserWarning:mmdet")


@pytest.fixture
def family(tmp_path, monkeypatch):
    """Add the family as the page says, in a folder laid over the package; returns its class."""
    torch.manual_seed(0)
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "configs" / "_base_").symlink_to(ROOT / "configs" / "_base_")
    for package in (mmvisattn.backbones, mmvisattn.checkpoints.maps):
        folder = tmp_path / package.__name__.replace(".", "/")
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    row = re.search(r"`(\(MODELS, .*?\)),`", PAGE).group(1)
    added = eval(row, dict(vars(registry)))
    monkeypatch.setattr(registry, "REGISTERED", (*registry.REGISTERED, added))
    registry.register_all()
    yield registry.MODELS.get(added[1])
    registry.MODELS.module_dict.pop(added[1])
    for module in [name for name in sys.modules if name.endswith(".mean_mixer")]:
        del sys.modules[module]


@pytest.fixture
def config(family, tmp_path):
    return Config.fromfile(tmp_path / CONFIG)


def build(model, scope):
    with DefaultScope.overwrite_default_scope(scope):
        return ROOT_MODELS.build(model)


def one_step(model, data_samples, optimizer):
    """Train on two random images; returns the names of the parameters that changed."""
    batch = dict(inputs=list(torch.rand(2, 3, SIDE, SIDE)), data_samples=data_samples)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    data = model.data_preprocessor(batch, training=True)
    loss, _ = model.parse_losses(model.train()(**data, mode="loss"))
    loss.backward()
    optimizer.step()
    return {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}


def test_page_names_only_what_exists():
    to_be_written = ("mean_mixer",)
    for path in re.findall(r"`((?:mmvisattn|tests|configs|backbones|checkpoints|docs)/[\w./-]*)`", PAGE):
        if not any(word in path for word in to_be_written):
            assert (ROOT / path).exists() or (ROOT / "mmvisattn" / path).exists(), path
    base = importlib.import_module("mmvisattn.backbones.base").Backbone
    for name in ("no_decay_words", "num_decay_layers", "parameter_depth", "frozen_parts", "levels"):
        assert f"`{name}`" in PAGE and hasattr(base, name)


def test_page_and_its_files_are_short():
    assert len(PAGE.splitlines()) <= 150
    assert len(FILES[BACKBONE].splitlines()) <= 80


@pytest.mark.parametrize("path", FILES)
def test_files_on_the_page_are_in_the_style_of_the_project(path):
    for command in (["check"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--no-cache", "--stdin-filename", str(ROOT / path), "-"]
        done = subprocess.run(ruff, cwd=ROOT, input=FILES[path], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_features_have_the_promised_shapes_and_any_image_size_works(family):
    backbone = family(out_indices=(0, 3))
    assert (backbone.out_channels, backbone.out_strides) == ((32, 256), (4, 32))
    shapes = [tuple(features.shape) for features in backbone(torch.rand(2, 3, 50, 33))]
    assert shapes == [(2, 32, 13, 9), (2, 256, 2, 2)]


def test_errors_are_the_common_ones(family):
    with pytest.raises(ValueError, match=r"arch must be one of \['tiny'\] or a dict, got 'tinny'; did you mean 'tiny'"):
        family("tinny")
    with pytest.raises(ValueError, match="frozen_stages must be from -1 to 4, got 5"):
        family(frozen_stages=5)


def test_freezing(family):
    backbone = family(frozen_stages=2, drop_path_rate=0.5)  # as DDP finds it: before anyone calls train()
    trained = {name for name, parameter in backbone.named_parameters() if parameter.requires_grad}
    assert {".".join(name.split(".")[:2]) for name in trained} == {"stages.2", "stages.3", "out_norms.2", "out_norms.3"}
    assert not backbone.stages[1].training and backbone.stages[2].training


def official_checkpoint(backbone):
    """The backbone's weights as the toy's publisher stores them, with its classifier."""
    state = {}
    for name, tensor in backbone.state_dict().items():
        name = name.replace("patch_embed.", "stem.").replace("mlp.", "ffn.")
        name = re.sub(r"stages\.(\d)\.downsample\.norm", r"merge\1.norm", name)
        name = re.sub(r"stages\.(\d)\.downsample\.reduction", r"merge\1.linear", name)
        name = re.sub(r"stages\.(\d)\.blocks", lambda found: f"layer{int(found[1]) + 1}", name)
        state[re.sub(r"\.norm(\d)\.", r".ln\1.", name)] = tensor
    state = {name: tensor for name, tensor in state.items() if not name.startswith("out_norms")}
    return {**state, "norm.weight": torch.ones(256), "norm.bias": torch.zeros(256), "head.weight": torch.ones(9, 256)}


def test_official_checkpoint_loads_through_the_map(family, tmp_path):
    source, backbone = family(), family()
    torch.save({"model": official_checkpoint(source)}, tmp_path / "official.pth")
    report = load_pretrained(backbone, str(tmp_path / "official.pth"))
    assert report.source == "official"
    assert {name.split(".")[0] for name in report.new} == {"out_norms"}
    assert set(report.dropped) == {"norm.weight", "norm.bias", "head.weight"}
    image = torch.rand(1, 3, SIDE, SIDE)
    assert all(map(torch.equal, backbone(image), source(image)))  # both have the initial output norms


def test_checkpoint_of_another_size_is_refused_in_words(family, tmp_path):
    wide = family(dict(dims=(64, 64, 128, 256), depths=(1, 1, 2, 1)))
    torch.save({"model": official_checkpoint(wide)}, tmp_path / "wide.pth")
    with pytest.raises(ValueError, match="MeanMixer"):
        load_pretrained(family(), str(tmp_path / "wide.pth"))


def test_config_builds_at_full_size_and_its_parts_fit(config):
    with torch.device("meta"):
        model = build(config.model, config.default_scope)
    assert contract.check(model).checked


def test_detector_trains_with_layer_decay_and_frozen_stages(config):
    config.model.backbone.update(frozen_stages=1, drop_path_rate=0.1)
    config.model.neck.out_channels = config.model.bbox_head.in_channels = config.model.bbox_head.feat_channels = 16
    model = build(config.model, config.default_scope)
    model.init_weights()
    with DefaultScope.overwrite_default_scope(config.default_scope):
        optimizer = build_optim_wrapper(model, config.optim_wrapper).optimizer
    rates = {name: group["lr"] for group in optimizer.param_groups for name in group["param_names"]}
    assert rates["backbone.stages.1.blocks.0.mlp.fc1.weight"] == pytest.approx(1e-4 * 0.7**4)  # blocks 2 of 5
    assert rates["backbone.stages.3.blocks.0.mlp.fc1.weight"] == pytest.approx(1e-4 * 0.7)
    assert rates["backbone.out_norms.3.weight"] == rates["neck.lateral_convs.0.conv.weight"] == 1e-4

    from mmdet.structures import DetDataSample

    samples = [DetDataSample(metainfo=dict(img_shape=(SIDE, SIDE), scale_factor=(1.0, 1.0))) for _ in range(2)]
    for sample in samples:
        sample.gt_instances = InstanceData(bboxes=torch.tensor([[8.0, 8.0, 40.0, 48.0]]), labels=torch.tensor([3]))
    changed = one_step(model, samples, optimizer)
    assert changed == {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert not any(name.startswith(("backbone.patch_embed", "backbone.stages.0")) for name in changed)


def test_segmentor_trains(family):
    model = dict(
        type="EncoderDecoder",
        data_preprocessor=dict(type="SegDataPreProcessor", size=(SIDE, SIDE)),
        backbone=dict(type="mmvisattn.MeanMixer"),
        decode_head=dict(
            type="FPNHead",
            in_channels=[32, 64, 128, 256],
            in_index=[0, 1, 2, 3],
            feature_strides=[4, 8, 16, 32],
            channels=16,
            num_classes=5,
        ),
    )
    model = build(model, "mmseg")
    model.init_weights()
    assert contract.check(model).checked

    from mmseg.structures import SegDataSample

    samples = [SegDataSample(metainfo=dict(img_shape=(SIDE, SIDE))) for _ in range(2)]
    for sample in samples:
        sample.gt_sem_seg = PixelData(data=torch.randint(0, 5, (1, SIDE, SIDE)))
    changed = one_step(model, samples, torch.optim.SGD(model.parameters(), lr=0.1))
    assert {name for name, _ in model.backbone.named_parameters()} == {
        name.removeprefix("backbone.") for name in changed if name.startswith("backbone.")
    }
