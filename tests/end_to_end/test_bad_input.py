"""Faulty input ends in one sentence that names it, or is handled; never in a loss of nan, a retry or a riddle."""

import json
import math

import cv2
import numpy as np
import pytest
import torch

from mmvisattn.checkpoints.read import CheckpointError
from mmvisattn.hosts.input_error import InputError
from mmvisattn.hosts.launch import test as run_test
from mmvisattn.hosts.launch import train


@pytest.fixture
def attempt(tiny_configs, data_options, shapes, tmp_path):
    """Host, more options -> one short training on the (damaged) tiny dataset; the runner."""

    def run(host, **options):
        shorter = {"train_cfg.max_epochs": 1} if host == "mmdet" else {"train_cfg.max_iters": 2}
        chosen = {**data_options(host, shapes), **shorter, "val_cfg": None, "val_dataloader": None}
        chosen |= {"val_evaluator": None} | {key.replace("__", "."): value for key, value in options.items()}
        return train(tiny_configs[host], work_dir=str(tmp_path / "work"), cfg_options=chosen)

    return run


def last_losses(runner):
    return {
        name: buffer.current()
        for name, buffer in runner.message_hub.log_scalars.items()
        if name.startswith("train/loss")
    }


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.fixture
def annotations(shapes):
    return shapes / "annotations" / "instances_train.json"


# Files


def test_missing_config():
    with pytest.raises(InputError, match=r"^config is 'nowhere/mine.py', which is not a file\.$"):
        train("nowhere/mine.py")


def test_config_without_data(tmp_path):
    (tmp_path / "model.py").write_text(
        "default_scope = 'mmdet'\nmodel = dict(type='mmdet.RetinaNet')\ntest_cfg = dict()\n"
    )
    (tmp_path / "last.pth").touch()
    with pytest.raises(
        InputError, match=r"/model.py', which has no train_dataloader and no train_cfg and no optim_wrapper"
    ):
        train(str(tmp_path / "model.py"))
    with pytest.raises(
        InputError, match=r"/model.py', which has no test_dataloader and no test_evaluator, needed to test"
    ):
        run_test(str(tmp_path / "model.py"), str(tmp_path / "last.pth"))


@pytest.mark.parametrize("host", ["mmdet", "mmseg"])
def test_missing_checkpoint(host, tiny_configs, tmp_path):
    with pytest.raises(InputError, match=r"^checkpoint is 'lost.pth', which is not a file\.$"):
        run_test(tiny_configs[host], "lost.pth", work_dir=str(tmp_path))
    with pytest.raises(InputError, match=r"^--resume is 'lost.pth', which is not a file\.$"):
        train(tiny_configs[host], work_dir=str(tmp_path), resume="lost.pth")
    with pytest.raises(InputError, match=r"^load_from is 'lost.pth', which is not a file\.$"):
        train(tiny_configs[host], work_dir=str(tmp_path), cfg_options={"load_from": "lost.pth"})


@pytest.mark.parametrize("content", [b"", b"<html>404</html>", "a first part"])
def test_checkpoint_that_is_none(tiny_configs, tmp_path, content):
    path = tmp_path / "weights.pth"
    torch.save({"state_dict": {"weight": torch.zeros(1000)}}, path)
    path.write_bytes(content if isinstance(content, bytes) else path.read_bytes()[:-100])
    sentence = rf"^checkpoint is '{path}', which is not a checkpoint, or only the first part of one\.$"
    with pytest.raises(InputError, match=sentence):
        run_test(tiny_configs["mmdet"], str(path))
    with pytest.raises(InputError, match=r"^--resume is '.*', which is not a checkpoint"):
        train(tiny_configs["mmdet"], resume=str(path))


def test_missing_annotation_file(attempt, annotations):
    annotations.unlink()
    with pytest.raises(InputError, match=r"^ann_file is '.*instances_train.json', which does not exist\.$"):
        attempt("mmdet")


def test_empty_annotation_file(attempt, annotations):
    annotations.write_text("")
    with pytest.raises(InputError, match=r"^ann_file is '.*instances_train.json', which is empty\.$"):
        attempt("mmdet")


def test_truncated_annotation_file(attempt, annotations):
    annotations.write_text(annotations.read_text()[:200])
    with pytest.raises(InputError, match=r"^ann_file is '.*instances_train.json', which is not valid JSON: "):
        attempt("mmdet")


@pytest.mark.parametrize("key", ["images", "annotations", "categories"])
def test_annotation_file_without_content(attempt, annotations, key):
    edit(annotations, lambda content: content.update({key: []}))
    with pytest.raises(InputError, match=rf"^ann_file is '.*instances_train.json', which has no '{key}'\.$"):
        attempt("mmdet")


def test_annotation_without_a_box(attempt, annotations):
    edit(annotations, lambda content: content["annotations"][1].pop("bbox"))
    with pytest.raises(InputError, match=r"^annotation 2 in '.*instances_train.json' has no 'bbox'\.$"):
        attempt("mmdet")


@pytest.mark.parametrize(("host", "name"), [("mmdet", "img"), ("mmseg", "img_path"), ("mmseg", "seg_map_path")])
def test_missing_folder(attempt, host, name):
    with pytest.raises(InputError, match=rf"^data_prefix.{name} is '.*/nowhere', which is not a folder\.$"):
        attempt(host, **{f"train_dataloader__dataset__data_prefix__{name}": "nowhere"})


def test_folder_without_images(attempt, shapes):
    for image in (shapes / "images" / "training").iterdir():
        image.unlink()
    with pytest.raises(InputError, match=r"^data_prefix.img_path is '.*/training', which holds no '\*.jpg' image\.$"):
        attempt("mmseg")


def test_empty_list_of_images(attempt, shapes):
    (shapes / "train.txt").write_text("")
    with pytest.raises(InputError, match=r"^ann_file is '.*/train.txt', which is empty\.$"):
        attempt("mmseg", train_dataloader__dataset__ann_file="train.txt")


# Labels


def test_class_that_is_not_in_the_file(attempt):
    names = ("circle", "square", "triangel", "star", "ring", "cross")
    with pytest.raises(InputError, match=r"^metainfo.classes has 'triangel', but the categories of .* are 'circle', "):
        attempt("mmdet", train_dataloader__dataset__metainfo__classes=names)


def test_category_id_that_is_not_declared(attempt, annotations):
    edit(annotations, lambda content: content["annotations"][0].update(category_id=99))
    with pytest.raises(
        InputError, match=r"^annotation 1 in '.*' has category_id 99, which is not among .*\[1, 2, 3, 4"
    ):
        attempt("mmdet")


def test_a_subset_of_the_categories_trains(attempt, annotations):
    """Declared categories outside the classes are left out, as in the host."""
    used = {item["category_id"] for item in json.loads(annotations.read_text())["annotations"]}
    names = ("circle", "square", "triangle", "star", "ring", "cross")
    kept = tuple(name for index, name in enumerate(names) if index + 1 in used)[:2]
    assert len(kept) == 2
    runner = attempt(
        "mmdet",
        train_dataloader__dataset__metainfo__classes=kept,
        model__roi_head__bbox_head__num_classes=2,
        model__roi_head__mask_head__num_classes=2,
    )
    assert all(map(math.isfinite, last_losses(runner).values()))


@pytest.mark.parametrize(
    ("host", "head"),
    [("mmdet", "model__roi_head__bbox_head__num_classes"), ("mmseg", "model__decode_head__num_classes")],
)
def test_fewer_classes_in_the_head_than_in_the_data(attempt, host, head):
    with pytest.raises(
        InputError, match=r"has num_classes=3, but \w+ has [67] classes \(.*set num_classes of every head"
    ):
        attempt(host, **{head: 3})


@pytest.mark.parametrize("workers", [0, 1])
def test_label_outside_the_classes(attempt, shapes, workers):
    for path in (shapes / "annotations" / "training").iterdir():
        label_map = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
        label_map[:2, :3] = 9
        cv2.imwrite(str(path), label_map)
    sentence = (
        r"^'.*/0\d+.png' holds the label 8, after reduce_zero_label, at 6 places, but the head has num_classes=7: "
    )
    with pytest.raises(InputError, match=sentence + r"allowed are 0 to 6 \(and 255, which is ignored\)\.$"):
        attempt("mmseg", train_dataloader__num_workers=workers)


# Images


@pytest.mark.parametrize("content", [b"", b"not an image"])
@pytest.mark.parametrize(("host", "workers"), [("mmdet", 0), ("mmdet", 1), ("mmseg", 0)])
def test_corrupt_image(attempt, shapes, host, workers, content):
    (shapes / "images" / "training" / "000002.jpg").write_bytes(content)
    sentence = r"^LoadImageFromFile cannot read the image '.*/training/000002.jpg'[^\n]*$"
    with pytest.raises(InputError, match=sentence):
        attempt(host, train_dataloader__num_workers=workers)


def test_missing_image(attempt, shapes):
    (shapes / "images" / "training" / "000002.jpg").unlink()
    with pytest.raises(InputError, match=r"^LoadImageFromFile cannot read the image '.*/000002.jpg': .*No such file"):
        attempt("mmdet")


def test_corrupt_label_map(attempt, shapes):
    (shapes / "annotations" / "training" / "000002.png").write_bytes(b"not an image")
    sentence = r"^LoadAnnotations cannot read the image '.*000002.jpg' with the label map '.*000002.png': "
    with pytest.raises(InputError, match=sentence):
        attempt("mmseg")


def test_label_map_of_another_size(attempt, shapes):
    cv2.imwrite(str(shapes / "annotations" / "training" / "000002.png"), np.ones((64, 32), np.uint8))
    with pytest.raises(InputError, match=r"^the label map '.*000002.png' has \(64, 32\) pixels .* has \(64, 64\)\.$"):
        attempt("mmseg")


# Images with nothing on them are no fault


def test_images_without_objects_are_left_out(attempt, annotations):
    def empty_first_image(content):
        content["annotations"] = [item for item in content["annotations"] if item["image_id"] != 1]

    edit(annotations, empty_first_image)
    assert len(attempt("mmdet").train_dataloader.dataset) == 3


def test_batches_without_objects_train(attempt, annotations):
    """Only the last image has an object and nothing is filtered: most batches are all background."""

    def empty_all_but_one(content):
        content["annotations"] = content["annotations"][-1:]

    edit(annotations, empty_all_but_one)
    runner = attempt(
        "mmdet", train_dataloader__dataset__filter_cfg__filter_empty_gt=False, train_dataloader__batch_size=1
    )
    assert runner.iter == 4
    losses = last_losses(runner)
    assert all(map(math.isfinite, losses.values())), losses
    assert all(parameter.isfinite().all() for parameter in runner.model.parameters())


@pytest.mark.parametrize("label", [0, 1])
def test_label_maps_of_one_value_train(attempt, shapes, label):
    """0 is ignored under reduce_zero_label: a batch without any label; 1 is the background class alone."""
    for path in (shapes / "annotations" / "training").iterdir():
        cv2.imwrite(str(path), np.full((64, 64), label, np.uint8))
    runner = attempt("mmseg")
    losses = last_losses(runner)
    assert losses and all(map(math.isfinite, losses.values())), losses
    assert all(parameter.isfinite().all() for parameter in runner.model.parameters())


# Options


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("train_dataloder.batch_size", "the config has no 'train_dataloder'; did you mean 'train_dataloader'?"),
        ("model.bakcbone.with_cp", "the config has no 'bakcbone'; did you mean 'backbone'?"),
        ("zebra", "the config has no 'zebra'."),
    ],
)
def test_misspelt_option(tiny_configs, option, hint):
    with pytest.raises(InputError) as caught:
        train(tiny_configs["mmdet"], cfg_options={option: 1})
    assert str(caught.value) == f"--cfg-options has the key '{option}', but {hint}"


BACKBONE_FAULTS = [
    (dict(archh="tiny"), "SwinTransformer has no option 'archh'; did you mean 'arch'?"),
    (dict(drop_path_rate="0.1"), "drop_path_rate must be a number, got '0.1'"),
    (dict(out_indices=[3, 1]), "out_indices must be rising and without repetition, from -4 to 3, got (3, 1)"),
    (dict(window_size=0), "window_size is 0; expected an int, or (rows, columns), of at least 1"),
]


@pytest.mark.parametrize(("options", "sentence"), BACKBONE_FAULTS)
def test_faulty_option_of_the_backbone(tiny_configs, options, sentence):
    for host in tiny_configs:
        chosen = {f"model.backbone.{name}": value for name, value in options.items()}
        with pytest.raises(InputError) as caught:
            train(tiny_configs[host], cfg_options=chosen)
        assert str(caught.value) == f"model.backbone: {sentence}"


def test_misspelt_backbone(tiny_configs):
    with pytest.raises(
        InputError, match=r"^model.backbone.type is .*, which is not .*; did you mean '.*Transformer'\?$"
    ):
        train(tiny_configs["mmdet"], cfg_options={"model.backbone.type": "mmvisattn.SwinTransfomer"})


def test_pretrained_weights_that_are_missing_or_of_another_model(attempt, tmp_path):
    path = tmp_path / "weights.pth"
    pretrained = dict(model__backbone__init_cfg=dict(type="Pretrained", checkpoint=str(path)))
    with pytest.raises(InputError, match=r"^model.backbone.init_cfg.checkpoint is '.*', which is not a file\.$"):
        attempt("mmdet", **pretrained)
    torch.save({"conv1.weight": torch.zeros(1)}, path)
    with pytest.raises(CheckpointError, match=rf"^cannot load '{path}' into SwinTransformer: no table of parameter"):
        attempt("mmdet", **pretrained)


def test_scaling_the_learning_rate_needs_a_base(tiny_configs):
    with pytest.raises(InputError, match=r"^--auto-scale-lr needs auto_scale_lr.base_batch_size in the config, "):
        train(tiny_configs["mmdet"], auto_scale_lr=True)


def test_mixed_precision_on_the_gpu_without_a_gpu(tiny_configs, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(InputError, match=r"^optim_wrapper.type is 'AmpOptimWrapper', which needs a GPU, .* --amp "):
        train(tiny_configs["mmdet"], cfg_options={"optim_wrapper.type": "AmpOptimWrapper"})


def test_config_without_a_host(tmp_path):
    (tmp_path / "mine.py").write_text("default_scope = 'mmpose'\n")
    with pytest.raises(
        InputError, match=r"^default_scope in the config is 'mmpose'; allowed are 'mmdet' and 'mmseg'\.$"
    ):
        train(str(tmp_path / "mine.py"))
