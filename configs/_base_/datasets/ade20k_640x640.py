"""ADE20K, 150 classes, crops of 640; whole images with a short side of 640 at test."""

_base_ = "./ade20k_512x512.py"

crop_size = (640, 640)
image_scale = (2560, 640)

train_pipeline = _base_.train_pipeline
train_pipeline[2]["scale"] = image_scale  # RandomResize
train_pipeline[3]["crop_size"] = crop_size  # RandomCrop
test_pipeline = _base_.test_pipeline
test_pipeline[1]["scale"] = image_scale  # Resize
tta_pipeline = _base_.tta_pipeline
for step in tta_pipeline[1]["transforms"][0]:  # the Resize of each ratio
    step["scale"] = tuple(side * 5 // 4 for side in step["scale"])
del step
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = val_dataloader
