"""UPerNet on 64-pixel shapes, small enough that one iteration takes a fraction of a second on one core."""

_base_ = ["../../../configs/_base_/models/upernet.py", "../../../configs/_base_/runtimes/mmseg.py"]

classes = ("background", "circle", "square", "triangle", "star", "ring", "cross")
palette = [[30 * label, 255 - 30 * label, 128] for label in range(7)]

model = dict(
    data_preprocessor=dict(size=(64, 64)),
    backbone=dict(
        type="mmvisattn.SwinTransformer",
        arch=dict(embed_dim=8, depths=(1, 2, 1, 1), num_heads=(1, 1, 2, 2)),
        window_size=4,
        drop_path_rate=0.3,
    ),
    decode_head=dict(in_channels=[8, 16, 32, 64], channels=16, num_classes=len(classes)),
    auxiliary_head=dict(in_channels=32, channels=16, num_classes=len(classes)),
)

train_dataloader = dict(
    batch_size=2,
    num_workers=0,
    sampler=dict(type="InfiniteSampler", shuffle=True),
    dataset=dict(
        type="mmseg.BaseSegDataset",
        metainfo=dict(classes=classes, palette=palette),
        data_root="shapes/",
        data_prefix=dict(img_path="images/training", seg_map_path="annotations/training"),
        reduce_zero_label=True,
        pipeline=[
            dict(type="LoadImageFromFile"),
            dict(type="mmseg.LoadAnnotations", reduce_zero_label=True),
            dict(type="mmseg.RandomCrop", crop_size=(64, 64)),
            dict(type="mmseg.RandomFlip", prob=0.5),
            dict(type="mmseg.PackSegInputs"),
        ],
    ),
)
val_dataloader = dict(
    batch_size=1,
    num_workers=0,
    sampler=dict(type="DefaultSampler", shuffle=False),
    dataset=dict(
        type="mmseg.BaseSegDataset",
        metainfo=dict(classes=classes, palette=palette),
        data_root="shapes/",
        data_prefix=dict(img_path="images/validation", seg_map_path="annotations/validation"),
        reduce_zero_label=True,
        test_mode=True,
        pipeline=[
            dict(type="LoadImageFromFile"),
            dict(type="mmseg.Resize", scale=(64, 64), keep_ratio=True),
            dict(type="mmseg.LoadAnnotations", reduce_zero_label=True),
            dict(type="mmseg.PackSegInputs"),
        ],
    ),
)
test_dataloader = val_dataloader
val_evaluator = dict(type="mmseg.IoUMetric", iou_metrics=["mIoU"])
test_evaluator = val_evaluator

optim_wrapper = dict(type="OptimWrapper", optimizer=dict(type="AdamW", lr=1e-3, weight_decay=0.05))
param_scheduler = [dict(type="PolyLR", power=1.0, eta_min=0.0, begin=0, end=6, by_epoch=False)]
train_cfg = dict(type="IterBasedTrainLoop", max_iters=6, val_interval=3)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
default_hooks = dict(checkpoint=dict(interval=3, save_best=None))
randomness = dict(seed=0)
