"""UPerNet, ConvNeXt-L pretrained on ImageNet-22K, ADE20K: 160k iterations, crops of 640.

Reproduces: UPerNet with ConvNeXt-L of the official repository.
Expected: mIoU 53.2, with multi-scale and flip 53.7, on the validation set (official README; MMSegmentation 1.2: 53.16
    and 53.38).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/convnext/convnext-large_upernet_8xb2-amp-160k_ade20k-640x640.py 8
Official: AdamW with rate 1e-4 and decay 0.05, stage-wise decay 0.9, drop path 0.4, layer scale 1.0, warm-up over 1500
    iterations, testing on sliding windows of 640 with stride 426.
Ours: mixed precision, as in MMSegmentation; the official run is in single precision.
Weights: convnext_large_22k_224.pth of the official repository (facebookresearch/ConvNeXt, MIT), loaded as it is.
"""

_base_ = "./convnext-base_upernet_8xb2-amp-160k_ade20k-640x640.py"

checkpoint = "https://dl.fbaipublicfiles.com/convnext/convnext_large_22k_224.pth"
model = dict(
    backbone=dict(arch="large", init_cfg=dict(checkpoint=checkpoint)),
    decode_head=dict(in_channels=[192, 384, 768, 1536]),
    auxiliary_head=dict(in_channels=768),
)
