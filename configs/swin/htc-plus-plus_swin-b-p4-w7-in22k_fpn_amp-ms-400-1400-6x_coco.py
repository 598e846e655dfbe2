"""HTC++, Swin-B pretrained on ImageNet-22K, FPN, COCO: 6x schedule, strong multi-scale training, Soft-NMS.

Reproduces: the system-level comparison of the Swin paper (arXiv:2103.14030, table 2c and appendix A2.2), less two
    parts.
Expected: box AP 56.4, mask AP 49.1 on val2017 (paper). That run also used InstaBoost and one global attention layer
    after the last stage, which are left out here, so expect less.
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/swin/htc-plus-plus_swin-b-p4-w7-in22k_fpn_amp-ms-400-1400-6x_coco.py 8
Official: AdamW with rate 1e-4 and decay 0.05 at 16 images per step, short side 400 to 1400 and long side at most
    1600, 72 epochs with steps at 63 and 69, Soft-NMS, weights from ImageNet-22K.
Ours: window 7, drop path 0.3 (that of Cascade Swin-B), mask and semantic heads and score threshold of MMDetection,
    warm-up over 500 iterations, mixed precision, recomputed activations, testing at 1600x1400. The paper does not
    describe the box heads; those of Cascade Mask R-CNN give, with the layer left out, its parameter count.
Weights: swin_base_patch4_window7_224_22k.pth, a release of the official repository (microsoft/Swin-Transformer, MIT),
    loaded as it is. Data: the COCO-stuff label maps are needed.
"""

_base_ = [
    "../_base_/models/htc_fpn_4conv1fc-giou.py",
    "../_base_/datasets/coco_instance-stuff_ms-400-1400.py",
    "../_base_/schedules/coco_6x.py",
    "../_base_/optimizers/swin_coco.py",
    "../_base_/runtimes/mmdet.py",
]

checkpoint = "https://github.com/SwinTransformer/storage/releases/download/v1.0.0/swin_base_patch4_window7_224_22k.pth"
model = dict(
    backbone=dict(
        type="mmvisattn.SwinTransformer",
        arch="base",
        window_size=7,
        drop_path_rate=0.3,
        out_indices=(0, 1, 2, 3),
        with_cp=True,
        init_cfg=dict(type="Pretrained", checkpoint=checkpoint),
    ),
    neck=dict(in_channels=[128, 256, 512, 1024]),
    test_cfg=dict(rcnn=dict(nms=dict(type="soft_nms", iou_threshold=0.5))),
)
optim_wrapper = dict(type="AmpOptimWrapper")
