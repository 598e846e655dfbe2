"""Swin Transformer V2 against mmpretrain's, with its output norms, extra norms, and a window of its own per stage."""

import dataclasses

import pytest
import torch

from mmvisattn.checkpoints.key_map import Rename
from mmvisattn.checkpoints.maps.swin_v2 import OPENMMLAB

pytestmark = pytest.mark.xdist_group("mmpretrain")

CHANGED_WINDOWS = {"window_size": (4, 3, 4), "pretrained_window_sizes": (3, 0, 2)}


@pytest.mark.parametrize("case", [0, 1], ids=["70x99", "20x28"])
@pytest.mark.parametrize(("name", "options"), [("swin_v2", {}), ("swin_v2_changed_windows", CHANGED_WINDOWS)])
def test_outputs(name, options, case, mmpretrain_results, our_swin_v2, transfer, largest_error, tolerance):
    peer, ours = mmpretrain_results[name], our_swin_v2(extra_norm_every_n_blocks=2, **options)
    transfer(peer["state"], ours, OPENMMLAB)
    with torch.no_grad():
        assert largest_error(ours(peer["images"][case]), peer["outputs"][case]) <= tolerance


def test_merging_order_matters(mmpretrain_results, our_swin_v2, transfer, largest_error):
    peer, ours = mmpretrain_results["swin_v2"], our_swin_v2(extra_norm_every_n_blocks=2)
    rules = [dataclasses.replace(r, transform=None) if isinstance(r, Rename) else r for r in OPENMMLAB.rules]
    transfer(peer["state"], ours, dataclasses.replace(OPENMMLAB, rules=tuple(rules)))
    with torch.no_grad():
        assert largest_error(ours(peer["images"][0]), peer["outputs"][0]) > 1e-3
