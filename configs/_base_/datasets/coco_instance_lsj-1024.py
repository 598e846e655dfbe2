"""COCO 2017 boxes and masks, large-scale jitter: scaled by 0.1 to 2.0, then cropped to 1024 pixels.

The model pads the crops to one size (`BatchFixedSizePad` among its `batch_augments`).
"""

_base_ = "./coco_instance.py"

train_pipeline = [
    dict(type="LoadImageFromFile"),
    dict(type="mmdet.LoadAnnotations", with_bbox=True, with_mask=True),
    dict(
        type="RandomResize",
        scale=(1024, 1024),
        ratio_range=(0.1, 2.0),
        resize_type="mmdet.Resize",
        keep_ratio=True,
    ),
    dict(
        type="mmdet.RandomCrop",
        crop_type="absolute",
        crop_size=(1024, 1024),
        recompute_bbox=True,
        allow_negative_crop=True,
    ),
    dict(type="mmdet.FilterAnnotations", min_gt_bbox_wh=(1e-2, 1e-2)),
    dict(type="mmdet.RandomFlip", prob=0.5),
    dict(type="mmdet.PackDetInputs"),
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
