"""The table of all functions of ``mmcv._ext`` that the stand-in implements."""

from collections.abc import Callable
from typing import Any

from mmvisattn.hosts.mmcv_ops import (
    bbox_overlaps,
    carafe,
    deform_conv,
    deform_roi_pool,
    focal_loss,
    info,
    masked_conv,
    ms_deform_attn,
    nms,
    psamask,
    roi_align,
    roi_align_rotated,
    roi_pool,
    rotated,
    sync_bn,
)

PROVIDED: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        # boxes
        nms.nms,
        nms.softnms,
        nms.nms_match,
        rotated.nms_rotated,
        bbox_overlaps.bbox_overlaps,
        rotated.box_iou_rotated,
        # regions of interest
        roi_align.roi_align_forward,
        roi_align.roi_align_backward,
        roi_align_rotated.roi_align_rotated_forward,
        roi_align_rotated.roi_align_rotated_backward,
        roi_pool.roi_pool_forward,
        roi_pool.roi_pool_backward,
        deform_roi_pool.deform_roi_pool_forward,
        deform_roi_pool.deform_roi_pool_backward,
        # convolutions and upsampling
        deform_conv.deform_conv_forward,
        deform_conv.deform_conv_backward_input,
        deform_conv.deform_conv_backward_parameters,
        deform_conv.modulated_deform_conv_forward,
        deform_conv.modulated_deform_conv_backward,
        masked_conv.masked_im2col_forward,
        masked_conv.masked_col2im_forward,
        carafe.carafe_forward,
        carafe.carafe_backward,
        carafe.carafe_naive_forward,
        carafe.carafe_naive_backward,
        # attention
        ms_deform_attn.ms_deform_attn_forward,
        ms_deform_attn.ms_deform_attn_backward,
        psamask.psamask_forward,
        psamask.psamask_backward,
        # losses
        focal_loss.sigmoid_focal_loss_forward,
        focal_loss.sigmoid_focal_loss_backward,
        focal_loss.softmax_focal_loss_forward,
        focal_loss.softmax_focal_loss_backward,
        # normalization
        sync_bn.sync_bn_forward_mean,
        sync_bn.sync_bn_forward_var,
        sync_bn.sync_bn_forward_output,
        sync_bn.sync_bn_backward_param,
        sync_bn.sync_bn_backward_data,
        # description
        info.get_compiler_version,
        info.get_compiling_cuda_version,
    )
}
