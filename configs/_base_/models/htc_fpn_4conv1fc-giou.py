"""Hybrid Task Cascade with FPN and the semantic branch, without its backbone.

Box heads of the official Swin code; everything else has the values of MMDetection's HTC.
"""

_base_ = "./cascade-mask-rcnn_fpn_4conv1fc-giou.py"

model = dict(
    type="mmdet.HybridTaskCascade",
    data_preprocessor=dict(pad_seg=True),
    roi_head=dict(
        type="mmdet.HybridTaskCascadeRoIHead",
        interleaved=True,
        mask_info_flow=True,
        mask_head=[
            dict(
                type="mmdet.HTCMaskHead",
                with_conv_res=with_conv_res,
                num_convs=4,
                in_channels=256,
                conv_out_channels=256,
                num_classes=80,
                loss_mask=dict(type="mmdet.CrossEntropyLoss", use_mask=True, loss_weight=1.0),
            )
            for with_conv_res in (False, True, True)  # the first stage has no mask features to receive
        ],
        semantic_roi_extractor=dict(
            type="mmdet.SingleRoIExtractor",
            roi_layer=dict(type="RoIAlign", output_size=14, sampling_ratio=0),
            out_channels=256,
            featmap_strides=[8],
        ),
        semantic_head=dict(
            type="mmdet.FusedSemanticHead",
            num_ins=5,
            fusion_level=1,
            seg_scale_factor=1 / 8,
            num_convs=4,
            in_channels=256,
            conv_out_channels=256,
            num_classes=183,
            loss_seg=dict(type="mmdet.CrossEntropyLoss", ignore_index=255, loss_weight=0.2),
        ),
    ),
    train_cfg=dict(
        rcnn=[
            dict(stage, assigner=dict(stage["assigner"], match_low_quality=True))
            for stage in _base_.model.train_cfg.rcnn
        ]
    ),
    test_cfg=dict(rcnn=dict(score_thr=0.001)),
)
