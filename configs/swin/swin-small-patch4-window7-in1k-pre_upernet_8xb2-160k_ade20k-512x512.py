"""UPerNet, Swin-S, ADE20K: 160k iterations, crops of 512.

Reproduces: UPerNet with Swin-S of the official segmentation repository.
Expected: mIoU 47.64, with multi-scale and flip 49.47, on the validation set (official README; MMSegmentation 1.2:
    47.72 and 49.24).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/swin/swin-small-patch4-window7-in1k-pre_upernet_8xb2-160k_ade20k-512x512.py 8
Official: AdamW with rate 6e-5 and decay 0.01 (norms and bias tables undecayed), drop path 0.3, warm-up over 1500
    iterations, whole-image testing.
Ours: nothing.
Weights: swin_small_patch4_window7_224.pth, a release of the official repository (microsoft/Swin-Transformer, MIT),
    loaded as it is.
"""

_base_ = "./swin-tiny-patch4-window7-in1k-pre_upernet_8xb2-160k_ade20k-512x512.py"

checkpoint = "https://github.com/SwinTransformer/storage/releases/download/v1.0.0/swin_small_patch4_window7_224.pth"
model = dict(backbone=dict(arch="small", init_cfg=dict(checkpoint=checkpoint)))
