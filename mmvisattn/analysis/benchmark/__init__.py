"""Speed and memory as ratios: what is compared runs in one process, in turns, after a correctness gate.

``measure`` times callables in turns, ``backbones`` compares our backbones with other libraries', ``peers`` builds
those.
"""
