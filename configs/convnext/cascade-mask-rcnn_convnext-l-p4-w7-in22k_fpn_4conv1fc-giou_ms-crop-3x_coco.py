"""Cascade Mask R-CNN, ConvNeXt-L pretrained on ImageNet-22K, FPN, COCO: 3x schedule, multi-scale training with crops.

Reproduces: Cascade Mask R-CNN with ConvNeXt-L of the official repository.
Expected: box AP 54.8, mask AP 47.6 on val2017 (official README).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/convnext/cascade-mask-rcnn_convnext-l-p4-w7-in22k_fpn_4conv1fc-giou_ms-crop-3x_coco.py 8
Official: AdamW with rate 1e-4 and decay 0.05, layer-wise decay 0.7, drop path 0.7, 36 epochs, multi-scale crops,
    layer scale 1.0, warm-up over 500 iterations, box heads of 4 convolutions and 1 linear layer with SyncBN and GIoU
    loss, single precision.
Ours: nothing.
Weights: convnext_large_22k_224.pth of the official repository (facebookresearch/ConvNeXt, MIT), loaded as it is.
"""  # noqa: E501

_base_ = "./cascade-mask-rcnn_convnext-t-p4-w7_fpn_4conv1fc-giou_amp-ms-crop-3x_coco.py"

checkpoint = "https://dl.fbaipublicfiles.com/convnext/convnext_large_22k_224.pth"
model = dict(
    backbone=dict(arch="large", drop_path_rate=0.7, init_cfg=dict(checkpoint=checkpoint)),
    neck=dict(in_channels=[192, 384, 768, 1536]),
)
optim_wrapper = dict(type="OptimWrapper", optimizer=dict(lr=1e-4))
