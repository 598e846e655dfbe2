"""The quickstart configs agree with the generated data, and stand on our Swin and the host's with one change."""

import ast

import numpy as np
import pytest
from mmengine.config import Config
from mmengine.registry import MODELS, init_default_scope

from mmvisattn.analysis import shipped_configs
from mmvisattn.analysis.demo import DETECTOR, SEGMENTOR, scale_schedule, use_host_backbone
from mmvisattn.datasets.shapes import make_shapes
from mmvisattn.datasets.shapes.palette import CLASS_COLOURS

QUICKSTARTS = [name for name in shipped_configs.config_names() if name.startswith("quickstart/")]
TASKS = {task.config: task for task in (DETECTOR, SEGMENTOR)}


@pytest.fixture(params=QUICKSTARTS)
def name(request):
    return request.param


@pytest.fixture
def quickstart(name):
    return Config.fromfile(shipped_configs.config_path(name), import_custom_modules=False)


def test_the_demo_runs_every_quickstart():
    assert set(TASKS) == set(QUICKSTARTS)


def test_docstring_says_what_to_expect_where_and_how(name, config_file):
    title, *fields = ast.get_docstring(ast.parse(config_file(name).read_text())).split("\n\n")
    text = " ".join(fields)
    assert title.endswith(".")
    for field in ("Expected:", "Hardware:", "Command:"):
        assert field in text
    assert f"python tools/train.py configs/{name}.py" in text


def test_classes_are_those_of_the_data(name, quickstart):
    for loader in (quickstart.train_dataloader, quickstart.val_dataloader, quickstart.test_dataloader):
        assert tuple(loader.dataset.metainfo.classes) == TASKS[name].classes


def test_palette_is_that_of_the_data(quickstart):
    palette = quickstart.train_dataloader.dataset.metainfo.get("palette")
    if palette is not None:
        shown = [np.rint(255 * colour).astype(int).tolist() for colour in CLASS_COLOURS.values()]
        assert palette[1:] == shown  # after the background


def test_schedule_ends_with_the_training(quickstart):
    warm_up, decay = quickstart.param_scheduler
    assert warm_up.begin == 0 and warm_up.end == decay.begin and decay.end == quickstart.train_cfg.max_iters
    assert quickstart.train_cfg.max_iters % quickstart.train_cfg.val_interval == 0, "scored after the last iteration"
    assert quickstart.default_hooks.checkpoint.interval == quickstart.train_cfg.max_iters


@pytest.mark.parametrize("iterations", [1, 2, 3, 50, 4000])
def test_schedule_scales_with_the_training(quickstart, iterations):
    scale_schedule(quickstart, iterations / quickstart.train_cfg.max_iters)
    warm_up, decay = quickstart.param_scheduler
    assert 0 == warm_up.begin < warm_up.end
    assert decay.begin < decay.end == iterations


def test_windows_tile_every_map(quickstart):
    width, height = quickstart.image_size
    for stride in (4, 8, 16, 32):
        assert width // stride % quickstart.model.backbone.window_size == 0
        assert height // stride % quickstart.model.backbone.window_size == 0


def test_host_backbone_is_the_same_model(quickstart):
    init_default_scope(quickstart.default_scope)
    ours = MODELS.build(quickstart.model)
    use_host_backbone(quickstart)
    theirs = MODELS.build(quickstart.model)
    assert type(ours.backbone).__module__ == "mmvisattn.backbones.swin"
    assert type(theirs.backbone).__module__.startswith(quickstart.default_scope)

    def shapes(module):
        return sorted(tuple(parameter.shape) for parameter in module.parameters())

    assert shapes(ours.backbone) == shapes(theirs.backbone)
    assert [n for n, _ in ours.named_parameters() if not n.startswith("backbone.")] == [
        n for n, _ in theirs.named_parameters() if not n.startswith("backbone.")
    ]


def test_data_of_another_size_is_brought_to_the_models(quickstart, tmp_path):
    root = make_shapes(tmp_path / "shapes", train_images=2, val_images=1, image_size=96)
    init_default_scope(quickstart.default_scope)
    import mmdet.utils
    import mmseg.utils
    from mmengine.registry import DATASETS

    {"mmdet": mmdet, "mmseg": mmseg}[quickstart.default_scope].utils.register_all_modules(init_default_scope=False)
    for loader in (quickstart.train_dataloader, quickstart.val_dataloader):
        item = DATASETS.build({**loader.dataset, "data_root": str(root)})[0]
        assert tuple(item["inputs"].shape) == (3, *quickstart.image_size)
