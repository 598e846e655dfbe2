"""AdamW of the Swin V1 segmentation configs; what the official V2 code leaves undecayed is left undecayed too."""

_base_ = "./swin_v2_coco.py"

optim_wrapper = dict(optimizer=dict(lr=6e-5, weight_decay=0.01))
