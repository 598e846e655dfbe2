"""UPerNet, Swin-B with windows of 12, pretrained on ImageNet-22K, ADE20K: 160k iterations, crops of 512.

Reproduces: MMSegmentation's config of this name; the recipe is the official one for Swin-B.
Expected: mIoU 50.76, with multi-scale and flip 52.4, on the validation set (metafile of MMSegmentation 1.2).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/swin/swin-base-patch4-window12-in22k-384x384-pre_upernet_8xb2-160k_ade20k-512x512.py 8
Official: AdamW with rate 6e-5 and decay 0.01 (norms and bias tables undecayed), drop path 0.3, warm-up over 1500
    iterations, whole-image testing.
Ours: nothing.
Weights: swin_base_patch4_window12_384_22k.pth, a release of the official repository (microsoft/Swin-Transformer,
    MIT), loaded as it is.
"""  # noqa: E501

_base_ = "./swin-base-patch4-window12-in1k-384x384-pre_upernet_8xb2-160k_ade20k-512x512.py"

checkpoint = "https://github.com/SwinTransformer/storage/releases/download/v1.0.0/swin_base_patch4_window12_384_22k.pth"
model = dict(backbone=dict(init_cfg=dict(checkpoint=checkpoint)))
