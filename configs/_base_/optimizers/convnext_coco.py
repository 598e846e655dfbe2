"""AdamW of the official ConvNeXt detection configs: the rate falls by 0.95 a layer, biases and norms do not decay."""

optim_wrapper = dict(
    type="OptimWrapper",
    constructor="mmvisattn.LayerDecayOptimWrapperConstructor",
    optimizer=dict(type="AdamW", lr=1e-4, betas=(0.9, 0.999), weight_decay=0.05),
    # The number of layers is the backbone's own: 6 for tiny, 12 for the larger ones.
    paramwise_cfg=dict(decay_rate=0.95, decay_type="layer_wise"),
)
