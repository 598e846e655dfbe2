"""ConvNeXt against torchvision's. It has no output norms, so maps are compared before them."""

import pytest
import torch
from torchvision.models import ConvNeXt
from torchvision.models.convnext import CNBlockConfig

from mmvisattn.checkpoints.maps.convnext import TORCHVISION

pytestmark = pytest.mark.xdist_group("torchvision")


@pytest.mark.parametrize("size", [(64, 96), (70, 99), (47, 33)])
def test_outputs(size, our_convnext, sizes, without_out_norms, randomise, transfer, largest_error, image, tolerance):
    dims = (*sizes["dims"], None)
    settings = [CNBlockConfig(dims[stage], dims[stage + 1], depth) for stage, depth in enumerate(sizes["depths"])]
    peer = randomise(ConvNeXt(settings, num_classes=3))
    ours = without_out_norms(our_convnext(version=1))
    transfer(peer.state_dict(), ours, TORCHVISION)
    x = image(*size)
    with torch.no_grad():
        outputs, y = [], x
        for index, layer in enumerate(peer.features):
            y = layer(y)
            if index % 2:  # features: stem, stage, downsampling, stage, ...
                outputs.append(y)
        assert largest_error(ours(x), outputs) <= tolerance
