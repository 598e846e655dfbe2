"""Every data base reads a small dataset in its host's layout and gives images of the sizes its name promises."""

import json

import cv2
import numpy as np
import pytest
from mmengine.config import Config
from mmengine.registry import DATASETS, TRANSFORMS, init_default_scope

from mmvisattn.analysis import shipped_configs

BASES = shipped_configs.configs_root() / "_base_" / "datasets"
COCO = sorted(path.stem for path in BASES.glob("coco*.py"))
ADE20K = sorted(path.stem for path in BASES.glob("ade20k*.py"))
WIDTH, HEIGHT = 160, 120  # of the stored images, in pixels
DRAWS = 8  # of the random augmentations


def read(name):
    init_default_scope("mmdet" if name.startswith("coco") else "mmseg")
    return Config.fromfile(BASES / f"{name}.py")


@pytest.fixture(scope="module")
def coco_root(tmp_path_factory):
    """One image with two objects, and its COCO-stuff map, in the layout of COCO 2017."""
    root = tmp_path_factory.mktemp("coco")
    boxes = [[10, 10, 60, 50], [80, 40, 70, 70]]
    annotations = [
        dict(
            id=index,
            image_id=1,
            category_id=category,
            bbox=[left, top, width, height],
            area=width * height,
            iscrowd=0,
            segmentation=[[left, top, left + width, top, left + width, top + height, left, top + height]],
        )
        for index, (category, (left, top, width, height)) in enumerate(zip((1, 90), boxes, strict=True), start=1)
    ]
    truth = dict(
        images=[dict(id=1, file_name="1.jpg", width=WIDTH, height=HEIGHT)],
        annotations=annotations,
        categories=[dict(id=1, name="person"), dict(id=90, name="toothbrush")],
    )
    (root / "annotations").mkdir()
    image = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    for split in ("train2017", "val2017"):
        (root / "annotations" / f"instances_{split}.json").write_text(json.dumps(truth))
        for folder, suffix, pixels in ((split, "jpg", image), (f"stuffthingmaps/{split}", "png", image[..., 0] % 183)):
            (root / folder).mkdir(parents=True)
            cv2.imwrite(str(root / folder / f"1.{suffix}"), pixels)
    return root


@pytest.fixture(scope="module")
def ade20k_root(tmp_path_factory):
    """One image and its label map, in the layout of ADE20K: 0 is unlabelled, 1 to 150 are classes."""
    root = tmp_path_factory.mktemp("ade")
    generator = np.random.default_rng(0)
    for split in ("training", "validation"):
        image = generator.integers(0, 256, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        labels = generator.integers(0, 151, (HEIGHT, WIDTH), dtype=np.uint8)
        for folder, suffix, pixels in (("images", "jpg", image), ("annotations", "png", labels)):
            (root / folder / split).mkdir(parents=True)
            cv2.imwrite(str(root / folder / split / f"1.{suffix}"), pixels)
    return root


def dataset(config, split, root):
    return DATASETS.build(dict(config[f"{split}_dataloader"]["dataset"], data_root=str(root)))


def shape(sample):
    return tuple(sample["inputs"].shape)


@pytest.mark.parametrize("name", COCO)
def test_coco_training_images(name, coco_root):
    data = dataset(read(name), "train", coco_root)
    shorts, longs = [], []
    for _ in range(DRAWS):
        sample = data[0]
        _, height, width = shape(sample)
        shorts.append(min(height, width))
        longs.append(max(height, width))
        truth = sample["data_samples"].gt_instances
        boxes = truth.bboxes.tensor
        assert len(boxes) and boxes.min() >= 0 and boxes[:, 2].max() <= width and boxes[:, 3].max() <= height
        if "instance" in name:
            assert truth.masks.masks.shape == (len(boxes), height, width)
        if "stuff" in name:
            assert sample["data_samples"].gt_sem_seg.sem_seg.shape == (1, height, width)
    if "ms-crop" in name:
        # a crop may be long and thin, so that the long side decides and the short one falls below 480
        assert max(longs) <= 1333 and max(shorts) <= 800 and len(set(shorts)) > 1
    elif "lsj" in name:
        assert max(longs) <= 1024 and len(set(longs)) > 1
    elif "ms-400-1400" in name:
        assert min(shorts) >= 400 and max(shorts) <= 1400 and max(longs) <= 1600 and len(set(shorts)) > 1
    else:
        assert set(zip(shorts, longs, strict=True)) == {(800, 1067)}


@pytest.mark.parametrize("name", COCO)
def test_coco_test_images(name, coco_root):
    sample = dataset(read(name), "val", coco_root)[0]
    assert shape(sample) == ((3, 1200, 1600) if "ms-400-1400" in name else (3, 800, 1067))
    assert {"img_id", "ori_shape", "scale_factor"} <= set(sample["data_samples"].metainfo_keys())


@pytest.mark.parametrize("name", ADE20K)
def test_ade20k_training_images(name, ade20k_root):
    side = int(name.split("x")[-1])
    data = dataset(read(name), "train", ade20k_root)
    for _ in range(DRAWS):
        sample = data[0]
        labels = sample["data_samples"].gt_sem_seg.data
        assert shape(sample)[1] <= side and shape(sample)[2] <= side  # smaller ones are padded with their batch
        assert tuple(labels.shape[1:]) == shape(sample)[1:]
        assert set(labels.unique().tolist()) <= {*range(150), 255}  # 0, unlabelled, became 255


@pytest.mark.parametrize("name", ADE20K)
def test_ade20k_test_images(name, ade20k_root):
    side = int(name.split("x")[-1])
    sample = dataset(read(name), "val", ade20k_root)[0]
    assert min(shape(sample)[1:]) == side
    assert sample["data_samples"].gt_sem_seg.data.shape == (1, HEIGHT, WIDTH)


@pytest.mark.parametrize("name", ADE20K)
def test_ade20k_test_time_augmentation_scales_the_test_size(name, ade20k_root):
    side = int(name.split("x")[-1])
    config = read(name)
    transforms = TRANSFORMS.build(dict(type="Compose", transforms=config.tta_pipeline))
    record = dataset(config, "val", ade20k_root).get_data_info(0)
    views = transforms(record)
    shorts = [min(view.shape[1:]) for view in views["inputs"]]
    # mmcv rounds the resized sides to whole pixels
    assert shorts == pytest.approx([side * ratio for ratio in (0.5, 0.75, 1, 1.25, 1.5, 1.75) for _ in range(2)], abs=1)
    assert [view.metainfo["flip"] for view in views["data_samples"]] == [False, True] * 6


def test_data_roots_are_the_usual_ones(config):
    for split in ("train", "val", "test"):
        root = config[f"{split}_dataloader"].dataset.data_root
        assert root == {"mmdet": "data/coco/", "mmseg": "data/ade/ADEChallengeData2016"}[config.default_scope]


@pytest.mark.parametrize(
    "name",
    [
        "swin/mask-rcnn_swin-t-p4-w7_fpn_1x_coco",
        "swin/swin-tiny-patch4-window7-in1k-pre_upernet_8xb2-160k_ade20k-512x512",
    ],
)
def test_inference_functions_of_the_hosts_take_our_configs(name, read_config, nano_model):
    from mmdet.apis import inference_detector
    from mmseg.apis import inference_model

    config = read_config(name)
    for pipeline in (config.test_pipeline, config.test_dataloader.dataset.pipeline):
        pipeline[1].scale = (WIDTH, HEIGHT)  # smaller than usual, to be quick
    model = nano_model(config).eval()
    model.cfg = config
    image = np.zeros((HEIGHT, WIDTH, 3), dtype=np.uint8)
    if config.default_scope == "mmdet":
        assert inference_detector(model, image).pred_instances.bboxes.shape[1] == 4
    else:
        assert inference_model(model, image).pred_sem_seg.data.shape == (1, HEIGHT, WIDTH)
