"""Vision backbones, one paper family per file, as plain ``torch.nn.Module`` without any host framework.

All follow :class:`mmvisattn.backbones.base.Backbone`: images (B, C, H, W) in, a tuple of feature maps out.
"""
