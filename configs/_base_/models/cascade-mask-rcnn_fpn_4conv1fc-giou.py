"""Cascade Mask R-CNN with FPN, without its backbone; box heads as in the official Swin and ConvNeXt code.

Each of the three box heads has four convolutions and one linear layer, SyncBN, and learns decoded boxes by GIoU.
"""

_base_ = "./mask-rcnn_fpn.py"

model = dict(
    type="mmdet.CascadeRCNN",
    rpn_head=dict(loss_bbox=dict(_delete_=True, type="mmdet.SmoothL1Loss", beta=1.0 / 9.0, loss_weight=1.0)),
    roi_head=dict(
        type="mmdet.CascadeRoIHead",
        num_stages=3,
        stage_loss_weights=[1, 0.5, 0.25],
        bbox_head=[
            dict(
                type="mmdet.ConvFCBBoxHead",
                num_shared_convs=4,
                num_shared_fcs=1,
                in_channels=256,
                conv_out_channels=256,
                fc_out_channels=1024,
                roi_feat_size=7,
                num_classes=80,
                bbox_coder=dict(
                    type="mmdet.DeltaXYWHBBoxCoder", target_means=[0.0, 0.0, 0.0, 0.0], target_stds=target_stds
                ),
                reg_class_agnostic=False,
                reg_decoded_bbox=True,
                norm_cfg=dict(type="SyncBN", requires_grad=True),
                loss_cls=dict(type="mmdet.CrossEntropyLoss", use_sigmoid=False, loss_weight=1.0),
                loss_bbox=dict(type="mmdet.GIoULoss", loss_weight=10.0),
            )
            for target_stds in ([0.1, 0.1, 0.2, 0.2], [0.05, 0.05, 0.1, 0.1], [0.033, 0.033, 0.067, 0.067])
        ],
    ),
    train_cfg=dict(
        rpn=dict(allowed_border=0),
        rpn_proposal=dict(max_per_img=2000),
        rcnn=[
            dict(
                assigner=dict(
                    type="mmdet.MaxIoUAssigner",
                    pos_iou_thr=iou,
                    neg_iou_thr=iou,
                    min_pos_iou=iou,
                    match_low_quality=False,
                    ignore_iof_thr=-1,
                ),
                sampler=dict(
                    type="mmdet.RandomSampler", num=512, pos_fraction=0.25, neg_pos_ub=-1, add_gt_as_proposals=True
                ),
                mask_size=28,
                pos_weight=-1,
                debug=False,
            )
            for iou in (0.5, 0.6, 0.7)
        ],
    ),
)
