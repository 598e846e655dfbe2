"""Mask R-CNN, Swin-T, FPN, COCO: 1x schedule, one training scale.

Reproduces: Mask R-CNN with Swin-T (arXiv:2103.14030) as MMDetection trains it, at one scale.
Expected: box AP 42.7, mask AP 39.3 on val2017 (metafile of MMDetection 3.3; MambaOut, arXiv:2405.07992, prints the
    same).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/swin/mask-rcnn_swin-t-p4-w7_fpn_1x_coco.py 8
Official: AdamW with rate 1e-4 and decay 0.05 (norms and bias tables undecayed), warm-up over 500 iterations, drop
    path 0.1.
Ours: the training scale is MMDetection's; the official 1x run resizes to short sides of 480 to 800 and reaches 43.7
    and 39.8. MMDetection's own run warmed up over 1000 iterations with drop path 0.2.
Weights: swin_tiny_patch4_window7_224.pth, a release of the official repository (microsoft/Swin-Transformer, MIT),
    loaded as it is.
"""

_base_ = [
    "../_base_/models/mask-rcnn_fpn.py",
    "../_base_/datasets/coco_instance.py",
    "../_base_/schedules/coco_1x.py",
    "../_base_/optimizers/swin_coco.py",
    "../_base_/runtimes/mmdet.py",
]

checkpoint = "https://github.com/SwinTransformer/storage/releases/download/v1.0.0/swin_tiny_patch4_window7_224.pth"
model = dict(
    backbone=dict(
        type="mmvisattn.SwinTransformer",
        arch="tiny",
        window_size=7,
        drop_path_rate=0.1,
        out_indices=(0, 1, 2, 3),
        init_cfg=dict(type="Pretrained", checkpoint=checkpoint),
    ),
    neck=dict(in_channels=[96, 192, 384, 768]),
)
