"""UPerNet, ConvNeXt-XL pretrained on ImageNet-22K, ADE20K: 160k iterations, crops of 640.

Reproduces: UPerNet with ConvNeXt-XL of the official repository.
Expected: mIoU 53.6, with multi-scale and flip 54.0, on the validation set (official README; MMSegmentation 1.2: 53.58
    and 54.11).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/convnext/convnext-xlarge_upernet_8xb2-amp-160k_ade20k-640x640.py 8
Official: AdamW with rate 8e-5 and decay 0.05, stage-wise decay 0.9, drop path 0.4, layer scale 1.0, warm-up over 1500
    iterations, testing on sliding windows of 640 with stride 426.
Ours: mixed precision, as in MMSegmentation; the official run is in single precision.
Weights: convnext_xlarge_22k_224.pth of the official repository (facebookresearch/ConvNeXt, MIT), loaded as it is.
"""

_base_ = "./convnext-base_upernet_8xb2-amp-160k_ade20k-640x640.py"

checkpoint = "https://dl.fbaipublicfiles.com/convnext/convnext_xlarge_22k_224.pth"
model = dict(
    backbone=dict(arch="xlarge", init_cfg=dict(checkpoint=checkpoint)),
    decode_head=dict(in_channels=[256, 512, 1024, 2048]),
    auxiliary_head=dict(in_channels=1024),
)
optim_wrapper = dict(optimizer=dict(lr=8e-5))
