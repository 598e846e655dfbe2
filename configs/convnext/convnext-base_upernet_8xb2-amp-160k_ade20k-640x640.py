"""UPerNet, ConvNeXt-B pretrained on ImageNet-22K, ADE20K: 160k iterations, crops of 640.

Reproduces: UPerNet with ConvNeXt-B of the official repository.
Expected: mIoU 52.6, with multi-scale and flip 53.1, on the validation set (official README; MMSegmentation 1.2: 52.13
    and 52.66).
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/convnext/convnext-base_upernet_8xb2-amp-160k_ade20k-640x640.py 8
Official: AdamW with rate 1e-4 and decay 0.05, stage-wise decay 0.9, drop path 0.4, layer scale 1.0, warm-up over 1500
    iterations, testing on sliding windows of 640 with stride 426, mixed precision.
Ours: nothing.
Weights: convnext_base_22k_224.pth of the official repository (facebookresearch/ConvNeXt, MIT), loaded as it is.
"""

_base_ = [
    "../_base_/models/upernet.py",
    "../_base_/datasets/ade20k_640x640.py",
    "../_base_/schedules/ade20k_160k.py",
    "../_base_/optimizers/convnext_ade20k.py",
    "../_base_/runtimes/mmseg.py",
]

checkpoint = "https://dl.fbaipublicfiles.com/convnext/convnext_base_22k_224.pth"
model = dict(
    data_preprocessor=dict(size=(640, 640)),
    backbone=dict(
        type="mmvisattn.ConvNeXt",
        arch="base",
        drop_path_rate=0.4,
        layer_scale_init_value=1.0,
        out_indices=(0, 1, 2, 3),
        init_cfg=dict(type="Pretrained", checkpoint=checkpoint),
    ),
    decode_head=dict(in_channels=[128, 256, 512, 1024]),
    auxiliary_head=dict(in_channels=512),
    test_cfg=dict(mode="slide", crop_size=(640, 640), stride=(426, 426)),
)
optim_wrapper = dict(type="AmpOptimWrapper")
