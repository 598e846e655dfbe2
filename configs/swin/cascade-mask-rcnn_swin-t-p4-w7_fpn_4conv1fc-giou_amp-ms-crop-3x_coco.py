"""Cascade Mask R-CNN, Swin-T, FPN, COCO: 3x schedule, multi-scale training with crops, mixed precision.

Reproduces: Cascade Mask R-CNN with Swin-T of the official detection repository.
Expected: box AP 50.4, mask AP 43.7 on val2017 (official README; the paper prints 50.5 and 43.7).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/swin/cascade-mask-rcnn_swin-t-p4-w7_fpn_4conv1fc-giou_amp-ms-crop-3x_coco.py 8
Official: AdamW with rate 1e-4 and decay 0.05 (norms and bias tables undecayed), 36 epochs, warm-up over 500
    iterations, drop path 0.2, box heads of 4 convolutions and 1 linear layer with SyncBN and GIoU loss, mixed
    precision.
Ours: nothing.
Weights: swin_tiny_patch4_window7_224.pth, a release of the official repository (microsoft/Swin-Transformer, MIT),
    loaded as it is.
"""

_base_ = [
    "../_base_/models/cascade-mask-rcnn_fpn_4conv1fc-giou.py",
    "../_base_/datasets/coco_instance_ms-crop.py",
    "../_base_/schedules/coco_3x.py",
    "../_base_/optimizers/swin_coco.py",
    "../_base_/runtimes/mmdet.py",
]

checkpoint = "https://github.com/SwinTransformer/storage/releases/download/v1.0.0/swin_tiny_patch4_window7_224.pth"
model = dict(
    backbone=dict(
        type="mmvisattn.SwinTransformer",
        arch="tiny",
        window_size=7,
        drop_path_rate=0.2,
        out_indices=(0, 1, 2, 3),
        init_cfg=dict(type="Pretrained", checkpoint=checkpoint),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)
optim_wrapper = dict(type="AmpOptimWrapper")
