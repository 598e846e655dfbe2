"""Swin Transformer against transformers', from the files it saves and from its state dict in memory."""

import pytest
import torch
from transformers import SwinBackbone, SwinConfig

from mmvisattn.checkpoints.load import load_pretrained
from mmvisattn.checkpoints.maps.swin import TRANSFORMERS_IN_MEMORY

pytestmark = pytest.mark.xdist_group("transformers")


def build_peer(**options):
    config = SwinConfig(
        image_size=64,
        embed_dim=16,
        depths=[2, 2, 2],
        num_heads=[2, 4, 4],
        window_size=4,
        out_features=["stage1", "stage2", "stage3"],
        **options,
    )
    return SwinBackbone(config)


# The second size has maps of 5x7, 3x4 and 2x2 tokens: transformers' backbones pad and shift them, as detectors do.
@pytest.mark.parametrize("size", [(72, 100), (20, 28)])
def test_saved_file(size, tmp_path, our_swin, randomise, largest_error, image, tolerance):
    peer, ours = randomise(build_peer()), our_swin().double().eval()
    peer.save_pretrained(tmp_path)
    report = load_pretrained(ours, str(tmp_path / "model.safetensors"))
    assert report.source == "transformers"
    assert not report.new and set(report.loaded) == set(ours.state_dict())
    x = image(*size)
    with torch.no_grad():
        assert largest_error(ours(x), peer(x).feature_maps) <= tolerance


def test_state_dict_in_memory(our_swin, randomise, transfer, largest_error, image, tolerance):
    peer = randomise(build_peer(use_absolute_embeddings=True))
    ours = our_swin(position="relative+absolute", pretrain_img_size=64)
    state = {name.removeprefix("swin."): tensor for name, tensor in peer.state_dict().items()}
    transfer(state, ours, TRANSFORMERS_IN_MEMORY)
    x = image(64, 64)
    with torch.no_grad():
        assert largest_error(ours(x), peer(x).feature_maps) <= tolerance
