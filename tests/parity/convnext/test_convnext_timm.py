"""ConvNeXt V1 and V2 against timm's. It has no output norms, so maps are compared before them."""

import pytest
import timm
import torch

from mmvisattn.checkpoints.maps.convnext import TIMM, TIMM_CONV_MLP

pytestmark = pytest.mark.xdist_group("timm")


@pytest.fixture
def pair(our_convnext, sizes, without_out_norms, randomise, transfer):
    """Return timm's model and ours with the same weights."""

    def build(version, conv_mlp=False):
        options = {} if version == 1 else {"use_grn": True, "ls_init_value": None}
        peer = randomise(timm.models.ConvNeXt(**sizes, **options, conv_mlp=conv_mlp, num_classes=3))
        ours = without_out_norms(our_convnext(version))
        transfer(peer.state_dict(), ours, TIMM_CONV_MLP if conv_mlp else TIMM)
        return peer, ours

    return build


def stage_outputs(peer, x):
    outputs, x = [], peer.stem(x)
    for stage in peer.stages:
        x = stage(x)
        outputs.append(x)
    return outputs


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("conv_mlp", [False, True])
@pytest.mark.parametrize("size", [(64, 96), (70, 99), (47, 33)])
def test_outputs(version, conv_mlp, size, pair, largest_error, image, tolerance):
    """Whole patches, and sides of which the stem and later layers leave a remainder out."""
    peer, ours = pair(version, conv_mlp)
    x = image(*size)
    with torch.no_grad():
        assert largest_error(ours(x), stage_outputs(peer, x)) <= tolerance


@pytest.mark.parametrize("version", [1, 2])
def test_gradients(version, pair, largest_error, image, tolerance):
    """Every parameter's gradient equals the peer's, carried through the same table (it only moves numbers around)."""
    peer, ours = pair(version)
    x = image(70, 99)
    for outputs in (stage_outputs(peer, x), ours(x)):
        sum((y * torch.linspace(-1, 1, y.numel()).double().view_as(y)).sum() for y in outputs).backward()
    expected = TIMM.convert({name: p.grad for name, p in peer.named_parameters() if p.grad is not None}).tensors
    gradients = {name: p.grad for name, p in ours.named_parameters()}
    assert gradients.keys() == expected.keys()
    assert largest_error([gradients[name] for name in expected], list(expected.values())) <= tolerance
