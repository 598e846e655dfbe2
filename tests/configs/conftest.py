"""Every shipped config as a test parameter; its model at full size on the meta device, or with a nano backbone."""

import copy
import functools
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, init_default_scope
from mmengine.structures import InstanceData, PixelData

import mmvisattn.registry  # noqa: F401  what `custom_imports` does, before a test imports a host
from mmvisattn.analysis import shipped_configs

CONFIGS = shipped_configs.configs_root()
# The quickstarts train on generated data and have tests of their own.
EXPERIMENTS = [name for name in shipped_configs.config_names() if not name.startswith("quickstart/")]
SIDE = 128  # of the images of a nano model, in pixels
NANO_SWIN = dict(arch=dict(embed_dim=8, depths=(1, 2, 1, 1), num_heads=(1, 2, 2, 4)), window_size=4)
NANO_CONVNEXT = dict(arch=dict(depths=(1, 2, 1, 1), channels=(8, 16, 32, 64)))
NANO = {
    "mmvisattn.SwinTransformer": NANO_SWIN,
    "mmvisattn.SwinTransformerV2": NANO_SWIN,
    "mmvisattn.ConvNeXt": NANO_CONVNEXT,
    "mmvisattn.ConvNeXtV2": NANO_CONVNEXT,
}


@functools.cache
def read(name):
    return Config.fromfile(CONFIGS / f"{name}.py", import_custom_modules=False)


@functools.cache
def build(name):
    init_default_scope(read(name).default_scope)
    with torch.device("meta"):
        return MODELS.build(copy.deepcopy(read(name).model))  # some constructors change what they get


def pytest_generate_tests(metafunc):
    if "config_name" in metafunc.fixturenames:
        metafunc.parametrize("config_name", EXPERIMENTS)


@pytest.fixture(autouse=True)
def own_seed():
    """Make augmentations and samplers repeatable."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def experiments():
    """Names of all experiment configs."""
    return EXPERIMENTS


@pytest.fixture(scope="session")
def config_file():
    """Name of a config -> its path."""
    return lambda name: Path(CONFIGS / f"{name}.py")


@pytest.fixture(scope="session")
def read_config():
    """Name of a config -> a copy of the config, read once."""
    return lambda name: copy.deepcopy(read(name))


@pytest.fixture
def config(config_name):
    """The config named by `config_name`; a copy, free to change."""
    return copy.deepcopy(read(config_name))


@pytest.fixture
def meta_model(config_name):
    """The model of `config_name` at full size on the meta device; shared, not to be changed."""
    return build(config_name)


def aslist(value):
    return value if isinstance(value, list) else [value]


def use_few_rois(model):
    """Fewer proposals, and smaller linear layers in the box heads."""
    model.train_cfg.rpn_proposal.max_per_img = model.test_cfg.rpn.max_per_img = 20
    model.test_cfg.rcnn.max_per_img = 5
    for stage in aslist(model.train_cfg.rcnn):
        stage.sampler.num = 16
    for head in aslist(model.roi_head.bbox_head):
        head.fc_out_channels = 32


@pytest.fixture(scope="session")
def nano_model():
    """Config -> its model with a nano backbone; changes the config."""

    def build_nano(config):
        init_default_scope(config.default_scope)
        model = config.model
        with torch.device("meta"):
            full = MODELS.build(model.backbone).out_channels
        model.backbone.update(NANO[model.backbone.type], init_cfg=None)
        channels = dict(zip(full, MODELS.build(model.backbone).out_channels, strict=True))
        for part in ("neck", "decode_head", "auxiliary_head"):
            if part in model:
                expected = model[part].in_channels
                single = isinstance(expected, int)
                model[part].in_channels = channels[expected] if single else [channels[each] for each in expected]
                if part != "neck":
                    model[part].channels = 32
        if "roi_head" in model:
            use_few_rois(model)
        for sized in (model.data_preprocessor, *model.data_preprocessor.get("batch_augments", ())):
            if "size" in sized:
                sized.size = (SIDE, SIDE)
        return MODELS.build(model)

    return build_nano


def detection_sample():
    from mmdet.structures import DetDataSample
    from mmdet.structures.mask import BitmapMasks

    size = dict(img_shape=(SIDE, SIDE), ori_shape=(SIDE, SIDE), pad_shape=(SIDE, SIDE), scale_factor=(1.0, 1.0))
    sample = DetDataSample(metainfo=size)
    boxes = torch.tensor([[8.0, 8.0, 72.0, 56.0], [40.0, 60.0, 120.0, 124.0]])
    masks = np.zeros((2, SIDE, SIDE), dtype=np.uint8)
    for mask, (left, top, right, bottom) in zip(masks, boxes.int().tolist(), strict=True):
        mask[top:bottom, left:right] = 1
    sample.gt_instances = InstanceData(bboxes=boxes, labels=torch.tensor([3, 79]), masks=BitmapMasks(masks, SIDE, SIDE))
    sample.gt_sem_seg = PixelData(sem_seg=torch.randint(0, 183, (1, SIDE, SIDE)))
    return sample


def segmentation_sample():
    from mmseg.structures import SegDataSample

    sample = SegDataSample(metainfo=dict(img_shape=(SIDE, SIDE), ori_shape=(SIDE, SIDE), pad_shape=(SIDE, SIDE)))
    sample.gt_sem_seg = PixelData(data=torch.randint(0, 150, (1, SIDE, SIDE)))
    return sample


@pytest.fixture(scope="session")
def random_batch():
    """Config -> two random images of 128 px with truth, as the loader gives them."""

    def make(config):
        sample = {"mmdet": detection_sample, "mmseg": segmentation_sample}[config.default_scope]
        images = [torch.randint(0, 256, (3, SIDE, SIDE), dtype=torch.uint8) for _ in range(2)]
        return dict(inputs=images, data_samples=[sample() for _ in images])

    return make
