"""COCO 2017 boxes, masks and COCO-stuff label maps, short side 400 to 1400, long side at most 1600.

The label maps (`stuffthingmaps`, from the COCO-stuff authors) lie in `data/coco/stuffthingmaps/train2017`. Testing
uses the largest training scale.
"""

_base_ = "./coco_instance.py"

train_pipeline = [
    dict(type="LoadImageFromFile"),
    dict(type="mmdet.LoadAnnotations", with_bbox=True, with_mask=True, with_seg=True),
    dict(type="RandomResize", scale=[(1600, 400), (1600, 1400)], resize_type="mmdet.Resize", keep_ratio=True),
    dict(type="mmdet.RandomFlip", prob=0.5),
    dict(type="mmdet.PackDetInputs"),
]
test_pipeline = _base_.test_pipeline
test_pipeline[1]["scale"] = (1600, 1400)  # Resize
train_dataloader = dict(
    dataset=dict(
        data_prefix=dict(img="train2017/", seg="stuffthingmaps/train2017/"),
        pipeline=train_pipeline,
    )
)
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
