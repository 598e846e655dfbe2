"""Building blocks that more than one backbone family uses, as plain ``torch.nn`` modules.

Everything here works on feature maps of shape (B, H, W, C), channels last; only images are (B, C, H, W). Sizes are
in tokens (one token is one patch of the image) unless a name says pixels.
"""
