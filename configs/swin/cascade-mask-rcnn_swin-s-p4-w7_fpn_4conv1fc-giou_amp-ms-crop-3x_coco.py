"""Cascade Mask R-CNN, Swin-S, FPN, COCO: 3x schedule, multi-scale training with crops, mixed precision.

Reproduces: Cascade Mask R-CNN with Swin-S of the official detection repository.
Expected: box AP 51.9, mask AP 45.0 on val2017 (official README; the paper prints 51.8 and 44.7).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/swin/cascade-mask-rcnn_swin-s-p4-w7_fpn_4conv1fc-giou_amp-ms-crop-3x_coco.py 8
Official: AdamW with rate 1e-4 and decay 0.05 (norms and bias tables undecayed), 36 epochs, warm-up over 500
    iterations, drop path 0.2, box heads of 4 convolutions and 1 linear layer with SyncBN and GIoU loss, mixed
    precision.
Ours: nothing.
Weights: swin_small_patch4_window7_224.pth, a release of the official repository (microsoft/Swin-Transformer, MIT),
    loaded as it is.
"""

_base_ = "./cascade-mask-rcnn_swin-t-p4-w7_fpn_4conv1fc-giou_amp-ms-crop-3x_coco.py"

checkpoint = "https://github.com/SwinTransformer/storage/releases/download/v1.0.0/swin_small_patch4_window7_224.pth"
model = dict(backbone=dict(arch="small", init_cfg=dict(checkpoint=checkpoint)))
