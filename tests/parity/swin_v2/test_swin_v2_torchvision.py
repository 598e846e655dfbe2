"""Swin Transformer V2 against torchvision's: outputs before their norms, and gradients."""

import pytest
import torch
from torchvision.models import SwinTransformer
from torchvision.models.swin_transformer import PatchMergingV2, SwinTransformerBlockV2

from mmvisattn.checkpoints.maps.swin_v2 import TORCHVISION

pytestmark = pytest.mark.xdist_group("torchvision")


@pytest.fixture
def pair(our_swin_v2, without_out_norms, randomise, with_exact_coordinates, transfer):
    """Return torchvision's model and ours with the same weights."""

    def build(window_size=(4, 4)):
        peer = SwinTransformer(
            [4, 4],
            16,
            [2, 2, 2],
            [2, 4, 4],
            list(window_size),
            block=SwinTransformerBlockV2,
            downsample_layer=PatchMergingV2,
            num_classes=3,
        )
        with_exact_coordinates(randomise(peer))
        for module in peer.modules():
            if hasattr(module, "qkv"):  # its forward reads zeros there
                module.qkv.bias.data.view(3, -1)[1] = 0
        ours = without_out_norms(our_swin_v2(window_size=window_size))
        transfer(peer.state_dict(), ours, TORCHVISION)
        return peer, ours

    return build


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
@pytest.mark.parametrize("window_size", [(4, 4), (4, 3)])
def test_outputs(size, window_size, pair, largest_error, image, tolerance):
    peer, ours = pair(window_size)
    x = image(*size)
    with torch.no_grad():
        assert largest_error(ours(x), stage_outputs(peer, x)) <= tolerance


def test_gradients(pair, largest_error, image, tolerance):
    """Every parameter's gradient equals the peer's, carried through the same table (it only moves numbers around)."""
    peer, ours = pair()
    x = image(72, 100)
    for outputs in (stage_outputs(peer, x), ours(x)):
        sum((y * torch.linspace(-1, 1, y.numel()).double().view_as(y)).sum() for y in outputs).backward()
    expected = {name: p.grad for name, p in peer.named_parameters() if p.grad is not None}
    expected = TORCHVISION.convert(expected).tensors
    gradients = {name: p.grad for name, p in ours.named_parameters()}
    assert gradients.keys() == expected.keys()
    assert largest_error([gradients[name] for name in expected], list(expected.values())) <= tolerance
