"""Every provided op against mmcv's own code, called as users call it: through mmcv.ops."""

import pytest
import torch
from torch.testing import assert_close

# Both sides round to float32, in sums of up to about a hundred terms; values and gradients here are of order 1 to 10.
ROUNDING = {"rtol": 1e-5, "atol": 1e-5}
# Ours runs in float64, the value was rounded to float32 once.
ROUNDED_ONCE = {"rtol": 1e-6, "atol": 1e-6, "check_dtype": False}


def leaves(*tensors):
    return [tensor.clone().requires_grad_() for tensor in tensors]


def double(*tensors):
    return [tensor.double().requires_grad_() for tensor in tensors]


@pytest.mark.parametrize("offset", [0, 1])
def test_nms(compiled, offset):
    from mmcv.ops import nms

    dets, keep = nms(compiled["nms/boxes"], compiled["nms/scores"], iou_threshold=0.4, offset=offset)
    assert keep.tolist() == compiled[f"nms_offset{offset}/keep"].tolist()
    assert torch.equal(dets, compiled[f"nms_offset{offset}/dets"])


@pytest.mark.parametrize("method", ["naive", "linear", "gaussian"])
def test_soft_nms(compiled, method):
    from mmcv.ops import soft_nms

    dets, keep = soft_nms(compiled["nms/boxes"], compiled["nms/scores"], iou_threshold=0.3, sigma=0.5, method=method)
    assert keep.tolist() == compiled[f"soft_nms_{method}/keep"].tolist()
    assert_close(dets, compiled[f"soft_nms_{method}/dets"], rtol=1e-6, atol=0)


@pytest.mark.parametrize("threshold", [0.2, 0.4])
def test_nms_match(compiled, threshold):
    from mmcv.ops import nms_match

    dets = torch.cat((compiled["nms/boxes"], compiled["nms/scores"][:, None]), dim=1)
    groups = nms_match(dets, threshold)
    assert [len(group) for group in groups] == compiled[f"nms_match_threshold{threshold}/sizes"].tolist()
    assert torch.cat(groups).tolist() == compiled[f"nms_match_threshold{threshold}/members"].tolist()


def test_nms_rotated(compiled):
    from mmcv.ops import nms_rotated

    dets, keep = nms_rotated(compiled["nms_rotated/boxes"], compiled["nms_rotated/scores"], 0.3)
    assert keep.tolist() == compiled["nms_rotated/keep"].tolist()
    assert torch.equal(dets, compiled["nms_rotated/dets"])


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("mode", ["iou", "iof"])
def test_bbox_overlaps(compiled, mode, offset):
    from mmcv.ops import bbox_overlaps

    out = bbox_overlaps(compiled["bbox_overlaps/a"], compiled["bbox_overlaps/b"], mode=mode, offset=offset)
    assert_close(out, compiled[f"bbox_overlaps_{mode}_offset{offset}/out"], **ROUNDING)


def test_box_iou_rotated(compiled):
    from mmcv.ops import box_iou_rotated

    out = box_iou_rotated(compiled["box_iou_rotated/a"], compiled["box_iou_rotated/b"])
    assert_close(out, compiled["box_iou_rotated/iou"], **ROUNDING)


@pytest.mark.parametrize("sampling_ratio", [0, 2])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("pool_mode", ["avg", "max"])
def test_roi_align(compiled, pool_mode, aligned, sampling_ratio):
    from mmcv.ops import roi_align

    case = f"roi_align_{pool_mode}_aligned{int(aligned)}_sr{sampling_ratio}"
    (x,) = leaves(compiled["roi_align/x"])
    out = roi_align(x, compiled["roi_align/rois"], (4, 5), 0.25, sampling_ratio, pool_mode, aligned)
    out.backward(compiled[f"{case}/grad_out"])
    assert_close(out, compiled[f"{case}/out"], **ROUNDING)
    assert_close(x.grad, compiled[f"{case}/grad_x"], **ROUNDING)


@pytest.mark.parametrize("sampling_ratio", [0, 2])
@pytest.mark.parametrize("clockwise", [False, True])
@pytest.mark.parametrize("aligned", [False, True])
def test_roi_align_rotated(compiled, aligned, clockwise, sampling_ratio):
    from mmcv.ops import roi_align_rotated

    case = f"roi_align_rotated_aligned{int(aligned)}_clockwise{int(clockwise)}_sr{sampling_ratio}"
    (x,) = double(compiled["roi_pool/x"])
    rois = compiled["roi_align_rotated/rois"].double()
    out = roi_align_rotated(x, rois, (3, 2), 0.25, sampling_ratio, aligned, clockwise)
    out.backward(compiled[f"{case}/grad_out"].double())
    assert_close(out, compiled[f"{case}/out"], **ROUNDED_ONCE)
    assert_close(x.grad, compiled[f"{case}/grad_x"], **ROUNDED_ONCE)


def test_roi_pool(compiled):
    from mmcv.ops import roi_pool

    (x,) = double(compiled["roi_pool/x"])
    out = roi_pool(x, compiled["roi_pool/rois"].double(), (3, 2), 0.25)
    out.backward(compiled["roi_pool/grad_out"].double())
    assert_close(out, compiled["roi_pool/out"], **ROUNDED_ONCE)
    assert_close(x.grad, compiled["roi_pool/grad_x"], **ROUNDED_ONCE)


@pytest.mark.parametrize("sampling_ratio", [0, 2])
def test_deform_roi_pool(compiled, sampling_ratio):
    from mmcv.ops import deform_roi_pool

    case = f"deform_roi_pool_sr{sampling_ratio}"
    x, offset = double(compiled["roi_pool/x"], compiled["deform_roi_pool/offset"])
    rois = compiled["deform_roi_pool/rois"].double()
    out = deform_roi_pool(x, rois, offset, (3, 2), 0.25, sampling_ratio, 0.1)
    out.backward(compiled[f"{case}/grad_out"].double())
    assert_close(out, compiled[f"{case}/out"], **ROUNDED_ONCE)
    assert_close(x.grad, compiled[f"{case}/grad_x"], **ROUNDED_ONCE)
    assert_close(offset.grad, compiled[f"{case}/grad_offset"], **ROUNDED_ONCE)


def test_deform_conv(compiled):
    from mmcv.ops import deform_conv2d

    x, offset, weight = leaves(compiled["roi_align/x"], compiled["deform_conv/offset"], compiled["deform_conv/weight"])
    out = deform_conv2d(x, offset, weight, 1, 1)
    out.backward(compiled["deform_conv/grad_out"])
    assert_close(out, compiled["deform_conv/out"], **ROUNDING)
    assert_close(x.grad, compiled["deform_conv/grad_x"], **ROUNDING)
    assert_close(offset.grad, compiled["deform_conv/grad_offset"], **ROUNDING)
    # sums of 782 terms, of size up to 60
    assert_close(weight.grad, compiled["deform_conv/grad_weight"], rtol=1e-5, atol=1e-4)


def test_modulated_deform_conv(compiled):
    from mmcv.ops import modulated_deform_conv2d

    x, offset, weight = leaves(compiled["roi_align/x"], compiled["deform_conv/offset"], compiled["deform_conv/weight"])
    mask, bias = leaves(compiled["modulated_deform_conv/mask"], compiled["modulated_deform_conv/bias"])
    out = modulated_deform_conv2d(x, offset, mask, weight, bias, 1, 1)
    grad_out = compiled["modulated_deform_conv/grad_out"]
    out.backward(grad_out)
    assert_close(out, compiled["modulated_deform_conv/out"], **ROUNDING)
    for name, leaf in {"x": x, "offset": offset, "mask": mask}.items():
        assert_close(leaf.grad, compiled[f"modulated_deform_conv/grad_{name}"], **ROUNDING)
    assert_close(weight.grad, compiled["modulated_deform_conv/grad_weight"], rtol=1e-5, atol=1e-4)  # 782 terms
    assert_close(bias.grad, grad_out.sum(dim=(0, 2, 3)), rtol=1e-5, atol=1e-4)


def test_masked_im2col(compiled):
    from mmcv import _ext

    out = torch.empty_like(compiled["masked_im2col/out"])
    rows, columns = compiled["masked_im2col/rows"], compiled["masked_im2col/columns"]
    _ext.masked_im2col_forward(
        compiled["masked_im2col/x"], rows, columns, out, kernel_h=3, kernel_w=3, pad_h=1, pad_w=1
    )
    assert torch.equal(out, compiled["masked_im2col/out"])


@pytest.mark.parametrize(("kernel", "group", "scale"), [(5, 1, 2), (3, 3, 3)])
def test_carafe(compiled, kernel, group, scale):
    from mmcv.ops import carafe, carafe_naive

    case = f"carafe_k{kernel}_group{group}_scale{scale}"
    x, masks = double(compiled["carafe/x"], compiled[f"{case}/masks"])
    out = carafe(x, masks, kernel, group, scale)
    out.backward(compiled[f"{case}/grad_out"].double())
    assert_close(out, compiled[f"{case}/out"], **ROUNDED_ONCE)
    assert_close(x.grad, compiled[f"{case}/grad_x"], **ROUNDED_ONCE)
    assert_close(masks.grad, compiled[f"{case}/grad_masks"], **ROUNDED_ONCE)
    assert torch.equal(carafe_naive(x, masks, kernel, group, scale), out)


@pytest.mark.parametrize("psa_type", ["collect", "distribute"])
@pytest.mark.parametrize(("case", "mask_size"), [("whole", (5, 7)), ("part", (3, 3))])
def test_psamask(compiled, case, mask_size, psa_type):
    from mmcv.ops import PSAMask

    (x,) = leaves(compiled[f"psamask_{case}/x"])
    out = PSAMask(psa_type, mask_size)(x)
    out.backward(compiled[f"psamask_{case}/grad_out"])
    assert torch.equal(out, compiled[f"psamask_{case}_{psa_type}/out"])
    assert torch.equal(x.grad, compiled[f"psamask_{case}_{psa_type}/grad_x"])


@pytest.mark.parametrize("case", ["plain", "weighted"])
def test_sigmoid_focal_loss(compiled, case):
    from mmcv.ops import sigmoid_focal_loss

    (logits,) = double(compiled["focal_loss/logits"])
    weight = compiled["focal_loss/weight"].double() if case == "weighted" else None
    target = compiled["focal_loss/target" if case == "weighted" else "focal_loss/target_with_background"]
    loss = sigmoid_focal_loss(logits, target, 1.5, 0.3, weight, "none")
    loss.sum().backward()
    # The kernel takes the exponential in float32 even for float64 input, and the logarithm of 1 - p magnifies that.
    assert_close(loss, compiled[f"sigmoid_focal_loss_{case}/out"], rtol=1e-5, atol=1e-6, check_dtype=False)
    assert_close(logits.grad, compiled[f"sigmoid_focal_loss_{case}/grad_logits"], **ROUNDED_ONCE)


@pytest.mark.parametrize("case", ["plain", "weighted"])
def test_softmax_focal_loss(compiled, case):
    from mmcv.ops import softmax_focal_loss

    (logits,) = double(compiled["focal_loss/logits"])
    weight = compiled["focal_loss/weight"].double() if case == "weighted" else None
    loss = softmax_focal_loss(logits, compiled[f"softmax_focal_loss_{case}/target"], 1.5, 0.3, weight, "none")
    # mmcv multiplies the gradient of the row by that of the loss with the shape of the logits: only sums work.
    assert_close(loss, compiled[f"softmax_focal_loss_{case}/out"], **ROUNDED_ONCE)
    softmax_focal_loss(logits, compiled[f"softmax_focal_loss_{case}/target"], 1.5, 0.3, weight, "sum").backward()
    assert_close(logits.grad, compiled[f"softmax_focal_loss_{case}/grad_logits"], **ROUNDED_ONCE)


def test_ms_deform_attn(compiled):
    from mmcv.ops.multi_scale_deform_attn import MultiScaleDeformableAttnFunction

    value, locations, weights = double(
        *(compiled[f"ms_deform_attn/{name}"] for name in ("value", "locations", "weights"))
    )
    shapes, starts = compiled["ms_deform_attn/shapes"], compiled["ms_deform_attn/starts"]
    out = MultiScaleDeformableAttnFunction.apply(value, shapes, starts, locations, weights, 64)
    out.backward(compiled["ms_deform_attn/grad_out"].double())
    assert_close(out, compiled["ms_deform_attn/out"], **ROUNDED_ONCE)
    for name, leaf in {"value": value, "locations": locations, "weights": weights}.items():
        assert_close(leaf.grad, compiled[f"ms_deform_attn/grad_{name}"], **ROUNDED_ONCE)
