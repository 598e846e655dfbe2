"""RetinaNet, Swin-T, FPN, COCO: 1x schedule, one training scale.

Reproduces: MMDetection's config of this name, with the optimiser of the other Swin detectors.
Expected: no published figure: MMDetection lists no result for its config.
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/swin/retinanet_swin-t-p4-w7_fpn_1x_coco.py 8
Official: there is no official RetinaNet config. Drop path 0.1 and the warm-up are those of the official 1x Mask
    R-CNN.
Ours: AdamW with rate 1e-4 and decay 0.05 (norms and bias tables undecayed); MMDetection keeps SGD with rate 0.01,
    drop path 0.2.
Weights: swin_tiny_patch4_window7_224.pth, a release of the official repository (microsoft/Swin-Transformer, MIT),
    loaded as it is.
"""

_base_ = [
    "../_base_/models/retinanet_fpn.py",
    "../_base_/datasets/coco_detection.py",
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
        out_indices=(1, 2, 3),
        init_cfg=dict(type="Pretrained", checkpoint=checkpoint),
    ),
    neck=dict(in_channels=[192, 384, 768]),
)
