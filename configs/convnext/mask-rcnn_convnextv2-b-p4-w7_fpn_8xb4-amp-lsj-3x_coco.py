"""Mask R-CNN, ConvNeXt V2-B, FPN, COCO: 3x schedule, large-scale jitter on 1024 pixels, Soft-NMS.

Reproduces: Mask R-CNN with ConvNeXt V2-B of the ConvNeXt V2 paper (arXiv:2301.00808).
Expected: box AP 52.9, mask AP 46.6 on val2017 (paper; with masked pretraining on ImageNet-1K).
Hardware: 8 GPUs x 4 images = 32 images per step.
Command: bash tools/dist_train.sh configs/convnext/mask-rcnn_convnextv2-b-p4-w7_fpn_8xb4-amp-lsj-3x_coco.py 8
Official: AdamW with rate 1e-4 and decay 0.05 at 32 images per step, 36 epochs, scale jitter 0.1 to 2.0 on 1024
    pixels, Soft-NMS; drop path from 0.2 to 0.5 and layer-wise decay from 0.9 to 0.95, by search.
Ours: drop path 0.3 and layer-wise decay 0.95 among these, warm-up over 500 iterations, mixed precision, testing at
    1333x800; the official values of the search are not published.
Weights: convnextv2_base_1k_224_fcmae.pt of the official repository (facebookresearch/ConvNeXt-V2, weights CC-BY-NC
    4.0), loaded as it is.
"""

_base_ = [
    "../_base_/models/mask-rcnn_fpn.py",
    "../_base_/datasets/coco_instance_lsj-1024.py",
    "../_base_/schedules/coco_3x.py",
    "../_base_/optimizers/convnext_coco.py",
    "../_base_/runtimes/mmdet.py",
]

checkpoint = "https://dl.fbaipublicfiles.com/convnext/convnextv2/pt_only/convnextv2_base_1k_224_fcmae.pt"
model = dict(
    data_preprocessor=dict(
        batch_augments=[dict(type="mmdet.BatchFixedSizePad", size=(1024, 1024), pad_mask=True)],
    ),
    backbone=dict(
        type="mmvisattn.ConvNeXtV2",
        arch="base",
        drop_path_rate=0.3,
        out_indices=(0, 1, 2, 3),
        init_cfg=dict(type="Pretrained", checkpoint=checkpoint),
    ),
    neck=dict(in_channels=[128, 256, 512, 1024]),
    test_cfg=dict(rcnn=dict(nms=dict(type="soft_nms", iou_threshold=0.5))),
)
optim_wrapper = dict(type="AmpOptimWrapper")
train_dataloader = dict(batch_size=4)
auto_scale_lr = dict(base_batch_size=32)
