"""UPerNet, Swin-B pretrained on ImageNet-22K, ADE20K: 160k iterations, crops of 640.

Reproduces: UPerNet with Swin-B of the official segmentation repository.
Expected: mIoU 50.04, with multi-scale and flip 51.66, on the validation set (README of microsoft/Swin-Transformer).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/swin/swin-base-patch4-window7-in22k-pre_upernet_8xb2-160k_ade20k-640x640.py 8
Official: AdamW with rate 6e-5 and decay 0.01 (norms and bias tables undecayed), drop path 0.3, warm-up over 1500
    iterations, whole-image testing.
Ours: the window: the README does not print it, and 7 is the published default.
Weights: swin_base_patch4_window7_224_22k.pth, a release of the official repository (microsoft/Swin-Transformer, MIT),
    loaded as it is.
"""

_base_ = [
    "../_base_/models/upernet.py",
    "../_base_/datasets/ade20k_640x640.py",
    "../_base_/schedules/ade20k_160k.py",
    "../_base_/optimizers/swin_ade20k.py",
    "../_base_/runtimes/mmseg.py",
]

checkpoint = "https://github.com/SwinTransformer/storage/releases/download/v1.0.0/swin_base_patch4_window7_224_22k.pth"
model = dict(
    data_preprocessor=dict(size=(640, 640)),
    backbone=dict(
        type="mmvisattn.SwinTransformer",
        arch="base",
        window_size=7,
        drop_path_rate=0.3,
        out_indices=(0, 1, 2, 3),
        init_cfg=dict(type="Pretrained", checkpoint=checkpoint),
    ),
    decode_head=dict(in_channels=[128, 256, 512, 1024]),
    auxiliary_head=dict(in_channels=512),
)
