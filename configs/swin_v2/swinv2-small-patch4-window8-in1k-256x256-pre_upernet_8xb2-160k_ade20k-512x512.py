"""UPerNet, Swin V2-S with windows of 8, ADE20K: 160k iterations, crops of 512.

Reproduces: no published run: Swin V2 (arXiv:2111.09883) in the place of V1, for comparison with configs/swin.
Expected: no published figure: the official repository has no segmentation code. Swin V1 with this recipe: mIoU 47.64
    (README of the official segmentation repository).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/swin_v2/swinv2-small-patch4-window8-in1k-256x256-pre_upernet_8xb2-160k_ade20k-512x512.py 8
Official: the backbone only: window 8, ImageNet-1K weights at 256 pixels.
Ours: everything else is Swin V1's segmentation recipe: AdamW with rate 6e-5 and decay 0.01 (norms, logit scales and
    the bias network undecayed), drop path 0.3, warm-up over 1500 iterations, whole-image testing.
Weights: swinv2_small_patch4_window8_256.pth, a release of the official repository (microsoft/Swin-Transformer, MIT),
    loaded as it is.
"""  # noqa: E501

_base_ = "./swinv2-tiny-patch4-window8-in1k-256x256-pre_upernet_8xb2-160k_ade20k-512x512.py"

checkpoint = "https://github.com/SwinTransformer/storage/releases/download/v2.0.0/swinv2_small_patch4_window8_256.pth"
model = dict(backbone=dict(arch="small", init_cfg=dict(checkpoint=checkpoint)))
