"""Swin Transformer against torchvision's. It has no output norms, so maps are compared before them."""

import pytest
import torch
from torchvision.models import SwinTransformer

from mmvisattn.checkpoints.maps.swin import TORCHVISION

pytestmark = pytest.mark.xdist_group("torchvision")


def stage_outputs(peer, x):
    outputs = []
    for index, layer in enumerate(peer.features):
        x = layer(x)
        if index % 2:  # features: patch embedding, stage, merging, stage, ...
            outputs.append(x.permute(0, 3, 1, 2))
    return outputs


# Maps of 18x25, 9x13 and 5x7 tokens: all padded. All larger than the window, since torchvision stops shifting along
# an axis that fits in a window, which is neither of our rules for small maps.
@pytest.mark.parametrize("size", [(72, 100), (96, 160)])
def test_outputs(size, our_swin, without_out_norms, randomise, transfer, largest_error, image, tolerance):
    peer = randomise(SwinTransformer([4, 4], 16, [2, 2, 2], [2, 4, 4], [4, 4], num_classes=3))
    ours = without_out_norms(our_swin())
    transfer(peer.state_dict(), ours, TORCHVISION)
    x = image(*size)
    with torch.no_grad():
        assert largest_error(ours(x), stage_outputs(peer, x)) <= tolerance


def test_non_square_window(our_swin, without_out_norms, randomise, transfer, largest_error, image, tolerance):
    peer = randomise(SwinTransformer([4, 4], 16, [2, 2, 2], [2, 4, 4], [4, 3], num_classes=3))
    ours = without_out_norms(our_swin(window_size=(4, 3)))
    transfer(peer.state_dict(), ours, TORCHVISION)
    x = image(72, 100)
    with torch.no_grad():
        assert largest_error(ours(x), stage_outputs(peer, x)) <= tolerance
