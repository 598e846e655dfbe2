"""Swin Transformer against timm's. It has no output norms, so maps are compared before them."""

import pytest
import timm
import torch

from mmvisattn.checkpoints.maps.swin import TIMM

pytestmark = pytest.mark.xdist_group("timm")


def build_peer(size, depths=(2, 2, 2)):
    return timm.models.SwinTransformer(
        img_size=size, embed_dim=16, depths=depths, num_heads=(2, 4, 4), window_size=4, num_classes=3
    )


def stage_outputs(peer, x):
    outputs, x = [], peer.patch_embed(x)
    for layer in peer.layers:
        x = layer(x)
        outputs.append(x.permute(0, 3, 1, 2))
    return outputs


def test_outputs(our_swin, without_out_norms, randomise, transfer, largest_error, image, tolerance):
    """Whole windows only: timm shifts a map before it pads it, the official code and we pad first."""
    peer, ours = randomise(build_peer((128, 192))), without_out_norms(our_swin())
    transfer(peer.state_dict(), ours, TIMM)
    x = image(128, 192)
    with torch.no_grad():
        assert largest_error(ours(x), stage_outputs(peer, x)) <= tolerance


def test_padding_without_shift(our_swin, without_out_norms, randomise, transfer, largest_error, image, tolerance):
    depths = (1, 1, 1)
    peer, ours = randomise(build_peer((72, 100), depths)), without_out_norms(our_swin(depths=depths))
    transfer(peer.state_dict(), ours, TIMM)
    x = image(72, 100)
    with torch.no_grad():
        assert largest_error(ours(x), stage_outputs(peer, x)) <= tolerance


def test_map_of_one_window_is_not_shifted(
    our_swin, without_out_norms, randomise, transfer, largest_error, image, tolerance
):
    """Maps of 16, 8 and 4 tokens a side with a window of 4: classification code does not shift the last one."""
    peer, ours = randomise(build_peer(64)), without_out_norms(our_swin(small_map="shrink"))
    transfer(peer.state_dict(), ours, TIMM)
    x = image(64, 64)
    with torch.no_grad():
        assert largest_error(ours(x), stage_outputs(peer, x)) <= tolerance


def test_shrunken_window(our_swin, without_out_norms, randomise, transfer, largest_error, image, tolerance):
    """timm, built for a map of 3x3 tokens, stores the biases of a window of 3: the middle of ours for a window of 4."""
    depths = (2, 1, 2)  # the second map, 6x6, needs padding, so it must not be shifted
    peer, ours = randomise(build_peer(48, depths)), without_out_norms(our_swin(depths=depths, small_map="shrink"))
    state = dict(peer.state_dict())
    for name, small in state.items():
        if name.startswith("layers.2.") and name.endswith("bias_table"):
            table = torch.full((7, 7, 4), float("nan")).double()
            table[1:6, 1:6] = small.view(5, 5, 4)
            state[name] = table.view(49, 4)
    transfer(state, ours, TIMM)
    x = image(48, 48)
    with torch.no_grad():
        assert largest_error(ours(x), stage_outputs(peer, x)) <= tolerance
