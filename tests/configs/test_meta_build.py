"""Every model builds at full size on the meta device, its parts fit, and its optimizer decays what it should."""

import re

import pytest
import torch
from mmengine.optim import build_optim_wrapper
from mmengine.registry import init_default_scope
from torch import nn

from mmvisattn.analysis import contract

# Parameters in millions, as the READMEs of the official repositories print them.
PUBLISHED_SIZES = {
    r"mask-rcnn_swin-t": 48,
    r"mask-rcnn_swin-s": 69,
    r"cascade-mask-rcnn_swin-t": 86,
    r"cascade-mask-rcnn_swin-s": 107,
    r"cascade-mask-rcnn_swin-b": 145,
    r"swin-tiny.*upernet": 60,
    r"swin-small.*upernet": 81,
    r"swin-base.*upernet": 121,
    r"swin-large.*upernet": 234,
    r"mask-rcnn_convnext-t": 48,
    r"cascade-mask-rcnn_convnext-t": 86,
    r"cascade-mask-rcnn_convnext-s": 108,
    r"cascade-mask-rcnn_convnext-b": 146,
    r"cascade-mask-rcnn_convnext-l": 255,
    r"cascade-mask-rcnn_convnext-xl": 407,
    r"convnext-tiny_upernet": 60,
    r"convnext-small_upernet": 82,
    r"convnext-base_upernet": 122,
    r"convnext-large_upernet": 235,
    r"convnext-xlarge_upernet": 391,
}
# The paper counts one more global attention block on the last stage, which the configs say they leave out.
HTC_PLUS_PLUS = {"htc-plus-plus_swin-b": (160, 1024), "htc-plus-plus_swin-l": (284, 1536)}


def test_builds_and_fits(meta_model, config):
    assert all(parameter.is_meta for parameter in meta_model.parameters())
    report = contract.check(meta_model)
    assert report.checked
    host = {"mmdet": 3, "mmseg": 2}[config.default_scope]  # neck and heads; decode and auxiliary head
    assert len(report.checked) >= host


def test_every_backbone_output_is_used(meta_model, config):
    levels = len(meta_model.backbone.out_channels)
    if config.default_scope == "mmdet":
        assert meta_model.neck.start_level == 0 and meta_model.neck.backbone_end_level == levels
    else:
        assert sorted(meta_model.decode_head.in_index) == list(range(levels))


def test_parameter_count_is_the_published_one(config_name, meta_model):
    millions = sum(parameter.numel() for parameter in meta_model.parameters()) / 1e6
    file = config_name.split("/")[1]
    for pattern, published in PUBLISHED_SIZES.items():
        if re.match(pattern, file):
            assert millions == pytest.approx(published, abs=0.5)  # printed without decimals
    for prefix, (published, dim) in HTC_PLUS_PLUS.items():
        if file.startswith(prefix):
            left_out = 12 * dim**2 / 1e6  # qkv 3, projection 1, MLP 8
            assert millions + left_out == pytest.approx(published, abs=1)


def parameter_groups(model, config):
    init_default_scope(config.default_scope)
    # AmpOptimWrapper wants a GPU; which parameter goes into which group does not depend on it
    return build_optim_wrapper(model, dict(config.optim_wrapper, type="OptimWrapper")).optimizer.param_groups


def test_weight_decay_spares_norms_and_tables_and_no_matrix(meta_model, config):
    groups = parameter_groups(meta_model, config)
    decay = {id(parameter): group["weight_decay"] for group in groups for parameter in group["params"]}
    backbone = meta_model.backbone
    parameters = {name: parameter for name, parameter in backbone.named_parameters() if parameter.requires_grad}
    norms = {
        f"{module_name}.{name}"
        for module_name, module in backbone.named_modules()
        if isinstance(module, nn.LayerNorm)
        for name, _ in module.named_parameters()
    }
    tables = {name for name in backbone.no_weight_decay() if parameters[name].ndim > 1}
    matrices = {name for name, parameter in parameters.items() if parameter.ndim > 1} - tables
    assert norms and matrices
    assert {decay[id(parameters[name])] for name in norms | tables} == {0}
    assert {decay[id(parameters[name])] for name in matrices} == {config.optim_wrapper.optimizer.weight_decay}


def test_optimizer_has_every_trainable_parameter_once(meta_model, config):
    held = [id(parameter) for group in parameter_groups(meta_model, config) for parameter in group["params"]]
    assert len(held) == len(set(held))
    assert set(held) == {id(parameter) for parameter in meta_model.parameters() if parameter.requires_grad}


def test_activations_of_one_image_have_the_promised_shapes(meta_model):
    backbone = meta_model.backbone.eval()
    image = torch.rand(1, 3, 96, 160, device="meta")
    for features, channels, stride in zip(backbone(image), backbone.out_channels, backbone.out_strides, strict=True):
        assert features.shape == (1, channels, 96 // stride, 160 // stride)
