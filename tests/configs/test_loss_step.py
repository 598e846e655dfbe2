"""One training step and one prediction for each distinct (family, head, neck), on a nano backbone and 128 px images.

Every other config has a model that differs from a tested one in numbers only; that is a test too.
"""

import pytest
import torch

REPRESENTATIVES = (
    "swin/mask-rcnn_swin-t-p4-w7_fpn_1x_coco",
    "swin/cascade-mask-rcnn_swin-t-p4-w7_fpn_4conv1fc-giou_amp-ms-crop-3x_coco",
    "swin/htc-plus-plus_swin-b-p4-w7-in22k_fpn_amp-ms-400-1400-6x_coco",
    "swin/retinanet_swin-t-p4-w7_fpn_1x_coco",
    "swin/swin-tiny-patch4-window7-in1k-pre_upernet_8xb2-160k_ade20k-512x512",
    "swin_v2/mask-rcnn_swinv2-t-p4-w8_fpn_1x_coco",
    "swin_v2/swinv2-tiny-patch4-window8-in1k-256x256-pre_upernet_8xb2-160k_ade20k-512x512",
    "convnext/mask-rcnn_convnext-t-p4-w7_fpn_amp-ms-crop-3x_coco",
    "convnext/cascade-mask-rcnn_convnext-t-p4-w7_fpn_4conv1fc-giou_amp-ms-crop-3x_coco",
    "convnext/convnext-tiny_upernet_8xb2-amp-160k_ade20k-512x512",
    "convnext/mask-rcnn_convnextv2-b-p4-w7_fpn_8xb4-amp-lsj-3x_coco",
    "convnext/convnextv2-base_upernet_8xb2-amp-160k_ade20k-512x512",
)


def combination(config):
    """What makes a config distinct: types of backbone, model, neck and heads."""
    model = config.model
    parts = (model.backbone, model, model.get("neck"), model.get("roi_head"), model.get("decode_head"))
    return tuple(part["type"] if part else None for part in parts)


SIZES_AND_WEIGHTS = ("arch", "window_size", "pretrained_window_sizes", "init_cfg")


def skeleton(node):
    """A model config without its sizes, other numbers and weights: what decides which code runs."""
    if isinstance(node, dict):
        return {key: skeleton(value) for key, value in node.items() if key not in SIZES_AND_WEIGHTS}
    if isinstance(node, (list, tuple)):
        return [skeleton(value) for value in node]
    return "number" if isinstance(node, (int, float)) and not isinstance(node, bool) else node


def test_each_combination_has_one_representative(experiments, read_config):
    tested = [combination(read_config(name)) for name in REPRESENTATIVES]
    assert len(set(tested)) == len(tested)
    assert set(tested) == {combination(read_config(name)) for name in experiments}


def test_config_differs_from_its_representative_in_numbers_only(config, read_config):
    tested = {combination(read_config(name)): read_config(name) for name in REPRESENTATIVES}[combination(config)]
    assert skeleton(config.model) == skeleton(tested.model)


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_one_step_gives_every_parameter_a_gradient(name, read_config, nano_model, random_batch):
    config = read_config(name)
    model = nano_model(config).train()
    data = model.data_preprocessor(random_batch(config), training=True)
    total, losses = model.parse_losses(model(**data, mode="loss"))
    total.backward()
    assert all(torch.isfinite(value).all() for value in losses.values())
    trainable = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert not {name for name, parameter in trainable.items() if parameter.grad is None}
    assert all(torch.isfinite(parameter.grad).all() for parameter in trainable.values())


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_prediction_has_the_size_of_the_image(name, read_config, nano_model, random_batch):
    config = read_config(name)
    model = nano_model(config).eval()
    batch = random_batch(config)
    size = batch["inputs"][0].shape[1:]
    with torch.no_grad():
        results = model(**model.data_preprocessor(batch, training=False), mode="predict")
    assert len(results) == len(batch["inputs"])
    for result in results:
        if config.default_scope == "mmseg":
            assert result.pred_sem_seg.data.shape == (1, *size)
        elif "roi_head" in config.model:
            assert result.pred_instances.masks.shape[1:] == size
        else:
            assert result.pred_instances.bboxes.shape[1] == 4
