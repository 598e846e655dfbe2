"""Cascade Mask R-CNN, ConvNeXt-S, FPN, COCO: 3x schedule, multi-scale training with crops.

Reproduces: Cascade Mask R-CNN with ConvNeXt-S of the official repository.
Expected: box AP 51.9, mask AP 45.0 on val2017 (official README; MMDetection 3.3: 51.8 and 44.8).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/convnext/cascade-mask-rcnn_convnext-s-p4-w7_fpn_4conv1fc-giou_amp-ms-crop-3x_coco.py 8
Official: AdamW with rate 2e-4 and decay 0.05, layer-wise decay 0.7, drop path 0.6, 36 epochs, multi-scale crops,
    layer scale 1.0, warm-up over 500 iterations, box heads of 4 convolutions and 1 linear layer with SyncBN and GIoU
    loss, mixed precision.
Ours: nothing.
Weights: convnext_small_1k_224_ema.pth of the official repository (facebookresearch/ConvNeXt, MIT), loaded as it is.
"""  # noqa: E501

_base_ = "./cascade-mask-rcnn_convnext-t-p4-w7_fpn_4conv1fc-giou_amp-ms-crop-3x_coco.py"

checkpoint = "https://dl.fbaipublicfiles.com/convnext/convnext_small_1k_224_ema.pth"
model = dict(
    backbone=dict(arch="small", drop_path_rate=0.6, init_cfg=dict(checkpoint=checkpoint)),
)
