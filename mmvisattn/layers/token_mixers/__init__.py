"""Modules that exchange information between the tokens of a (B, H, W, C) map; the shape stays as it is."""
