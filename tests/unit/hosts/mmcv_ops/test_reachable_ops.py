"""What MMDetection and MMSegmentation use of mmcv.ops, and that all of it runs on the stand-in."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest
import torch

# name in mmcv.ops -> extension functions it calls; none where mmcv itself is plain PyTorch
USED = {
    # imported by the hosts' code
    "RoIAlign": ("roi_align_forward", "roi_align_backward"),
    "roi_align": ("roi_align_forward", "roi_align_backward"),
    "RoIPool": ("roi_pool_forward", "roi_pool_backward"),
    "nms": ("nms",),
    "batched_nms": ("nms", "softnms", "nms_rotated"),
    "soft_nms": ("softnms",),
    "nms_match": ("nms_match",),
    "DeformConv2d": ("deform_conv_forward", "deform_conv_backward_input", "deform_conv_backward_parameters"),
    "deform_conv2d": ("deform_conv_forward", "deform_conv_backward_input", "deform_conv_backward_parameters"),
    "ModulatedDeformConv2d": ("modulated_deform_conv_forward", "modulated_deform_conv_backward"),
    "MaskedConv2d": ("masked_im2col_forward", "masked_col2im_forward"),
    "MultiScaleDeformableAttention": ("ms_deform_attn_forward", "ms_deform_attn_backward"),
    "CARAFEPack": ("carafe_forward", "carafe_backward"),
    "PSAMask": ("psamask_forward", "psamask_backward"),
    "sigmoid_focal_loss": ("sigmoid_focal_loss_forward", "sigmoid_focal_loss_backward"),
    "CornerPool": (),
    "CrissCrossAttention": (),
    "ConcatCell": (),
    "GlobalPoolingCell": (),
    "SumCell": (),
    "point_sample": (),
    "rel_roi_point_to_rel_img_point": (),
    # named by the hosts' configs
    "DeformConv2dPack": ("deform_conv_forward",),
    "ModulatedDeformConv2dPack": ("modulated_deform_conv_forward",),
    "SAConv2d": ("deform_conv_forward",),
    "DeformRoIPoolPack": ("deform_roi_pool_forward", "deform_roi_pool_backward"),
    "ModulatedDeformRoIPoolPack": ("deform_roi_pool_forward", "deform_roi_pool_backward"),
    "SimpleRoIAlign": (),
    "SyncBatchNorm": (
        "sync_bn_forward_mean",
        "sync_bn_forward_var",
        "sync_bn_forward_output",
        "sync_bn_backward_param",
        "sync_bn_backward_data",
    ),
}
CONFIG_NAMES = {  # where the type in a config is not the class
    "DCN": "DeformConv2dPack",
    "DCNv2": "ModulatedDeformConv2dPack",
    "SAC": "SAConv2d",
    "MMSyncBN": "SyncBatchNorm",
    "carafe": "CARAFEPack",
}


def folder_of(host):
    spec = importlib.util.find_spec(host)
    if spec is None:
        pytest.skip(f"{host} is not installed")
    return Path(spec.origin).parent


def names_imported_from_mmcv_ops(folder):
    names = set()
    for file in folder.rglob("*.py"):
        text = file.read_text()
        if "mmcv.ops" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mmcv.ops"):
                names.update(alias.name for alias in node.names)
    return names


# An operator that the maintained forks added, for lane detection. It is not provided, so it fails when it is called.
ONLY_IN_FORKS = {"line_nms"}


@pytest.mark.parametrize("host", ["mmdet", "mmseg"])
def test_every_import_of_a_host_is_known(host):
    names = names_imported_from_mmcv_ops(folder_of(host))
    assert len(names) > 3
    assert names - ONLY_IN_FORKS <= USED.keys()


@pytest.mark.parametrize("host", ["mmdet", "mmseg"])
def test_every_op_that_stock_configs_name_is_known(host):
    import mmcv.ops

    configs = folder_of(host) / ".mim" / "configs"
    types = set()
    for file in configs.rglob("*.py"):
        types.update(re.findall(r"type=['\"](\w+)['\"]", file.read_text()))
    assert len(types) > 100
    names = {CONFIG_NAMES.get(name, name) for name in types}
    names.discard("Conv2d")  # the registry's, not the deprecated wrapper of that name
    assert {name for name in names if hasattr(mmcv.ops, name)} <= USED.keys()


def test_all_of_it_is_provided():
    from mmvisattn.hosts import mmcv_ops

    assert {function for functions in USED.values() for function in functions} <= set(mmcv_ops.provided_ops())


def test_layers_that_are_plain_pytorch_run(random):
    from mmcv.ops import CornerPool, CrissCrossAttention, SAConv2d, SimpleRoIAlign, point_sample

    x = random(2, 8, 6, 7).requires_grad_()
    rois = torch.tensor([[0, 1.0, 1.0, 20.0, 18.0]], dtype=torch.float64)
    outputs = [
        CornerPool("top")(x),
        CrissCrossAttention(8).double()(x),
        SAConv2d(8, 4, 3, padding=1, use_deform=True).double()(x),
        SimpleRoIAlign((2, 2), 0.25)(x, rois),
        point_sample(x, torch.rand(2, 5, 2, dtype=torch.float64)),
    ]
    sum(output.sum() for output in outputs).backward()
    assert x.grad.isfinite().all()


def test_multi_scale_deformable_attention_runs(random):
    from mmcv.ops import MultiScaleDeformableAttention

    layer = MultiScaleDeformableAttention(
        embed_dims=8, num_heads=2, num_levels=2, num_points=2, batch_first=True
    ).double()
    shapes, starts = torch.tensor([[3, 4], [2, 2]]), torch.tensor([0, 12])
    query, value = random(1, 5, 8).requires_grad_(), random(1, 16, 8)
    reference = torch.full((1, 5, 2, 2), 0.5, dtype=torch.float64)
    out = layer(query, value=value, reference_points=reference, spatial_shapes=shapes, level_start_index=starts)
    out.sum().backward()
    assert out.shape == query.shape and query.grad.isfinite().all()
