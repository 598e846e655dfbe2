"""Runtime of MMSegmentation configs: iterations, mIoU decides the best checkpoint."""

_base_ = "./default.py"

default_scope = "mmseg"
default_hooks = dict(
    logger=dict(log_metric_by_epoch=False),
    checkpoint=dict(by_epoch=False, interval=16000, save_best="mIoU"),
    visualization=dict(type="mmseg.SegVisualizationHook"),
)
env_cfg = dict(cudnn_benchmark=True)  # crops have one size
visualizer = dict(type="mmseg.SegLocalVisualizer", vis_backends=_base_.vis_backends, name="visualizer")
log_processor = dict(by_epoch=False)
tta_model = dict(type="mmseg.SegTTAModel")
