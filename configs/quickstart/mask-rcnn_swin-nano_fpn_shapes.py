"""Mask R-CNN, nano Swin, FPN, generated shapes: a detector that trains in minutes on two CPU cores.

Expected: box AP 0.83 and mask AP 0.85 (COCO 0.50:0.95) on 100 held-out images, after 400 iterations.

Hardware: 2 CPU cores, 7 minutes; or any GPU.

Command: `make demo`, or, with the data made by `python tools/make_shapes.py`,
    python tools/train.py configs/quickstart/mask-rcnn_swin-nano_fpn_shapes.py
"""

_base_ = ["../_base_/models/mask-rcnn_fpn.py", "../_base_/runtimes/mmdet.py"]

classes = ("circle", "square", "triangle", "star", "ring", "cross")
data_root = "data/shapes/"
image_size = (160, 160)  # width, height in pixels
channels = 64  # of the neck and the heads
norm = dict(type="BN", requires_grad=True)  # in the heads too: without it they barely learn in so few iterations
max_iters = 400
warmup_iters = 80
val_interval = 80

model = dict(
    backbone=dict(
        type="mmvisattn.SwinTransformer",
        arch=dict(embed_dim=32, depths=(2, 2, 2, 2), num_heads=(1, 2, 4, 8)),
        window_size=5,  # tokens; divides the sides 40, 20, 10 and 5 of the four maps
        drop_path_rate=0.0,
    ),
    neck=dict(in_channels=[32, 64, 128, 256], out_channels=channels, num_outs=4, norm_cfg=norm),
    rpn_head=dict(
        in_channels=channels,
        feat_channels=channels,
        anchor_generator=dict(ratios=[1.0], strides=[4, 8, 16, 32]),
    ),
    roi_head=dict(
        bbox_roi_extractor=dict(
            roi_layer=dict(sampling_ratio=2),
            out_channels=channels,
            finest_scale=28,  # pixels, as are the sides of the objects: 32 to 80
        ),
        bbox_head=dict(
            type="mmdet.ConvFCBBoxHead",
            num_shared_convs=2,
            num_shared_fcs=1,
            in_channels=channels,
            conv_out_channels=channels,
            fc_out_channels=256,
            num_classes=len(classes),
            norm_cfg=norm,
            reg_class_agnostic=True,
            reg_decoded_bbox=True,
            loss_bbox=dict(_delete_=True, type="mmdet.GIoULoss", loss_weight=4.0),
        ),
        mask_roi_extractor=dict(
            roi_layer=dict(sampling_ratio=2),
            out_channels=channels,
            finest_scale=28,
        ),
        mask_head=dict(
            num_convs=2,
            in_channels=channels,
            conv_out_channels=channels,
            num_classes=len(classes),
            norm_cfg=norm,
        ),
    ),
    train_cfg=dict(
        rpn=dict(sampler=dict(num=128)),
        rpn_proposal=dict(nms_pre=200, max_per_img=100),
        rcnn=dict(sampler=dict(num=64)),
    ),
    test_cfg=dict(
        rpn=dict(nms_pre=200, max_per_img=100),
        rcnn=dict(max_per_img=20),
    ),
)

load_image = dict(type="LoadImageFromFile")
load_objects = dict(type="mmdet.LoadAnnotations", with_bbox=True, with_mask=True)
resize = dict(type="mmdet.Resize", scale=image_size, keep_ratio=True)
train_dataloader = dict(
    batch_size=8,
    num_workers=0,  # reading a batch takes a hundredth of a training step
    sampler=dict(type="InfiniteSampler", shuffle=True),
    dataset=dict(
        type="mmdet.CocoDataset",
        metainfo=dict(classes=classes),
        data_root=data_root,
        ann_file="annotations/instances_train.json",
        data_prefix=dict(img="images/training/"),
        pipeline=[
            load_image,
            load_objects,
            resize,
            dict(type="mmdet.RandomFlip", prob=[0.25, 0.25, 0.25], direction=["horizontal", "vertical", "diagonal"]),
            dict(type="mmdet.PackDetInputs"),
        ],
    ),
)
val_dataloader = dict(
    batch_size=4,
    num_workers=0,
    sampler=dict(type="DefaultSampler", shuffle=False),
    dataset=dict(
        type="mmdet.CocoDataset",
        metainfo=dict(classes=classes),
        data_root=data_root,
        ann_file="annotations/instances_val.json",
        data_prefix=dict(img="images/validation/"),
        test_mode=True,
        pipeline=[
            load_image,
            resize,
            load_objects,
            dict(
                type="mmdet.PackDetInputs", meta_keys=("img_id", "img_path", "ori_shape", "img_shape", "scale_factor")
            ),
        ],
    ),
)
test_dataloader = val_dataloader
val_evaluator = dict(
    type="mmdet.CocoMetric", ann_file=data_root + "annotations/instances_val.json", metric=["bbox", "segm"]
)
test_evaluator = val_evaluator

optim_wrapper = dict(
    type="OptimWrapper", optimizer=dict(type="AdamW", lr=2e-3, weight_decay=0.05), clip_grad=dict(max_norm=5.0)
)
param_scheduler = [
    dict(type="LinearLR", start_factor=0.04, begin=0, end=warmup_iters, by_epoch=False),
    dict(type="CosineAnnealingLR", eta_min=0.0, begin=warmup_iters, end=max_iters, by_epoch=False),
]
train_cfg = dict(type="IterBasedTrainLoop", max_iters=max_iters, val_interval=val_interval)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")

default_hooks = dict(logger=dict(interval=20), checkpoint=dict(by_epoch=False, interval=max_iters, save_best=None))
log_processor = dict(by_epoch=False, window_size=20)
randomness = dict(seed=0)
