"""Mask R-CNN, Swin-S, FPN, COCO: 1x schedule, one training scale.

Reproduces: Mask R-CNN with Swin-S at one scale, the row other papers compare with.
Expected: box AP 44.8, mask AP 40.9 on val2017 (as printed by MambaOut, arXiv:2405.07992).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/swin/mask-rcnn_swin-s-p4-w7_fpn_1x_coco.py 8
Official: AdamW with rate 1e-4 and decay 0.05 (norms and bias tables undecayed), warm-up over 500 iterations; drop
    path 0.2 is that of the 3x schedule.
Ours: no official 1x run of Swin-S exists; the training scale is MMDetection's.
Weights: swin_small_patch4_window7_224.pth, a release of the official repository (microsoft/Swin-Transformer, MIT),
    loaded as it is.
"""

_base_ = "./mask-rcnn_swin-t-p4-w7_fpn_1x_coco.py"

checkpoint = "https://github.com/SwinTransformer/storage/releases/download/v1.0.0/swin_small_patch4_window7_224.pth"
model = dict(
    backbone=dict(arch="small", drop_path_rate=0.2, init_cfg=dict(checkpoint=checkpoint)),
)
