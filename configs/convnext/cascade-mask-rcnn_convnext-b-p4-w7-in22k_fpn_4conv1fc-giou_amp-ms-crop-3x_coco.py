"""Cascade Mask R-CNN, ConvNeXt-B pretrained on ImageNet-22K, FPN, COCO: 3x schedule, multi-scale training with crops.

Reproduces: Cascade Mask R-CNN with ConvNeXt-B of the official repository.
Expected: box AP 54.0, mask AP 46.9 on val2017 (official README).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/convnext/cascade-mask-rcnn_convnext-b-p4-w7-in22k_fpn_4conv1fc-giou_amp-ms-crop-3x_coco.py 8
Official: AdamW with rate 1e-4 and decay 0.05, layer-wise decay 0.8, drop path 0.6, 36 epochs, multi-scale crops,
    layer scale 1.0, warm-up over 500 iterations, box heads of 4 convolutions and 1 linear layer with SyncBN and GIoU
    loss, mixed precision.
Ours: nothing.
Weights: convnext_base_22k_224.pth of the official repository (facebookresearch/ConvNeXt, MIT), loaded as it is.
"""  # noqa: E501

_base_ = "./cascade-mask-rcnn_convnext-t-p4-w7_fpn_4conv1fc-giou_amp-ms-crop-3x_coco.py"

checkpoint = "https://dl.fbaipublicfiles.com/convnext/convnext_base_22k_224.pth"
model = dict(
    backbone=dict(arch="base", drop_path_rate=0.6, init_cfg=dict(checkpoint=checkpoint)),
    neck=dict(in_channels=[128, 256, 512, 1024]),
)
optim_wrapper = dict(optimizer=dict(lr=1e-4), paramwise_cfg=dict(decay_rate=0.8))
