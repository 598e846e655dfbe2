"""UPerNet, nano Swin, generated shapes: a segmentor that trains in minutes on two CPU cores.

Expected: mIoU 0.94 on 100 held-out images, after 400 iterations.

Hardware: 2 CPU cores, 3 minutes; or any GPU.

Command: `make demo ARGS=--segment`, or, with the data made by `python tools/make_shapes.py`,
    python tools/train.py configs/quickstart/swin-nano_upernet_shapes-160x160.py
"""

_base_ = ["../_base_/models/upernet.py", "../_base_/runtimes/mmseg.py"]

classes = ("background", "circle", "square", "triangle", "star", "ring", "cross")
palette = [
    [128, 128, 128],
    [239, 91, 91],
    [61, 126, 219],
    [247, 181, 56],
    [143, 91, 216],
    [20, 184, 166],
    [123, 191, 63],
]
data_root = "data/shapes/"
image_size = (160, 160)  # width, height in pixels
channels = 64  # of the heads
norm = dict(type="BN", requires_grad=True)
max_iters = 400
warmup_iters = 80
val_interval = 80

model = dict(
    data_preprocessor=dict(size=image_size),
    backbone=dict(
        type="mmvisattn.SwinTransformer",
        arch=dict(embed_dim=32, depths=(2, 2, 2, 2), num_heads=(1, 2, 4, 8)),
        window_size=5,  # tokens; divides the sides 40, 20, 10 and 5 of the four maps
        drop_path_rate=0.0,
    ),
    decode_head=dict(
        in_channels=[32, 64, 128, 256], channels=channels, dropout_ratio=0.0, num_classes=len(classes), norm_cfg=norm
    ),
    auxiliary_head=dict(in_channels=128, channels=channels, dropout_ratio=0.0, num_classes=len(classes), norm_cfg=norm),
)

load_image = dict(type="LoadImageFromFile")
load_labels = dict(type="mmseg.LoadAnnotations")
resize = dict(type="mmseg.Resize", scale=image_size, keep_ratio=True)
shapes = dict(
    type="mmseg.BaseSegDataset",
    metainfo=dict(classes=classes, palette=palette),
    data_root=data_root,
    reduce_zero_label=True,  # 0 means unlabelled, as in ADE20K
)
train_dataloader = dict(
    batch_size=8,
    num_workers=0,  # reading a batch takes a small part of a training step
    sampler=dict(type="InfiniteSampler", shuffle=True),
    dataset=dict(
        **shapes,
        data_prefix=dict(img_path="images/training", seg_map_path="annotations/training"),
        pipeline=[
            load_image,
            load_labels,
            resize,
            dict(type="mmseg.RandomFlip", prob=[0.25, 0.25], direction=["horizontal", "vertical"]),
            dict(type="mmseg.PackSegInputs"),
        ],
    ),
)
val_dataloader = dict(
    batch_size=4,
    num_workers=0,
    sampler=dict(type="DefaultSampler", shuffle=False),
    dataset=dict(
        **shapes,
        data_prefix=dict(img_path="images/validation", seg_map_path="annotations/validation"),
        test_mode=True,
        pipeline=[load_image, resize, load_labels, dict(type="mmseg.PackSegInputs")],
    ),
)
test_dataloader = val_dataloader
val_evaluator = dict(type="mmseg.IoUMetric", iou_metrics=["mIoU"])
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

default_hooks = dict(logger=dict(interval=20), checkpoint=dict(interval=max_iters, save_best=None))
log_processor = dict(window_size=20)
randomness = dict(seed=0)
