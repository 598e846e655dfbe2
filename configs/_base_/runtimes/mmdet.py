"""Runtime of MMDetection configs: epochs, box AP decides the best checkpoint."""

_base_ = "./default.py"

default_scope = "mmdet"
default_hooks = dict(
    checkpoint=dict(save_best="coco/bbox_mAP"),
    visualization=dict(type="mmdet.DetVisualizationHook"),
)
visualizer = dict(type="mmdet.DetLocalVisualizer", vis_backends=_base_.vis_backends, name="visualizer")
