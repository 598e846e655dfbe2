"""ADE20K, 150 classes, crops of 512; whole images with a short side of 512 at test; 2 images per GPU."""

data_root = "data/ade/ADEChallengeData2016"
crop_size = (512, 512)
image_scale = (2048, 512)

train_pipeline = [
    dict(type="LoadImageFromFile"),
    dict(type="mmseg.LoadAnnotations", reduce_zero_label=True),
    dict(type="RandomResize", scale=image_scale, ratio_range=(0.5, 2.0), resize_type="mmseg.Resize", keep_ratio=True),
    dict(type="mmseg.RandomCrop", crop_size=crop_size, cat_max_ratio=0.75),
    dict(type="mmseg.RandomFlip", prob=0.5),
    dict(type="mmseg.PhotoMetricDistortion"),
    dict(type="mmseg.PackSegInputs"),
]
test_pipeline = [
    dict(type="LoadImageFromFile"),
    dict(type="mmseg.Resize", scale=image_scale, keep_ratio=True),
    # After Resize: predictions are compared at the size of the truth. Without its scope, because MMSegmentation's
    # inference functions look for exactly this name to take the step out.
    dict(type="LoadAnnotations", reduce_zero_label=True),
    dict(type="mmseg.PackSegInputs"),
]
tta_pipeline = [
    dict(type="LoadImageFromFile"),
    dict(
        type="TestTimeAug",
        transforms=[
            # Ratios of the test scale, as in the papers; a bare scale_factor would be a ratio of the original image.
            [
                dict(type="mmseg.Resize", scale=tuple(int(side * ratio) for side in image_scale), keep_ratio=True)
                for ratio in (0.5, 0.75, 1.0, 1.25, 1.5, 1.75)
            ],
            [dict(type="mmseg.RandomFlip", prob=prob, direction="horizontal") for prob in (0.0, 1.0)],
            [dict(type="mmseg.LoadAnnotations", reduce_zero_label=True)],
            [dict(type="mmseg.PackSegInputs")],
        ],
    ),
]
train_dataloader = dict(
    batch_size=2,
    num_workers=4,
    persistent_workers=True,
    sampler=dict(type="InfiniteSampler", shuffle=True),
    dataset=dict(
        type="mmseg.ADE20KDataset",
        data_root=data_root,
        data_prefix=dict(img_path="images/training", seg_map_path="annotations/training"),
        pipeline=train_pipeline,
    ),
)
val_dataloader = dict(
    batch_size=1,
    num_workers=4,
    persistent_workers=True,
    sampler=dict(type="DefaultSampler", shuffle=False),
    dataset=dict(
        type="mmseg.ADE20KDataset",
        data_root=data_root,
        data_prefix=dict(img_path="images/validation", seg_map_path="annotations/validation"),
        pipeline=test_pipeline,
    ),
)
test_dataloader = val_dataloader
val_evaluator = dict(type="mmseg.IoUMetric", iou_metrics=["mIoU"])
test_evaluator = val_evaluator
