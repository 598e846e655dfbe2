"""UPerNet, Swin-T, ADE20K: 160k iterations, crops of 512.

Reproduces: UPerNet with Swin-T of the official segmentation repository.
Expected: mIoU 44.51, with multi-scale and flip 45.81, on the validation set (official README; MMSegmentation 1.2:
    44.41 and 45.79).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/swin/swin-tiny-patch4-window7-in1k-pre_upernet_8xb2-160k_ade20k-512x512.py 8
Official: AdamW with rate 6e-5 and decay 0.01 (norms and bias tables undecayed), drop path 0.3, warm-up over 1500
    iterations, whole-image testing.
Ours: nothing.
Weights: swin_tiny_patch4_window7_224.pth, a release of the official repository (microsoft/Swin-Transformer, MIT),
    loaded as it is.
"""

_base_ = [
    "../_base_/models/upernet.py",
    "../_base_/datasets/ade20k_512x512.py",
    "../_base_/schedules/ade20k_160k.py",
    "../_base_/optimizers/swin_ade20k.py",
    "../_base_/runtimes/mmseg.py",
]

checkpoint = "https://github.com/SwinTransformer/storage/releases/download/v1.0.0/swin_tiny_patch4_window7_224.pth"
model = dict(
    backbone=dict(
        type="mmvisattn.SwinTransformer",
        arch="tiny",
        window_size=7,
        drop_path_rate=0.3,
        out_indices=(0, 1, 2, 3),
        init_cfg=dict(type="Pretrained", checkpoint=checkpoint),
    ),
    decode_head=dict(in_channels=[96, 192, 384, 768]),
    auxiliary_head=dict(in_channels=384),
)
