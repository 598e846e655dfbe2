"""Mask R-CNN, ConvNeXt V2-H, FPN, COCO: 3x schedule, large-scale jitter on 1024 pixels, Soft-NMS.

Reproduces: Mask R-CNN with ConvNeXt V2-H of the ConvNeXt V2 paper (arXiv:2301.00808).
Expected: box AP 55.7, mask AP 48.9 on val2017 (paper; with masked pretraining on ImageNet-1K).
Hardware: 8 GPUs x 4 images = 32 images per step.
Command: bash tools/dist_train.sh configs/convnext/mask-rcnn_convnextv2-h-p4-w7_fpn_8xb4-amp-lsj-3x_coco.py 8
Official: AdamW with rate 1e-4 and decay 0.05 at 32 images per step, 36 epochs, scale jitter 0.1 to 2.0 on 1024
    pixels, Soft-NMS; drop path from 0.2 to 0.5 and layer-wise decay from 0.9 to 0.95, by search.
Ours: drop path 0.5 and layer-wise decay 0.95 among these, warm-up over 500 iterations, mixed precision, testing at
    1333x800; the official values of the search are not published.
Weights: convnextv2_huge_1k_224_fcmae.pt of the official repository (facebookresearch/ConvNeXt-V2, weights CC-BY-NC
    4.0), loaded as it is.
"""

_base_ = "./mask-rcnn_convnextv2-b-p4-w7_fpn_8xb4-amp-lsj-3x_coco.py"

checkpoint = "https://dl.fbaipublicfiles.com/convnext/convnextv2/pt_only/convnextv2_huge_1k_224_fcmae.pt"
model = dict(
    backbone=dict(arch="huge", drop_path_rate=0.5, init_cfg=dict(checkpoint=checkpoint)),
    neck=dict(in_channels=[352, 704, 1408, 2816]),
)
