"""Training and testing through the functions behind the command lines, on both hosts."""

import pickle

import cv2
import numpy as np
import pytest
import torch

from mmvisattn.hosts.input_error import InputError
from mmvisattn.hosts.launch import test as run_test
from mmvisattn.hosts.launch import train

SHORT = {"mmdet": {"train_cfg.max_epochs": 1}, "mmseg": {"train_cfg.max_iters": 3}}
CHECKPOINT = {"mmdet": "epoch_1.pth", "mmseg": "iter_3.pth"}


@pytest.fixture(scope="module")
def trained(tiny_configs, data_options, generated_shapes, tmp_path_factory):
    """Host -> a checkpoint of the tiny config, trained when first asked for."""
    made = {}

    def checkpoint(host):
        if host not in made:
            work_dir = tmp_path_factory.mktemp(host)
            options = {**data_options(host, generated_shapes), **SHORT[host]}
            train(tiny_configs[host], work_dir=str(work_dir), cfg_options=options)
            made[host] = str(work_dir / CHECKPOINT[host])
        return made[host]

    return checkpoint


@pytest.fixture
def evaluate(tiny_configs, data_options, trained, shapes, tmp_path):
    """Host, options and further arguments -> the scores of the trained checkpoint on the tiny dataset."""

    def run(host, options=None, **arguments):
        chosen = {**data_options(host, shapes), **(options or {})}
        return run_test(
            tiny_configs[host], trained(host), work_dir=str(tmp_path / "test"), cfg_options=chosen, **arguments
        )

    return run


BOXES_ONLY = {"model.roi_head.mask_head": None, "test_evaluator.metric": "bbox"}


def test_a_detector_reports_ap_and_dumps_predictions(evaluate, tmp_path):
    scores = evaluate("mmdet", out=str(tmp_path / "predictions.pkl"), show_dir="painted")
    assert {"coco/bbox_mAP", "coco/segm_mAP"} <= set(scores)
    predictions = pickle.loads((tmp_path / "predictions.pkl").read_bytes())
    assert [prediction["img_id"] for prediction in predictions] == [1, 2]
    assert sorted(path.name for path in (tmp_path / "test").glob("*/painted/*")) == ["000000.jpg", "000001.jpg"]


def test_a_segmentor_reports_iou_and_saves_label_maps(evaluate, tmp_path):
    scores = evaluate("mmseg", out=str(tmp_path / "maps"), show_dir=str(tmp_path / "painted"))
    assert "mIoU" in scores
    maps = sorted((tmp_path / "maps").iterdir())
    assert [path.name for path in maps] == ["000000.png", "000001.png"]
    assert cv2.imread(str(maps[0]), cv2.IMREAD_UNCHANGED).shape == (64, 64)
    painted = [path.stem for path in tmp_path.rglob("painted/**/*") if path.suffix in (".png", ".jpg")]
    assert len(painted) == 2


@pytest.mark.parametrize(
    ("host", "out", "sentence"),
    [
        ("mmdet", "maps", r"^--out is 'maps'; for a detector it must be a .pkl or .pickle file\.$"),
        (
            "mmseg",
            "dump.pkl",
            r"^--out is 'dump.pkl'; for a segmentor it must be a folder, where label maps are saved\.$",
        ),
    ],
)
def test_out_of_the_other_host(evaluate, host, out, sentence):
    with pytest.raises(InputError, match=sentence):
        evaluate(host, out=out)


# Test-time augmentation merges the image and its mirror image, so a mirrored image gives the mirrored prediction.


def mirror_second_image(shapes):
    """Make the second validation image the mirror image of the first, losslessly."""
    folder = shapes / "images" / "validation"
    image = cv2.imread(str(folder / "000000.jpg"))
    for name, content in (("000000", image), ("000001", image[:, ::-1])):
        cv2.imwrite(str(folder / f"{name}.png"), content)
        (folder / f"{name}.jpg").unlink()
    path = shapes / "annotations" / "instances_val.json"
    path.write_text(path.read_text().replace(".jpg", ".png"))


@pytest.mark.parametrize("tta", [True, False])
def test_flip_of_a_segmentor(evaluate, shapes, tmp_path, tta):
    mirror_second_image(shapes)
    evaluate("mmseg", {"test_dataloader.dataset.img_suffix": ".png"}, out=str(tmp_path), tta=tta)
    first, second = (cv2.imread(str(tmp_path / f"00000{index}.png"), cv2.IMREAD_UNCHANGED) for index in (0, 1))
    # The two sums of two logit maps are rounded alike, so the label maps are equal, not merely close.
    assert np.array_equal(first, second[:, ::-1]) == tta


def test_flip_of_a_detector(evaluate, shapes, tmp_path):
    mirror_second_image(shapes)
    evaluate("mmdet", BOXES_ONLY, out=str(tmp_path / "flip.pkl"), tta=True)
    first, second = (item["pred_instances"] for item in pickle.loads((tmp_path / "flip.pkl").read_bytes()))
    # float32 coordinates up to 64 pixels, mirrored once: two roundings of 64 * 2**-24 pixels each, with room for NMS
    torch.testing.assert_close(first["scores"], second["scores"], rtol=0, atol=1e-5)
    mirrored = torch.stack([64 - second["bboxes"][:, 2], 64 - second["bboxes"][:, 0]], dim=1)
    torch.testing.assert_close(first["bboxes"][:, [0, 2]], mirrored, rtol=0, atol=1e-3)


def test_flip_of_masks_is_refused(evaluate):
    with pytest.raises(InputError, match=r"^--tta needs a tta_model in the config, because this model predicts masks"):
        evaluate("mmdet", tta=True)


# Mixed precision, resuming, scaling


@pytest.mark.parametrize("host", ["mmdet", "mmseg"])
def test_amp_on_the_cpu_is_bfloat16_and_says_so(tiny_configs, data_options, generated_shapes, tmp_path, host, capfd):
    if torch.cuda.is_available():
        pytest.skip("with a GPU --amp is float16 on it")
    options = {**data_options(host, generated_shapes), **SHORT[host]}
    runner = train(tiny_configs[host], work_dir=str(tmp_path), amp=True, cfg_options=options)
    assert type(runner.optim_wrapper).__name__ == "CpuAmpOptimWrapper"
    said = capfd.readouterr()
    assert "--amp: there is no GPU, training in bfloat16 on the CPU" in said.out + said.err
    assert all(p.dtype == torch.float32 and p.isfinite().all() for p in runner.model.parameters())


def test_a_second_run_of_the_process_leaves_the_log_of_the_first_alone(
    tiny_configs, data_options, generated_shapes, tmp_path
):
    options = {**data_options("mmseg", generated_shapes), "train_cfg.max_iters": 1}
    options |= {"val_cfg": None, "val_dataloader": None, "val_evaluator": None}
    train(tiny_configs["mmseg"], work_dir=str(tmp_path / "first"), cfg_options=options)
    (log,) = (tmp_path / "first").glob("*/*.log")
    before = log.read_text()
    train(tiny_configs["mmseg"], work_dir=str(tmp_path / "second"), resume="auto", cfg_options=options)
    assert log.read_text() == before


def test_resume_auto_continues_or_says_that_it_starts_anew(
    tiny_configs, data_options, generated_shapes, tmp_path, capfd
):
    """The checkpoint is one of MMEngine's, with its training log inside, read by torch's safe loader."""
    options = {**data_options("mmseg", generated_shapes), **SHORT["mmseg"]}
    train(tiny_configs["mmseg"], work_dir=str(tmp_path), resume="auto", cfg_options=options)
    said = capfd.readouterr()
    assert "holds no checkpoint; training starts anew" in said.out + said.err
    options["train_cfg.max_iters"] = 4
    runner = train(tiny_configs["mmseg"], work_dir=str(tmp_path), resume="auto", cfg_options=options)
    assert (runner.iter, len(runner.message_hub.get_scalar("train/loss").data[0])) == (4, 4)
    assert {int(state["step"]) for state in runner.optim_wrapper.optimizer.state.values()} == {4}


def test_auto_scale_lr(tiny_configs, data_options, generated_shapes, tmp_path):
    options = {**data_options("mmseg", generated_shapes), "train_cfg.max_iters": 1, "param_scheduler": None}
    options |= {"auto_scale_lr.base_batch_size": 8, "val_cfg": None, "val_dataloader": None, "val_evaluator": None}
    runner = train(tiny_configs["mmseg"], work_dir=str(tmp_path), auto_scale_lr=True, cfg_options=options)
    assert runner.optim_wrapper.get_lr()["lr"][0] == pytest.approx(1e-3 * 2 / 8)


def test_the_work_dir_holds_a_config_that_runs_elsewhere(trained):
    """The dumped config imports the registry, whatever the user's own custom_imports were."""
    folder = trained("mmseg").rsplit("/", 1)[0]
    with open(f"{folder}/tiny_upernet.py") as file:
        assert "mmvisattn.registry" in file.read()
