"""What every run shares: our registry, hooks, process start, logging. Host files beside this one build on it."""

custom_imports = dict(imports=["mmvisattn.registry"], allow_failed_imports=False)

# Types of mmengine, mmcv and torch carry no scope: no host registers these names, so they mean one thing everywhere.
default_hooks = dict(
    timer=dict(type="IterTimerHook"),
    logger=dict(type="LoggerHook", interval=50),
    param_scheduler=dict(type="ParamSchedulerHook"),
    checkpoint=dict(type="CheckpointHook", interval=1, max_keep_ckpts=2),
    sampler_seed=dict(type="DistSamplerSeedHook"),
)
custom_hooks = [dict(type="mmvisattn.ChannelContractHook")]  # stops a model whose parts do not fit
env_cfg = dict(
    cudnn_benchmark=False,
    mp_cfg=dict(mp_start_method="fork", opencv_num_threads=0),
    dist_cfg=dict(backend="nccl"),
)
vis_backends = [dict(type="LocalVisBackend")]
log_processor = dict(type="LogProcessor", window_size=50, by_epoch=True)
log_level = "INFO"
load_from = None
resume = False
