"""Swin Transformer V2 against transformers', from the files it saves.

It adds the mask of shifted windows twice, -200 in place of -100; either way nothing is left after the softmax.
"""

import pytest
import torch
from transformers import Swinv2Backbone, Swinv2Config

from mmvisattn.checkpoints.load import load_pretrained

pytestmark = pytest.mark.xdist_group("transformers")


# transformers' rule for small maps follows from the size that a model is built for. Maps of 5x7, 3x4 and 2x2 tokens
# are padded and shifted by a model built for larger ones; one built for a last map of 3x3 shrinks and stops its window.
@pytest.mark.parametrize(
    ("built_for", "size", "small_map"),
    [(128, (72, 100), "pad"), (128, (20, 28), "pad"), (64, (64, 64), "shrink"), (48, (48, 48), "shrink")],
)
@pytest.mark.parametrize("pretrained", [(0, 0, 0), (3, 6, 2)])
def test_saved_file(
    built_for, size, small_map, pretrained, tmp_path, our_swin_v2, without_out_norms, randomise,
    with_exact_coordinates, largest_error, image, tolerance,
):  # fmt: skip
    config = Swinv2Config(
        image_size=built_for,
        embed_dim=16,
        depths=[2, 2, 2],
        num_heads=[2, 4, 4],
        window_size=4,
        pretrained_window_sizes=pretrained,
        out_features=["stage1", "stage2", "stage3"],
    )
    peer = with_exact_coordinates(randomise(Swinv2Backbone(config)))
    peer.save_pretrained(tmp_path)
    ours = our_swin_v2(pretrained_window_sizes=pretrained, small_map=small_map).double().eval()
    report = load_pretrained(ours, str(tmp_path / "model.safetensors"))
    assert report.source == "transformers"
    assert all(name.startswith("out_norms.") for name in report.new)
    assert {*report.loaded, *report.new} == set(ours.state_dict())
    x = image(*size)
    with torch.no_grad():
        assert largest_error(without_out_norms(ours)(x), peer(x).feature_maps) <= tolerance
