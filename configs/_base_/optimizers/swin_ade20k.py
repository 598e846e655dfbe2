"""AdamW of the official Swin segmentation configs: a lower rate and decay, the same parameters left undecayed."""

_base_ = "./swin_coco.py"

optim_wrapper = dict(optimizer=dict(lr=6e-5, weight_decay=0.01))
