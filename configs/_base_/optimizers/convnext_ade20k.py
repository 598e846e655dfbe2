"""AdamW of the official ConvNeXt segmentation configs: the rate falls by 0.9, for a stage at a time."""

_base_ = "./convnext_coco.py"

optim_wrapper = dict(paramwise_cfg=dict(decay_rate=0.9, decay_type="stage_wise"))
