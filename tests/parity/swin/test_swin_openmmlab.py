"""Swin Transformer against mmdet's and mmseg's: outputs with their norms, gradients, and maps smaller than a window."""

import importlib

import pytest
import torch

import mmvisattn.registry  # noqa: F401  (mmdet and mmseg import mmcv.ops)
from mmvisattn.checkpoints.maps.swin import OPENMMLAB

HOSTS = ["mmdet", "mmseg"]
SIZES = {"embed_dims": 16, "depths": (2, 2, 2), "num_heads": (2, 4, 4), "strides": (4, 2, 2), "window_size": 4}

pytestmark = pytest.mark.xdist_group("openmmlab")


def build_peer(host, **options):
    swin = importlib.import_module(f"{host}.models.backbones.swin").SwinTransformer
    return swin(**SIZES, out_indices=(0, 1, 2), **options)


# Padded everywhere and no multiple of a patch; then maps of 5x7, 3x4 and 2x2 tokens against a window of 4, which the
# hosts pad and shift all the same.
@pytest.mark.parametrize("size", [(70, 99), (20, 28)])
@pytest.mark.parametrize("host", HOSTS)
def test_outputs(host, size, our_swin, randomise, transfer, largest_error, image, tolerance):
    peer, ours = randomise(build_peer(host)), our_swin()
    transfer(peer.state_dict(), ours, OPENMMLAB)
    x = image(*size)
    with torch.no_grad():
        assert largest_error(ours(x), peer(x)) <= tolerance


def test_absolute_position_embedding(our_swin, randomise, transfer, largest_error, image, tolerance):
    peer = randomise(build_peer("mmdet", use_abs_pos_embed=True, pretrain_img_size=64))
    ours = our_swin(position="relative+absolute", pretrain_img_size=64)
    transfer(peer.state_dict(), ours, OPENMMLAB)
    x = image(64, 64)  # mmdet can only add the embedding at its own size
    with torch.no_grad():
        assert largest_error(ours(x), peer(x)) <= tolerance


def test_gradients(our_swin, randomise, transfer, largest_error, image, tolerance):
    """Every parameter's gradient equals the peer's, carried through the same table (it only moves numbers around)."""
    peer, ours = randomise(build_peer("mmdet")), our_swin()
    transfer(peer.state_dict(), ours, OPENMMLAB)
    x = image(70, 99)
    for model in (peer, ours):
        sum((y * torch.linspace(-1, 1, y.numel()).double().view_as(y)).sum() for y in model(x)).backward()
    expected = OPENMMLAB.convert({name: p.grad for name, p in peer.named_parameters()}).tensors
    gradients = {name: p.grad for name, p in ours.named_parameters()}
    assert gradients.keys() == expected.keys()
    # key biases have no influence on a softmax except through padded tokens, so no gradient here is zero by nature
    assert largest_error([gradients[name] for name in expected], list(expected.values())) <= tolerance
