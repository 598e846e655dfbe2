"""ConvNeXt V1 and V2 against mmpretrain's, with their output norms."""

import pytest
import torch

from mmvisattn.checkpoints.maps.convnext import MMPRETRAIN, MMPRETRAIN_CONV_MLP

pytestmark = pytest.mark.xdist_group("mmpretrain")


@pytest.mark.parametrize("case", [0, 1], ids=["70x99", "40x70"])
@pytest.mark.parametrize(
    ("name", "version", "key_map"), [("convnext", 1, MMPRETRAIN), ("convnext_v2", 2, MMPRETRAIN_CONV_MLP)]
)
def test_outputs(name, version, key_map, case, mmpretrain_results, our_convnext, transfer, largest_error, tolerance):
    peer, ours = mmpretrain_results[name], our_convnext(version)
    transfer(peer["state"], ours, key_map)
    with torch.no_grad():
        assert largest_error(ours(peer["images"][case]), peer["outputs"][case]) <= tolerance
