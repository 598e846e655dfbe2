"""COCO 2017 boxes and masks, multi-scale training as in DETR and Swin.

Each image is either resized to a short side of 480 to 800, or resized to 400, 500 or 600, cropped (384 to 600 pixels
a side) and then resized to 480 to 800.
"""

_base_ = "./coco_instance.py"

resize_480_800 = dict(
    type="RandomChoiceResize",
    scales=[(short_side, 1333) for short_side in range(480, 801, 32)],
    resize_type="mmdet.Resize",
    keep_ratio=True,
)
resize_400_600 = dict(
    type="RandomChoiceResize",
    scales=[(400, 1333), (500, 1333), (600, 1333)],
    resize_type="mmdet.Resize",
    keep_ratio=True,
)
crop_384_600 = dict(type="mmdet.RandomCrop", crop_type="absolute_range", crop_size=(384, 600), allow_negative_crop=True)
train_pipeline = [
    dict(type="LoadImageFromFile"),
    dict(type="mmdet.LoadAnnotations", with_bbox=True, with_mask=True),
    dict(type="mmdet.RandomFlip", prob=0.5),
    dict(type="RandomChoice", transforms=[[resize_480_800], [resize_400_600, crop_384_600, resize_480_800]]),
    dict(type="mmdet.PackDetInputs"),
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
