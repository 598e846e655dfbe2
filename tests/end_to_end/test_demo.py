"""The demo from its command line to its pictures: a few iterations by default, in full among the slow tests."""

import io
import json
import subprocess
import sys
import time
from pathlib import Path

import cv2
import pytest
import torch

from mmvisattn.analysis.demo import DETECTOR, SEGMENTOR, DemoOptions, run_demo

ROOT = Path(__file__).parents[2]
FEW_SHAPES = dict(train_images=8, val_images=2, image_size=64)


def check_files(outcome):
    """The files an outcome names exist and hold what they should."""
    assert cv2.imread(str(outcome.sheet)).shape[1] > 500
    checkpoint = torch.load(outcome.checkpoint, weights_only=True)
    assert any(key.startswith("backbone.") for key in checkpoint["state_dict"])
    assert "Iter(train)" in outcome.log.read_text()


def test_detector_against_the_host(tmp_path):
    output = io.StringIO()
    options = DemoOptions(tmp_path / "work", tmp_path / "data", against=True, iterations=2, shapes=FEW_SHAPES)
    ours, theirs = run_demo(DETECTOR, options, output)
    assert (ours.backbone, theirs.backbone) == ("mmvisattn.SwinTransformer", "mmdet.SwinTransformer")
    for outcome in (ours, theirs):
        assert set(outcome.scores) == {"box AP", "mask AP"}
        assert outcome.history.iterations == [1, 2]
        check_files(outcome)
    assert ours.history.losses[0] == pytest.approx(theirs.history.losses[0], rel=0.3)  # both start untrained
    said = output.getvalue()
    for path in (tmp_path / "work/detector/curves.png", ours.sheet, ours.checkpoint, ours.log, theirs.sheet):
        assert str(path) in said
        assert path.is_file()
    assert "100%     2/2 iterations" in said and "box AP 0." in said
    assert "mmengine - INFO" not in said, "the host's own words go to the log file"


def test_segmentor(tmp_path, capsys):
    output = io.StringIO()
    options = DemoOptions(tmp_path / "work", tmp_path / "data", iterations=2, seed=1, shapes=FEW_SHAPES)
    (outcome,) = run_demo(SEGMENTOR, options, output)
    assert outcome.backbone == "mmvisattn.SwinTransformer"
    assert 0 <= outcome.scores["mIoU"] <= 1
    check_files(outcome)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("tool", ["demo", "make_shapes"])
def test_one_sentence_for_a_folder_that_holds_other_files(tool, tmp_path):
    (tmp_path / "thesis.txt").write_text("precious")
    arguments = ["--data", str(tmp_path), "--work-dir", str(tmp_path / "work")] if tool == "demo" else [str(tmp_path)]
    script = ROOT / "tools" / f"{tool}.py"
    run = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 1
    assert run.stderr.startswith(f"{tool}: root must be a new or empty folder") and run.stderr.count("\n") == 1


def test_make_shapes_writes_what_it_was_asked_for(tmp_path):
    root = tmp_path / "new"
    command = [sys.executable, str(ROOT / "tools" / "make_shapes.py"), str(root), "--difficulty=textured"]
    command += ["--train-images=3", "--val-images=1", "--image-size=80", "--seed=4"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert str(root) in run.stdout
    assert json.loads((root / "shapes.json").read_text())["difficulty"] == "textured"
    assert cv2.imread(str(root / "images" / "training" / "000002.jpg")).shape == (80, 80, 3)


def test_iterations_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match="^iterations must be at least 1, got 0$"):
        run_demo(DETECTOR, DemoOptions(tmp_path / "work", tmp_path / "data", iterations=0), io.StringIO())
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_detector_reaches_its_scores_within_ten_minutes_of_two_cores(tmp_path, seed):
    started = time.process_time()
    (outcome,) = run_demo(DETECTOR, DemoOptions(tmp_path / "work", tmp_path / "data", seed=seed), io.StringIO())
    assert outcome.scores["box AP"] >= 0.50
    assert outcome.scores["mask AP"] >= 0.45
    assert time.process_time() - started < 2 * 600  # CPU time, so that other processes do not count


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_segmentor_reaches_its_score_within_eight_minutes_of_two_cores(tmp_path, seed):
    started = time.process_time()
    (outcome,) = run_demo(SEGMENTOR, DemoOptions(tmp_path / "work", tmp_path / "data", seed=seed), io.StringIO())
    assert outcome.scores["mIoU"] >= 0.80
    assert time.process_time() - started < 2 * 480
