"""One file per family: the tables of every source that publishes its weights.

A family file ends with ``KEY_MAPS``, the tables in the order in which `mmvisattn.checkpoints.detect` tries them. Our
side of a rule lists the words of a word field; the source's side refers to them.
"""
