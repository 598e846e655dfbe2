"""AdamW of the Swin V1 detection configs; what the official V2 code leaves undecayed is left undecayed too."""

_base_ = "./swin_coco.py"

optim_wrapper = dict(
    paramwise_cfg=dict(
        custom_keys={
            "cpb_mlp": dict(decay_mult=0.0),
            "logit_scale": dict(decay_mult=0.0),
        }
    )
)
