"""UPerNet, ConvNeXt-T, ADE20K: 160k iterations, crops of 512.

Reproduces: UPerNet with ConvNeXt-T of the official repository.
Expected: mIoU 46.0, with multi-scale and flip 46.7, on the validation set (official README; MMSegmentation 1.2: 46.11
    and 46.62).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/convnext/convnext-tiny_upernet_8xb2-amp-160k_ade20k-512x512.py 8
Official: AdamW with rate 1e-4 and decay 0.05, stage-wise decay 0.9, drop path 0.4, layer scale 1.0, warm-up over 1500
    iterations, testing on sliding windows of 512 with stride 341, mixed precision.
Ours: nothing.
Weights: convnext_tiny_1k_224_ema.pth of the official repository (facebookresearch/ConvNeXt, MIT), loaded as it is.
"""

_base_ = [
    "../_base_/models/upernet.py",
    "../_base_/datasets/ade20k_512x512.py",
    "../_base_/schedules/ade20k_160k.py",
    "../_base_/optimizers/convnext_ade20k.py",
    "../_base_/runtimes/mmseg.py",
]

checkpoint = "https://dl.fbaipublicfiles.com/convnext/convnext_tiny_1k_224_ema.pth"
model = dict(
    backbone=dict(
        type="mmvisattn.ConvNeXt",
        arch="tiny",
        drop_path_rate=0.4,
        layer_scale_init_value=1.0,
        out_indices=(0, 1, 2, 3),
        init_cfg=dict(type="Pretrained", checkpoint=checkpoint),
    ),
    decode_head=dict(in_channels=[96, 192, 384, 768]),
    auxiliary_head=dict(in_channels=384),
    test_cfg=dict(mode="slide", crop_size=(512, 512), stride=(341, 341)),
)
optim_wrapper = dict(type="AmpOptimWrapper")
