"""160k iterations: linear warm-up over 1500, then linear decay to zero; the rate belongs to 16 images per step."""

train_cfg = dict(type="IterBasedTrainLoop", max_iters=160000, val_interval=16000)
val_cfg = dict(type="ValLoop")
test_cfg = dict(type="TestLoop")
param_scheduler = [
    dict(type="LinearLR", start_factor=1e-6, by_epoch=False, begin=0, end=1500),
    dict(type="PolyLR", power=1.0, eta_min=0.0, by_epoch=False, begin=1500, end=160000),
]
auto_scale_lr = dict(enable=False, base_batch_size=16)
