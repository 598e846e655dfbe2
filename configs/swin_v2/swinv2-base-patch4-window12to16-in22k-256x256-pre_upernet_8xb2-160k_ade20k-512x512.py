"""UPerNet, Swin V2-B with windows of 12 to 16, pretrained on ImageNet-22K, ADE20K: 160k iterations, crops of 512.

Reproduces: no published run: Swin V2 (arXiv:2111.09883) in the place of V1, for comparison with configs/swin.
Expected: no published figure: the official repository has no segmentation code. Swin V1 with this recipe: mIoU 48.13
    with ImageNet-1K weights (README of the official segmentation repository).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/swin_v2/swinv2-base-patch4-window12to16-in22k-256x256-pre_upernet_8xb2-160k_ade20k-512x512.py 8
Official: the backbone only: windows 16, 16, 16 and 8, pretrained with 12, 12, 12 and 6, ImageNet-22K weights
    fine-tuned on 1K at 256 pixels.
Ours: everything else is Swin V1's segmentation recipe: AdamW with rate 6e-5 and decay 0.01 (norms, logit scales and
    the bias network undecayed), drop path 0.3, warm-up over 1500 iterations, whole-image testing.
Weights: swinv2_base_patch4_window12to16_192to256_22kto1k_ft.pth, a release of the official repository
    (microsoft/Swin-Transformer, MIT), loaded as it is.
"""  # noqa: E501

_base_ = "./swinv2-base-patch4-window8-in1k-256x256-pre_upernet_8xb2-160k_ade20k-512x512.py"

checkpoint = "https://github.com/SwinTransformer/storage/releases/download/v2.0.0/swinv2_base_patch4_window12to16_192to256_22kto1k_ft.pth"
model = dict(
    backbone=dict(
        window_size=(16, 16, 16, 8),  # at 256 pixels the last map, of 8, was one window
        pretrained_window_sizes=(12, 12, 12, 6),  # by which the position network's coordinates are scaled
        init_cfg=dict(checkpoint=checkpoint),
    ),
)
