"""UPerNet, ConvNeXt V2-L, ADE20K: 160k iterations, crops of 512.

Reproduces: UPerNet with ConvNeXt V2-L of the ConvNeXt V2 paper (arXiv:2301.00808).
Expected: mIoU 53.7 with multi-scale and flip on the validation set (paper, table 7).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/convnext/convnextv2-large_upernet_8xb2-amp-160k_ade20k-512x512.py 8
Official: AdamW with decay 0.05, 160k iterations, weights fine-tuned on ImageNet-1K after masked pretraining; rate
    from 1e-4 to 3e-4, drop path from 0.1 to 0.4 and layer decay from 0.8 to 0.9, by search.
Ours: rate 1e-4, drop path 0.3 and stage-wise decay 0.9 among these, sliding-window testing as in ConvNeXt V1, mixed
    precision, test ratios 0.5 to 1.75 (paper: 0.75 to 1.25).
Weights: convnextv2_large_1k_224_ema.pt of the official repository (facebookresearch/ConvNeXt-V2, weights CC-BY-NC
    4.0), loaded as it is.
"""

_base_ = "./convnextv2-base_upernet_8xb2-amp-160k_ade20k-512x512.py"

checkpoint = "https://dl.fbaipublicfiles.com/convnext/convnextv2/im1k/convnextv2_large_1k_224_ema.pt"
model = dict(
    backbone=dict(arch="large", drop_path_rate=0.3, init_cfg=dict(checkpoint=checkpoint)),
    decode_head=dict(in_channels=[192, 384, 768, 1536]),
    auxiliary_head=dict(in_channels=768),
)
