"""Cascade Mask R-CNN, ConvNeXt-T, FPN, COCO: 3x schedule, multi-scale training with crops.

Reproduces: Cascade Mask R-CNN with ConvNeXt-T of the official repository.
Expected: box AP 50.4, mask AP 43.7 on val2017 (official README; MMDetection 3.3: 50.3 and 43.6).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/convnext/cascade-mask-rcnn_convnext-t-p4-w7_fpn_4conv1fc-giou_amp-ms-crop-3x_coco.py 8
Official: AdamW with rate 2e-4 and decay 0.05, layer-wise decay 0.7, drop path 0.4, 36 epochs, multi-scale crops,
    layer scale 1.0, warm-up over 500 iterations, box heads of 4 convolutions and 1 linear layer with SyncBN and GIoU
    loss, mixed precision.
Ours: nothing.
Weights: convnext_tiny_1k_224_ema.pth of the official repository (facebookresearch/ConvNeXt, MIT), loaded as it is.
"""  # noqa: E501

_base_ = [
    "../_base_/models/cascade-mask-rcnn_fpn_4conv1fc-giou.py",
    "../_base_/datasets/coco_instance_ms-crop.py",
    "../_base_/schedules/coco_3x.py",
    "../_base_/optimizers/convnext_coco.py",
    "../_base_/runtimes/mmdet.py",
]

checkpoint = "https://dl.fbaipublicfiles.com/convnext/convnext_tiny_1k_224_ema.pth"
model = dict(
    backbone=dict(
        type="mmvisattn.ConvNeXt",
        arch="tiny",
        drop_path_rate=0.4,
        layer_scale_init_value=1.0,
        out_indices=(0, 1, 2, 3),
        init_cfg=dict(type="Pretrained", checkpoint=checkpoint),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)
optim_wrapper = dict(
    type="AmpOptimWrapper",
    optimizer=dict(lr=2e-4),
    paramwise_cfg=dict(decay_rate=0.7),
)
