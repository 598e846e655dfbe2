"""Swin Transformer against mmpretrain's, with its output norms."""

import pytest
import torch

from mmvisattn.checkpoints.maps.swin import OPENMMLAB

pytestmark = pytest.mark.xdist_group("mmpretrain")


@pytest.mark.parametrize("case", [0, 1], ids=["70x99", "20x28"])
def test_outputs(case, mmpretrain_results, our_swin, transfer, largest_error, tolerance):
    peer, ours = mmpretrain_results["swin"], our_swin()
    transfer(peer["state"], ours, OPENMMLAB)
    with torch.no_grad():
        assert largest_error(ours(peer["images"][case]), peer["outputs"][case]) <= tolerance
