"""72 epochs, steps at 63 and 69 (the Swin paper's schedule for HTC++, appendix A2.2)."""

_base_ = "./coco_1x.py"

train_cfg = dict(max_epochs=72)
param_scheduler = [
    _base_.param_scheduler[0],
    dict(type="MultiStepLR", begin=0, end=72, by_epoch=True, milestones=[63, 69], gamma=0.1),
]
