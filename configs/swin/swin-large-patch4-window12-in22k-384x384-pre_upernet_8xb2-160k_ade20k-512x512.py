"""UPerNet, Swin-L with windows of 12, pretrained on ImageNet-22K, ADE20K: 160k iterations, crops of 512.

Reproduces: MMSegmentation's config of this name; the recipe is that of the smaller models.
Expected: no published figure at this crop size: MMSegmentation lists no result for its config.
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/swin/swin-large-patch4-window12-in22k-384x384-pre_upernet_8xb2-160k_ade20k-512x512.py 8
Official: AdamW with rate 6e-5 and decay 0.01 (norms and bias tables undecayed), drop path 0.3, warm-up over 1500
    iterations, whole-image testing.
Ours: nothing.
Weights: swin_large_patch4_window12_384_22k.pth, a release of the official repository (microsoft/Swin-Transformer,
    MIT), loaded as it is.
"""  # noqa: E501

_base_ = "./swin-large-patch4-window7-in22k-pre_upernet_8xb2-160k_ade20k-512x512.py"

checkpoint = (
    "https://github.com/SwinTransformer/storage/releases/download/v1.0.0/swin_large_patch4_window12_384_22k.pth"
)
model = dict(backbone=dict(window_size=12, init_cfg=dict(checkpoint=checkpoint)))
