"""Mask R-CNN on 64-pixel shapes, small enough that one epoch takes about a second on one core."""

_base_ = ["../../../configs/_base_/models/mask-rcnn_fpn.py", "../../../configs/_base_/runtimes/mmdet.py"]

classes = ("circle", "square", "triangle", "star", "ring", "cross")
channels = 16

model = dict(
    backbone=dict(
        type="mmvisattn.SwinTransformer",
        arch=dict(embed_dim=8, depths=(1, 2, 1, 1), num_heads=(1, 1, 2, 2)),
        window_size=4,
        drop_path_rate=0.3,
    ),
    neck=dict(
        in_channels=[8, 16, 32, 64], out_channels=channels, num_outs=5, norm_cfg=dict(type="SyncBN", requires_grad=True)
    ),
    rpn_head=dict(in_channels=channels, feat_channels=channels),
    roi_head=dict(
        bbox_roi_extractor=dict(out_channels=channels),
        bbox_head=dict(in_channels=channels, fc_out_channels=16, num_classes=len(classes)),
        mask_roi_extractor=dict(out_channels=channels),
        mask_head=dict(num_convs=1, in_channels=channels, conv_out_channels=channels, num_classes=len(classes)),
    ),
    train_cfg=dict(
        rpn=dict(sampler=dict(num=32)),
        rpn_proposal=dict(nms_pre=50, max_per_img=20),
        rcnn=dict(sampler=dict(num=16)),
    ),
    test_cfg=dict(rpn=dict(nms_pre=50, max_per_img=20), rcnn=dict(score_thr=0.0, max_per_img=5)),
)

train_dataloader = dict(
    batch_size=2,
    num_workers=0,
    sampler=dict(type="DefaultSampler", shuffle=True),
    dataset=dict(
        type="mmdet.CocoDataset",
        metainfo=dict(classes=classes),
        data_root="shapes/",
        ann_file="annotations/instances_train.json",
        data_prefix=dict(img="images/training/"),
        filter_cfg=dict(filter_empty_gt=True, min_size=32),
        pipeline=[
            dict(type="LoadImageFromFile"),
            dict(type="mmdet.LoadAnnotations", with_bbox=True, with_mask=True),
            dict(type="mmdet.RandomFlip", prob=0.5),
            dict(type="mmdet.PackDetInputs"),
        ],
    ),
)
val_dataloader = dict(
    batch_size=1,
    num_workers=0,
    sampler=dict(type="DefaultSampler", shuffle=False),
    dataset=dict(
        type="mmdet.CocoDataset",
        metainfo=dict(classes=classes),
        data_root="shapes/",
        ann_file="annotations/instances_val.json",
        data_prefix=dict(img="images/validation/"),
        test_mode=True,
        pipeline=[
            dict(type="LoadImageFromFile"),
            dict(type="mmdet.Resize", scale=(64, 64), keep_ratio=True),
            dict(type="mmdet.LoadAnnotations", with_bbox=True, with_mask=True),
            dict(
                type="mmdet.PackDetInputs", meta_keys=("img_id", "img_path", "ori_shape", "img_shape", "scale_factor")
            ),
        ],
    ),
)
test_dataloader = val_dataloader
val_evaluator = dict(type="mmdet.CocoMetric", metric=["bbox", "segm"])
test_evaluator = val_evaluator

optim_wrapper = dict(type="OptimWrapper", optimizer=dict(type="AdamW", lr=1e-3, weight_decay=0.05))
param_scheduler = [dict(type="LinearLR", start_factor=0.1, by_epoch=False, begin=0, end=3)]
train_cfg = dict(type="EpochBasedTrainLoop", max_epochs=2, val_interval=1)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
default_hooks = dict(checkpoint=dict(save_best=None))
randomness = dict(seed=0)
