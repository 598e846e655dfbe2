"""Every model of the hosts' own zoos that builds with compiled mmcv operators builds and trains with ours.

By default one config of each folder is built, and models that use mmcv's operators train for a step. Marked slow: all
configs, and a step for each kind of model and heads in each folder.
"""

import contextlib
import importlib
import importlib.util
import json
import sys
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config, ConfigDict
from mmengine.logging import MessageHub
from mmengine.registry import MODELS, init_default_scope
from mmengine.structures import InstanceData, PixelData
from torch import distributed, nn
from torch.overrides import TorchFunctionMode

import mmvisattn.registry  # noqa: F401  what `custom_imports` does, before a test imports a host
from mmvisattn.hosts import mmcv_ops

ZOOS = {host: Path(importlib.util.find_spec(host).origin).parent / ".mim" for host in ("mmdet", "mmseg")}

# What does not build or train whatever mmcv there is: configs, part of the error, reason.
HOPELESS = (
    ("*", "mmpretrain", "needs mmpretrain"),
    ("mmdet/boxinst/*", "skimage is not installed", "needs scikit-image"),
    ("mmdet/*", "install sklearn", "needs scikit-learn"),
    ("mmdet/misc/d2_*", "install Detectron2", "needs detectron2"),
    ("mmdet/*", "lap is not installed", "needs lap"),
    ("mmdet/sort/*", "motmetrics is not installed", "needs motmetrics"),
    ("mmseg/vpd/*", "To use VPD model", "needs ldm, the code of Stable Diffusion"),
    ("mmdet/glip/*", "object.__init__() takes exactly one argument", "mmdet's text fusion needs transformers 4"),
    ("mmdet/bytetrack/*", "No such file", "its base is not where the config says"),
    ("mmdet/sort/*", "does not exist", "its base is not where the config says"),
    ("mmdet/cascade_rpn/*", "missing 1 required positional argument: 'num_classes'", "lacks an option"),
    ("mmdet/v3det/*", "unexpected keyword argument 'force_grad_on_level'", "has an option that FPN does not know"),
)

# Models that need mmcv's operators, and those they call in training; none where mmcv has PyTorch code for the CPU.
OPERATORS = {
    "mmdet/faster_rcnn/faster-rcnn_r50_fpn_1x_coco.py": {"nms", "roi_align_forward", "roi_align_backward"},
    "mmdet/dcn/faster-rcnn_r50-dconv-c3-c5_fpn_1x_coco.py": {"deform_conv_forward", "deform_conv_backward_input"},
    "mmdet/dcn/faster-rcnn_r50_fpn_dpool_1x_coco.py": {"deform_roi_pool_forward", "deform_roi_pool_backward"},
    "mmdet/dcnv2/faster-rcnn_r50-mdconv-c3-c5_fpn_1x_coco.py": {
        "modulated_deform_conv_forward",
        "modulated_deform_conv_backward",
    },
    "mmdet/carafe/faster-rcnn_r50_fpn-carafe_1x_coco.py": {"carafe_forward", "carafe_backward"},
    "mmdet/deformable_detr/deformable-detr_r50_16xb2-50e_coco.py": set(),
    "mmdet/mask2former/mask2former_r50_8xb2-lsj-50e_coco.py": set(),
    "mmdet/reppoints/reppoints-moment_r50_fpn_1x_coco.py": {"deform_conv_forward", "deform_conv_backward_input"},
    "mmdet/pisa/faster-rcnn_r50_fpn_pisa_1x_coco.py": {"nms_match"},
    "mmdet/point_rend/point-rend_r50-caffe_fpn_ms-1x_coco.py": {"roi_align_forward"},
    "mmseg/psanet/psanet_r50-d8_4xb4-80k_ade20k-512x512.py": {"psamask_forward", "psamask_backward"},
    "mmseg/ccnet/ccnet_r50-d8_4xb4-80k_ade20k-512x512.py": set(),
    "mmseg/point_rend/pointrend_r50_4xb4-160k_ade20k-512x512.py": set(),
    "mmseg/upernet/upernet_r18_4xb4-80k_ade20k-512x512.py": set(),
}

# What is built only: configs, reason.
NOT_TRAINED = (
    ("mmdet/glip/*", "its language model would have to be fetched"),
    ("mmdet/*grounding_dino/*", "its language model would have to be fetched"),
    ("mmdet/mask2former_vis/*", "it takes video clips"),
    ("mmdet/masktrack_rcnn/*", "it takes video clips"),
    ("mmdet/qdtrack/*", "it takes video clips"),
    ("mmdet/soft_teacher/*", "it takes labelled and unlabelled images together"),
    ("mmseg/san/*", "its head has no initial weights but those to fetch"),
)

# Of the images, in pixels. Some models have no maps at the usual side.
USUAL_SIDE = 128
SIDES = {"mmdet/*ssd300*": 300, "mmseg/mobilenet_v3/*": 512}

# Largest values of options that cost time: RoIs, proposals and queries of an image, points of a mask.
MOST = {"num": 16, "nms_pre": 100, "max_per_img": 32, "num_queries": 100, "num_points": 1024}

# What makes a kind of model, beside its own type.
PARTS = ("neck", "rpn_head", "roi_head", "bbox_head", "mask_head", "panoptic_head", "decode_head", "auxiliary_head")

pytestmark = pytest.mark.filterwarnings("ignore:::(mmdet|mmseg|mmcv|mmengine|torch|numpy|pydantic|timm)")


def configs_by_folder():
    """Folder of a zoo -> names of its configs."""
    folders = {}
    for host, root in ZOOS.items():
        for path in sorted((root / "configs").rglob("*.py")):
            place = path.relative_to(root / "configs")
            if place.parts[0] not in ("_base_", "common"):  # both hold parts of configs
                folders.setdefault(f"{host}/{place.parts[0]}", []).append(f"{host}/{place}")
    return folders


FOLDERS = configs_by_folder()


class NoTextEncoder(nn.Module):
    """In the place of BERT, whose files would have to be fetched; it has its width."""

    def __init__(self, **unused):
        super().__init__()
        self.language_backbone = nn.ModuleDict({"body": nn.Module()})
        self.language_backbone.body.language_dim = 768


class NumbersAreZero(TorchFunctionMode):
    """Constructors may read numbers out of tensors, such as drop path rates; under the meta device there are none."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.item and args[0].is_meta:
            return 0.0
        return function(*args, **(kwargs or {}))


def is_left_out(option, value):
    """Whether an option names weights to fetch, or asks for recomputation by fairscale."""
    return option in ("pretrained", "teacher_ckpt", "num_cp") or (option == "init_cfg" and "checkpoint" in str(value))


def reduced(node):
    """A copy of a config without the options that `is_left_out` names."""
    if isinstance(node, dict):
        return {key: reduced(value) for key, value in node.items() if not is_left_out(key, value)}
    if isinstance(node, (list, tuple)):
        return type(node)(reduced(value) for value in node)
    return node


def read(name):
    """Scope and model of a config; None if it has no model."""
    host, _, path = name.partition("/")
    config = Config.fromfile(ZOOS[host] / "configs" / path, import_custom_modules=False)
    if "model" not in config:
        return None
    return config.get("default_scope", host), reduced(config.model.to_dict())


@contextlib.contextmanager
def process_group(model):
    """A group of this process alone for mmcv's own SyncBN, which asks for its size when it is built."""
    if "MMSyncBN" not in str(model):
        yield
        return
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        distributed.destroy_process_group()


def build(scope, model):
    """Build a model as a runner does, which imports all of the host first."""
    importlib.import_module(f"{scope}.utils").register_all_modules(init_default_scope=False)
    init_default_scope(scope)
    if "language_model" in model:
        model = {**model, "language_model": dict(type=NoTextEncoder)}
    return MODELS.build(ConfigDict(model))


def hopeless(name, error):
    """Reason of a known error; None for any other."""
    return next((why for pattern, part, why in HOPELESS if fnmatch(name, pattern) and part in str(error)), None)


BUILT = set()  # many configs differ in their data only


def check_builds(name):
    """Build the model of a config on the meta device; returns whether it has one."""
    try:
        found = read(name)
        if found is None:
            return False
        if (key := json.dumps(found, sort_keys=True, default=str)) not in BUILT:
            with process_group(found), torch.device("meta"), NumbersAreZero():
                build(*found)
            BUILT.add(key)
    except Exception as error:  # any kind that a host may raise
        reason = hopeless(name, error)
        if reason is None:
            raise
        pytest.xfail(reason)
    return True


@pytest.fixture(autouse=True)
def relative_paths(tmp_path, monkeypatch):
    """What models of the zoos name by relative paths: configs of teachers, and a BERT, of which they read the sizes."""
    (tmp_path / "configs").symlink_to(ZOOS["mmdet"] / "configs")
    (tmp_path / "bert-base-uncased").mkdir()
    (tmp_path / "bert-base-uncased" / "config.json").write_text('{"model_type": "bert"}')
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def first_epoch():
    """What a run tells its models."""
    MessageHub.get_current_instance().update_info("epoch", 0)


@pytest.mark.parametrize("folder", FOLDERS)
def test_one_config_of_each_folder_builds(folder):
    assert any(check_builds(name) for name in FOLDERS[folder])  # stops at the first that has a model


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for names in FOLDERS.values() for name in names])
def test_every_config_builds(name):
    if not check_builds(name):
        pytest.skip("has no model")


def test_hopeless_names_existing_configs():
    names = [name for names in FOLDERS.values() for name in names]
    for pattern, *_ in (*HOPELESS, *NOT_TRAINED):
        assert any(fnmatch(name, pattern) for name in names), pattern


def smaller(node):
    """A copy of a model's config with fewer blocks and samples, and without what would enlarge the images."""
    if isinstance(node, (list, tuple)):
        return type(node)(smaller(value) for value in node)
    if not isinstance(node, dict):
        return node
    node = {key: smaller(value) for key, value in node.items() if key != "batch_augments"}
    if node.get("depth") in (101, 152, 200):
        node["depth"] = 50  # the same channels
    if "depths" in node:
        node["depths"] = [1 for _ in node["depths"]]
    if node.get("type") == "ScoreHLRSampler":
        node["score_thr"] = 0.0  # an untrained model's scores are low
    if node.get("type") == "CLRHead":  # of the maintained forks
        node.update(img_h=USUAL_SIDE, img_w=USUAL_SIDE)
    for name, most in MOST.items():
        if isinstance(node.get(name), int):
            node[name] = min(node[name], most)
    return node


def one_line():
    """For CLRNet: (4, 78), of each line two scores, start row, start column, angle, length and 72 columns."""
    lines = np.zeros((4, 78), dtype=np.float32)
    lines[0] = [0, 1, 0.1, 0.5, 0.5, 40, *np.linspace(0.5, 0.6, 72)]
    lines[1:, 0] = 1  # no line
    return lines


def detection_sample(side):
    from mmdet.structures import DetDataSample
    from mmdet.structures.mask import BitmapMasks

    shape = (side, side)
    sample = DetDataSample(
        metainfo=dict(
            img_shape=shape,
            lines_array=one_line(),
            ori_shape=shape,
            pad_shape=shape,
            scale_factor=(1.0, 1.0),
            border=(0, side, 0, side),
            flip=False,
        )
    )
    boxes = torch.tensor([[8.0, 8.0, 72.0, 56.0], [40.0, 60.0, 120.0, 124.0]])
    masks = np.zeros((2, side, side), dtype=np.uint8)
    for mask, (left, top, right, bottom) in zip(masks, boxes.int().tolist(), strict=True):
        mask[top:bottom, left:right] = 1
    labels = torch.zeros(2, dtype=torch.long)
    sample.gt_instances = InstanceData(bboxes=boxes, labels=labels, masks=BitmapMasks(masks, side, side))
    sample.ignored_instances = InstanceData(bboxes=boxes[:0], labels=labels[:0])
    sample.proposals = InstanceData(bboxes=boxes + 2, scores=torch.ones(2), labels=labels)  # for Fast R-CNN
    sample.gt_sem_seg = PixelData(sem_seg=torch.zeros(1, side, side, dtype=torch.long))
    return sample


def segmentation_sample(side):
    from mmseg.structures import SegDataSample

    shape = (side, side)
    sample = SegDataSample(metainfo=dict(img_shape=shape, ori_shape=shape, pad_shape=shape))
    labels = torch.zeros(1, side, side, dtype=torch.long)
    labels[:, : side // 2] = 1
    sample.gt_sem_seg = PixelData(data=labels)
    sample.gt_edge_map = PixelData(data=labels)  # for PIDNet
    return sample


def random_batch(scope, side):
    sample = {"mmdet": detection_sample, "mmseg": segmentation_sample}[scope]
    images = [torch.randint(0, 256, (3, side, side), dtype=torch.uint8) for _ in range(2)]
    return dict(inputs=images, data_samples=[sample(side) for _ in images])


def check_trains(name):
    """One step of a smaller model on two images: the loss and all gradients are finite."""
    scope, model = read(name)
    side = next((side for pattern, side in SIDES.items() if fnmatch(name, pattern)), USUAL_SIDE)
    model = smaller(model)
    if scope == "mmseg":
        model["data_preprocessor"].update(size=(side, side), size_divisor=None)
    if "img_size" in model.get("backbone", {}):
        model["backbone"]["img_size"] = (side, side)
    batch = random_batch(scope, side)
    if scope == "mmdet" and "mask" not in str(model):
        for sample in batch["data_samples"]:
            del sample.gt_instances.masks
    with process_group(model):
        model = build(scope, model)
    model.init_weights()
    model.train()
    data = model.data_preprocessor(batch, training=True)
    loss, _ = model.parse_losses(model(**data, mode="loss"))
    loss.backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert gradients and all(torch.isfinite(value).all() for value in (loss, *gradients))


@pytest.fixture
def called(monkeypatch):
    """Names of mmcv's operators that are called in a test."""
    import mmcv.ops  # noqa: F401  loads the extension

    names = set()
    extension = sys.modules["mmcv._ext"]

    def noting(name, operator):
        def call(*args, **kwargs):
            names.add(name)
            return operator(*args, **kwargs)

        return call

    for name in mmcv_ops.provided_ops():
        monkeypatch.setattr(extension, name, noting(name, getattr(extension, name)))
    return names


@pytest.mark.parametrize("name", OPERATORS)
def test_model_trains_on_our_operators(name, called):
    check_trains(name)
    assert OPERATORS[name] <= called


def types(node):
    """Types of a model, its neck and its heads: what makes it distinct."""
    if isinstance(node, dict):
        return [str(node.get("type")), *(types(node[part]) for part in PARTS if part in node)]
    return [types(value) for value in node] if isinstance(node, list) else None


def kinds(names):
    """One config for each kind of model among some."""
    found = {}
    for name in names:
        if any(fnmatch(name, pattern) for pattern, _ in NOT_TRAINED):
            continue
        try:
            scope_and_model = read(name)
        except Exception as error:  # of a base
            if hopeless(name, error) is None:
                raise
            continue
        if scope_and_model:
            found.setdefault(str(types(scope_and_model[1])), name)
    return found.values()


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_each_kind_of_model_trains(folder):
    failures = {}
    for name in kinds(FOLDERS[folder]):
        try:
            check_trains(name)
        except Exception as error:  # any kind that a host may raise
            if hopeless(name, error) is None:
                failures[name] = f"{type(error).__name__}: {error}"
    assert not failures
