"""Mask R-CNN, Swin V2-S with windows of 8, FPN, COCO: 1x schedule, one training scale.

Reproduces: no published run: Swin V2 (arXiv:2111.09883) in the place of V1, for comparison with configs/swin.
Expected: no published figure: the official repository has no detection code. Swin V1 with this recipe: box AP 44.8,
    mask AP 40.9 (as printed by MambaOut, arXiv:2405.07992).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/swin_v2/mask-rcnn_swinv2-s-p4-w8_fpn_1x_coco.py 8
Official: the backbone only: window 8, ImageNet-1K weights at 256 pixels.
Ours: everything else is Swin V1's detection recipe: AdamW with rate 1e-4 and decay 0.05 (norms, logit scales and the
    bias network undecayed), warm-up over 500 iterations, drop path 0.2.
Weights: swinv2_small_patch4_window8_256.pth, a release of the official repository (microsoft/Swin-Transformer, MIT),
    loaded as it is.
"""

_base_ = "./mask-rcnn_swinv2-t-p4-w8_fpn_1x_coco.py"

checkpoint = "https://github.com/SwinTransformer/storage/releases/download/v2.0.0/swinv2_small_patch4_window8_256.pth"
model = dict(
    backbone=dict(arch="small", drop_path_rate=0.2, init_cfg=dict(checkpoint=checkpoint)),
)
