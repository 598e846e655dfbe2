"""UPerNet, Swin-B, ADE20K: 160k iterations, crops of 512.

Reproduces: UPerNet with Swin-B of the official segmentation repository.
Expected: mIoU 48.13, with multi-scale and flip 49.72, on the validation set (official README; MMSegmentation 1.2:
    47.99 and 49.57).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/swin/swin-base-patch4-window7-in1k-pre_upernet_8xb2-160k_ade20k-512x512.py 8
Official: AdamW with rate 6e-5 and decay 0.01 (norms and bias tables undecayed), drop path 0.3, warm-up over 1500
    iterations, whole-image testing.
Ours: nothing.
Weights: swin_base_patch4_window7_224.pth, a release of the official repository (microsoft/Swin-Transformer, MIT),
    loaded as it is.
"""

_base_ = "./swin-tiny-patch4-window7-in1k-pre_upernet_8xb2-160k_ade20k-512x512.py"

checkpoint = "https://github.com/SwinTransformer/storage/releases/download/v1.0.0/swin_base_patch4_window7_224.pth"
model = dict(
    backbone=dict(arch="base", init_cfg=dict(checkpoint=checkpoint)),
    decode_head=dict(in_channels=[128, 256, 512, 1024]),
    auxiliary_head=dict(in_channels=512),
)
