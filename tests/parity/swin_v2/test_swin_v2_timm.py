"""Swin Transformer V2 against timm's. It has no output norms, so maps are compared before them."""

import pytest
import timm
import torch

from mmvisattn.checkpoints.maps.swin_v2 import TIMM

pytestmark = pytest.mark.xdist_group("timm")


@pytest.fixture
def compare(our_swin_v2, without_out_norms, randomise, with_exact_coordinates, transfer, largest_error, image):
    """Return the error of our outputs, for a timm model built for `size` and options that both constructors take."""

    def error(size, small_map="pad", depths=(2, 2, 2), window_size=4, pretrained_window_sizes=(0, 0, 0)):
        shared = {"depths": depths, "window_size": window_size, "pretrained_window_sizes": pretrained_window_sizes}
        peer = timm.models.SwinTransformerV2(img_size=size, embed_dim=16, num_heads=(2, 4, 4), num_classes=3, **shared)
        with_exact_coordinates(randomise(peer))
        ours = without_out_norms(our_swin_v2(small_map=small_map, **shared))
        transfer(peer.state_dict(), ours, TIMM)
        x, outputs = image(*size), []
        with torch.no_grad():
            y = peer.patch_embed(x)
            for layer in peer.layers:
                y = layer(y)
                outputs.append(y.permute(0, 3, 1, 2))
            return largest_error(ours(x), outputs)

    return error


def test_outputs(compare, tolerance):
    """Whole windows only: timm shifts a map before it pads it, the official code and we pad first."""
    assert compare((128, 192)) <= tolerance


def test_padding_without_shift(compare, tolerance):
    assert compare((72, 100), depths=(1, 1, 1)) <= tolerance


def test_weights_trained_with_other_windows(compare, tolerance):
    assert compare((128, 192), pretrained_window_sizes=(3, 0, 8)) <= tolerance


def test_map_of_one_window_is_not_shifted(compare, tolerance):
    """Maps of 16, 8 and 4 tokens a side with a window of 4: classification code does not shift the last one."""
    assert compare((64, 64), small_map="shrink") <= tolerance
    assert compare((64, 64), small_map="pad") > 1e-3


@pytest.mark.parametrize("pretrained", [0, 2])
def test_shrunken_window(pretrained, compare, tolerance):
    """A map of 3x3 tokens and a window of 4, which shrinks to 3; its coordinates are those of a window of 3."""
    depths = (2, 1, 2)  # the second map, 6x6, needs padding, so it must not be shifted
    error = compare((48, 48), "shrink", depths, pretrained_window_sizes=(0, 0, pretrained))
    assert error <= tolerance


def test_shrunken_to_one_token(compare, tolerance):
    assert compare((16, 16), "shrink") <= tolerance
