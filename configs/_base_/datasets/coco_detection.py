"""COCO 2017 boxes, one scale: short side 800, long side at most 1333; 2 images per GPU."""

data_root = "data/coco/"

train_pipeline = [
    dict(type="LoadImageFromFile"),
    dict(type="mmdet.LoadAnnotations", with_bbox=True),
    dict(type="mmdet.Resize", scale=(1333, 800), keep_ratio=True),
    dict(type="mmdet.RandomFlip", prob=0.5),
    dict(type="mmdet.PackDetInputs"),
]
test_pipeline = [
    dict(type="LoadImageFromFile"),
    dict(type="mmdet.Resize", scale=(1333, 800), keep_ratio=True),
    dict(type="mmdet.LoadAnnotations", with_bbox=True),
    dict(
        type="mmdet.PackDetInputs",
        meta_keys=("img_id", "img_path", "ori_shape", "img_shape", "scale_factor"),
    ),
]
train_dataloader = dict(
    batch_size=2,
    num_workers=2,
    persistent_workers=True,
    sampler=dict(type="DefaultSampler", shuffle=True),
    batch_sampler=dict(type="mmdet.AspectRatioBatchSampler"),
    dataset=dict(
        type="mmdet.CocoDataset",
        data_root=data_root,
        ann_file="annotations/instances_train2017.json",
        data_prefix=dict(img="train2017/"),
        filter_cfg=dict(filter_empty_gt=True, min_size=32),
        pipeline=train_pipeline,
    ),
)
val_dataloader = dict(
    batch_size=1,
    num_workers=2,
    persistent_workers=True,
    drop_last=False,
    sampler=dict(type="DefaultSampler", shuffle=False),
    dataset=dict(
        type="mmdet.CocoDataset",
        data_root=data_root,
        ann_file="annotations/instances_val2017.json",
        data_prefix=dict(img="val2017/"),
        test_mode=True,
        pipeline=test_pipeline,
    ),
)
test_dataloader = val_dataloader
val_evaluator = dict(
    type="mmdet.CocoMetric",
    ann_file=data_root + "annotations/instances_val2017.json",
    metric=["bbox"],
)
test_evaluator = val_evaluator
