"""UPerNet, ConvNeXt-B, ADE20K: 160k iterations, crops of 512.

Reproduces: UPerNet with ConvNeXt-B of the official repository.
Expected: mIoU 49.1, with multi-scale and flip 49.9, on the validation set (official README; MMSegmentation 1.2: 48.71
    and 49.54).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/convnext/convnext-base_upernet_8xb2-amp-160k_ade20k-512x512.py 8
Official: AdamW with rate 1e-4 and decay 0.05, stage-wise decay 0.9, drop path 0.4, layer scale 1.0, warm-up over 1500
    iterations, testing on sliding windows of 512 with stride 341, mixed precision.
Ours: nothing.
Weights: convnext_base_1k_224_ema.pth of the official repository (facebookresearch/ConvNeXt, MIT), loaded as it is.
"""

_base_ = "./convnext-tiny_upernet_8xb2-amp-160k_ade20k-512x512.py"

checkpoint = "https://dl.fbaipublicfiles.com/convnext/convnext_base_1k_224_ema.pth"
model = dict(
    backbone=dict(arch="base", init_cfg=dict(checkpoint=checkpoint)),
    decode_head=dict(in_channels=[128, 256, 512, 1024]),
    auxiliary_head=dict(in_channels=512),
)
