"""Mask R-CNN, ConvNeXt-S, FPN, COCO: 3x schedule, multi-scale training with crops, mixed precision.

Reproduces: no published run: the official Mask R-CNN of ConvNeXt-T, with ConvNeXt-S.
Expected: no published figure for 3x; at 1x and one scale MambaOut (arXiv:2405.07992) prints box AP 45.4, mask AP
    41.8.
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/convnext/mask-rcnn_convnext-s-p4-w7_fpn_amp-ms-crop-3x_coco.py 8
Official: AdamW with rate 1e-4 and decay 0.05, layer-wise decay 0.95 as for ConvNeXt-T; drop path 0.6 as for Cascade
    ConvNeXt-S; 36 epochs, multi-scale crops, layer scale 1.0.
Ours: the combination of these values.
Weights: convnext_small_1k_224_ema.pth of the official repository (facebookresearch/ConvNeXt, MIT), loaded as it is.
"""

_base_ = "./mask-rcnn_convnext-t-p4-w7_fpn_amp-ms-crop-3x_coco.py"

checkpoint = "https://dl.fbaipublicfiles.com/convnext/convnext_small_1k_224_ema.pth"
model = dict(backbone=dict(arch="small", drop_path_rate=0.6, init_cfg=dict(checkpoint=checkpoint)))
