"""The two pictures of the demo: what is drawn where, read back from the figures' pixels."""

import cv2
import numpy as np
import pytest
import torch

import mmvisattn.registry  # noqa: F401  isort: skip (it provides mmcv's operators, which the hosts import)
from mmdet.structures import DetDataSample
from mmdet.structures.mask import BitmapMasks
from mmengine.structures import InstanceData, PixelData
from mmseg.structures import SegDataSample

from mmvisattn.analysis.prediction_sheet import Example, Regions, predict_examples, save_prediction_sheet
from mmvisattn.analysis.training_curves import save_training_curves, smoothed
from mmvisattn.analysis.training_log import History

RED, BLUE = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0)


def example(size=32, truth_label=0, score=0.9):
    """A grey image with one square, found by the model in the wrong place."""
    image = np.full((size, size, 3), 128, np.uint8)
    truth, prediction = np.zeros((2, 1, size, size), bool)
    truth[0, 8:24, 8:24] = True
    prediction[0, 16:30, 4:20] = True
    return Example(image, Regions(truth, (truth_label,)), Regions(prediction, (1,), (score,)))


def colourful(picture, channel):
    """Pixels of a BGR picture in which one channel is far above the others."""
    others = np.delete(picture, channel, axis=2).max(axis=2).astype(int)
    return picture[..., channel].astype(int) - others > 60


@pytest.mark.parametrize("count", [1, 2, 5])
def test_truth_and_prediction_stand_in_their_columns(tmp_path, count):
    path = tmp_path / "sheet.png"
    save_prediction_sheet([example()] * count, ("red", "blue"), (RED, BLUE), path, "title")
    picture = cv2.imread(str(path))
    blocks = min(count, 2)
    block = picture[:, : picture.shape[1] // blocks]
    columns = np.array_split(np.arange(block.shape[1]), 3)
    red, blue = (colourful(block, channel) for channel in (2, 0))
    assert [red[:, column].sum() > 50 for column in columns] == [False, True, False]
    assert [blue[:, column].sum() > 50 for column in columns] == [False, False, True]


def test_sheet_of_an_image_without_objects(tmp_path):
    empty = Regions(np.zeros((0, 32, 32), bool), ())
    nothing = Example(np.zeros((32, 32, 3), np.uint8), empty, Regions(np.zeros((1, 32, 32), bool), (0,), (0.7,)))
    save_prediction_sheet([nothing], ("red",), (RED,), tmp_path / "sheet.png", "title")
    assert (tmp_path / "sheet.png").stat().st_size > 0


class Dataset(list):
    """A list of items, as a dataset gives them."""


class Model(torch.nn.Module):
    """Answers each item with a prepared data sample."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def val_step(self, batch):
        (sample,) = batch["data_samples"]
        return [self.answer(sample)]


def item():
    pixels = torch.zeros(3, 4, 4, dtype=torch.uint8)
    pixels[0] = 200  # blue, in the hosts' order
    return pixels


def test_detections_below_the_threshold_are_left_out():
    def answer(sample):
        masks = torch.zeros(3, 4, 4, dtype=torch.bool)
        masks[1, :2] = True
        sample.pred_instances = InstanceData(
            scores=torch.tensor([0.2, 0.8, 0.49]), labels=torch.tensor([0, 1, 2]), masks=masks
        )
        return sample

    sample = DetDataSample()
    sample.gt_instances = InstanceData(labels=torch.tensor([1]), masks=BitmapMasks(np.ones((1, 4, 4), np.uint8), 4, 4))
    data = Dataset([{"inputs": item(), "data_samples": sample}] * 2)
    (found,) = predict_examples(Model(answer), data, count=1)
    assert found.image[0, 0].tolist() == [0, 0, 200]
    assert found.truth.labels == (1,) and found.truth.masks.all()
    assert found.prediction.labels == (1,)
    assert found.prediction.scores == pytest.approx((0.8,))
    assert found.prediction.masks[0].sum() == 8


def test_label_maps_become_areas_without_background_and_unlabelled():
    labels = torch.tensor([[[0, 1, 1, 255], [0, 3, 3, 255], [0, 0, 0, 0], [0, 0, 0, 0]]])

    def answer(sample):
        sample.pred_sem_seg = PixelData(data=torch.zeros(1, 4, 4, dtype=torch.long))
        return sample

    sample = SegDataSample(gt_sem_seg=PixelData(data=labels))
    data = Dataset([{"inputs": item(), "data_samples": sample}])
    (found,) = predict_examples(Model(answer), data, count=8)
    assert found.truth.labels == (1, 3)
    assert [mask.sum() for mask in found.truth.masks] == [2, 2]
    assert found.prediction.labels == () and found.prediction.masks.shape == (0, 4, 4)


def test_smoothing_keeps_length_and_levels():
    assert smoothed([2.0] * 7, window=3).tolist() == [2.0] * 7
    assert smoothed([0.0, 3.0, 3.0, 9.0], window=3).tolist() == [0.0, 1.5, 2.0, 5.0]


def test_curves_of_two_runs(tmp_path):
    one = History([1, 2, 3], [3.0, 2.0, 1.0], {"box AP": [(2, 0.1), (3, 0.3)], "mask AP": [(3, 0.2)]})
    two = History([1, 2], [3.0, 2.5], {"box AP": [(2, 0.2)]})
    save_training_curves({"ours": one, "theirs": two}, tmp_path / "curves.png")
    picture = cv2.imread(str(tmp_path / "curves.png"))
    left, right = np.array_split(picture, 2, axis=1)
    for half in (left, right):
        assert colourful(half, 0).sum() > 50, "the first run is drawn, in blue"
        assert colourful(half, 2).sum() > 50, "the second run is drawn, in red"
