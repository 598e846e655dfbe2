"""Public checkpoints into our models: open a file, recognise its naming, convert, check, copy.

The steps, one module each: ``read`` opens a file safely, ``detect`` finds out who named its keys, ``key_map`` with
``transforms`` and ``maps/<family>.py`` converts names and layouts, ``resize`` fits tables to other windows and sizes,
and ``load`` checks that every parameter of the model is accounted for before it copies anything.
"""
