"""HTC++, Swin-L pretrained on ImageNet-22K, FPN, COCO: 6x schedule, strong multi-scale training, Soft-NMS.

Reproduces: the system-level comparison of the Swin paper (arXiv:2103.14030, table 2c and appendix A2.2), less two
    parts.
Expected: box AP 57.1, mask AP 49.5 on val2017 (paper; with multi-scale testing 58.0 and 50.4, which MMDetection 3
    cannot run, as its test-time augmentation merges boxes only). That run also used InstaBoost and one global
    attention layer after the last stage, which are left out here, so expect less.
Hardware: 8 GPUs x 2 images = 16 images per step.
Command: bash tools/dist_train.sh configs/swin/htc-plus-plus_swin-l-p4-w7-in22k_fpn_amp-ms-400-1400-6x_coco.py 8
Official: AdamW with rate 1e-4 and decay 0.05 at 16 images per step, short side 400 to 1400 and long side at most
    1600, 72 epochs with steps at 63 and 69, Soft-NMS, weights from ImageNet-22K.
Ours: window 7, drop path 0.3 (that of Cascade Swin-B), mask and semantic heads and score threshold of MMDetection,
    warm-up over 500 iterations, mixed precision, recomputed activations, testing at 1600x1400. The paper does not
    describe the box heads; those of Cascade Mask R-CNN give, with the layer left out, its parameter count.
Weights: swin_large_patch4_window7_224_22k.pth, a release of the official repository (microsoft/Swin-Transformer,
    MIT), loaded as it is. Data: the COCO-stuff label maps are needed.
"""

_base_ = "./htc-plus-plus_swin-b-p4-w7-in22k_fpn_amp-ms-400-1400-6x_coco.py"

checkpoint = "https://github.com/SwinTransformer/storage/releases/download/v1.0.0/swin_large_patch4_window7_224_22k.pth"
model = dict(
    backbone=dict(arch="large", init_cfg=dict(checkpoint=checkpoint)),
    neck=dict(in_channels=[192, 384, 768, 1536]),
)
