"""Parts that do not fit are named before the first image, with both lists."""

import copy

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, init_default_scope

from mmvisattn import registry
from mmvisattn.analysis import contract
from mmvisattn.engine.hooks.channel_contract import ChannelContractHook

NANO = dict(type="mmvisattn.SwinTransformer", arch=dict(embed_dim=8, depths=(1, 1, 1, 1), num_heads=(1, 1, 1, 1)))
CHANNELS = [8, 16, 32, 64]


def stock(path, **model_options):
    """A host's stock model with our nano Swin in it, not yet built."""
    config = Config.fromfile(Config._get_cfg_path(path, "")[0] if "::" in path else path)
    model = config.model
    model.backbone = NANO
    if "pretrained" in model:  # mmseg's models name a ResNet's weights here
        model.pretrained = None
    for name, options in model_options.items():
        model[name].update(options)
    return model


def build(model, scope):
    assert registry.SCOPE == "mmvisattn"
    init_default_scope(scope)
    with torch.device("meta"):
        return MODELS.build(copy.deepcopy(model))


MASK_RCNN = "mmdet::_base_/models/mask-rcnn_r50_fpn.py"
RETINANET = "mmdet::_base_/models/retinanet_r50_fpn.py"
UPERNET = "mmseg::_base_/models/upernet_r50.py"


def test_a_detector_that_fits():
    model = build(stock(MASK_RCNN, neck=dict(in_channels=CHANNELS)), "mmdet")
    text = str(contract.check(model))
    assert "[8, 16, 32, 64] against [8, 16, 32, 64]" in text  # backbone and neck
    assert "anchors of rpn_head" in text and "roi_head.mask_roi_extractor" in text


def test_a_neck_of_another_backbone():
    model = build(stock(MASK_RCNN), "mmdet")
    with pytest.raises(contract.ContractError, match=r"\[8, 16, 32, 64\] against \[256, 512, 1024, 2048\]"):
        contract.check(model)


def test_anchors_of_another_stride():
    model = stock(RETINANET, neck=dict(in_channels=CHANNELS, start_level=0))
    with pytest.raises(contract.ContractError, match=r"strides.*\[4, 8, 16, 32, 64\] against \[8, 16, 32, 64, 128\]"):
        contract.check(build(model, "mmdet"))


def test_out_indices_and_start_level_together():
    model = stock(RETINANET, neck=dict(in_channels=CHANNELS[1:], start_level=0))
    model.backbone = dict(NANO, out_indices=(1, 2, 3))
    assert contract.check(build(model, "mmdet")).problems == []


def test_roi_extractor_of_another_stride():
    model = stock(MASK_RCNN, neck=dict(in_channels=CHANNELS))
    model.roi_head.bbox_roi_extractor.featmap_strides = [8, 16, 32, 64]
    with pytest.raises(contract.ContractError, match="featmap_strides of roi_head.bbox_roi_extractor"):
        contract.check(build(model, "mmdet"))


def test_a_segmentor_that_fits():
    heads = dict(decode_head=dict(in_channels=CHANNELS), auxiliary_head=dict(in_channels=32))
    model = build(stock(UPERNET, **heads), "mmseg")
    assert len(contract.check(model).checked) == 2


@pytest.mark.parametrize("head", ["decode_head", "auxiliary_head"])
def test_a_segmentation_head_of_another_backbone(head):
    heads = dict(decode_head=dict(in_channels=CHANNELS), auxiliary_head=dict(in_channels=32))
    del heads[head]
    with pytest.raises(contract.ContractError, match=head):
        contract.check(build(stock(UPERNET, **heads), "mmseg"))


def test_a_head_that_selects_a_missing_level():
    heads = dict(decode_head=dict(in_channels=CHANNELS), auxiliary_head=dict(in_channels=32, in_index=4))
    with pytest.raises(contract.ContractError, match=r"in_index of auxiliary_head.*\[4\] against 4 levels"):
        contract.check(build(stock(UPERNET, **heads), "mmseg"))


def test_backbones_that_do_not_say_are_left_alone():
    config = Config.fromfile(Config._get_cfg_path(MASK_RCNN, "")[0])
    init_default_scope("mmdet")
    with torch.device("meta"):
        model = MODELS.build(config.model)
    assert contract.check(model).checked == []


def test_the_hook_stops_a_run_before_it_starts():
    class Runner:
        model = build(stock(MASK_RCNN), "mmdet")

    with pytest.raises(contract.ContractError):
        ChannelContractHook().before_run(Runner())
