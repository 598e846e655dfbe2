"""UPerNet, Swin-L pretrained on ImageNet-22K, ADE20K: 160k iterations, crops of 640.

Reproduces: UPerNet with Swin-L of the official segmentation repository.
Expected: mIoU 52.05, with multi-scale and flip 53.53, on the validation set (README of microsoft/Swin-Transformer).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/swin/swin-large-patch4-window7-in22k-pre_upernet_8xb2-160k_ade20k-640x640.py 8
Official: AdamW with rate 6e-5 and decay 0.01 (norms and bias tables undecayed), drop path 0.3, warm-up over 1500
    iterations, whole-image testing.
Ours: the window: the README does not print it, and 7 is the published default.
Weights: swin_large_patch4_window7_224_22k.pth, a release of the official repository (microsoft/Swin-Transformer,
    MIT), loaded as it is.
"""

_base_ = "./swin-base-patch4-window7-in22k-pre_upernet_8xb2-160k_ade20k-640x640.py"

checkpoint = "https://github.com/SwinTransformer/storage/releases/download/v1.0.0/swin_large_patch4_window7_224_22k.pth"
model = dict(
    backbone=dict(arch="large", init_cfg=dict(checkpoint=checkpoint)),
    decode_head=dict(in_channels=[192, 384, 768, 1536]),
    auxiliary_head=dict(in_channels=768),
)
