"""ConvNeXt V1, V2 and DINOv3's against transformers', from the files it saves."""

import pytest
import torch
import transformers

from mmvisattn.checkpoints.load import load_pretrained

pytestmark = pytest.mark.xdist_group("transformers")


def check_report(report, model, source):
    assert report.source == source
    assert all(name.startswith("out_norms.") for name in report.new)
    assert {*report.loaded, *report.new} == set(model.state_dict())


@pytest.mark.parametrize("size", [(64, 96), (70, 99)])
@pytest.mark.parametrize("version", [1, 2])
def test_backbone_with_output_norms(
    version, size, tmp_path, our_convnext, sizes, randomise, largest_error, image, tolerance
):
    family = "ConvNext" if version == 1 else "ConvNextV2"
    config = getattr(transformers, family + "Config")(
        depths=list(sizes["depths"]),
        hidden_sizes=list(sizes["dims"]),
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    peer = randomise(getattr(transformers, family + "Backbone")(config))
    peer.save_pretrained(tmp_path)
    ours = our_convnext(version).double().eval()
    report = load_pretrained(ours, str(tmp_path / "model.safetensors"))
    check_report(report, ours, "transformers")
    assert not report.new
    x = image(*size)
    with torch.no_grad():
        assert largest_error(ours(x), peer(x).feature_maps) <= tolerance


def test_dinov3(tmp_path, our_convnext, sizes, without_out_norms, randomise, largest_error, image, tolerance):
    config = transformers.DINOv3ConvNextConfig(depths=list(sizes["depths"]), hidden_sizes=list(sizes["dims"]))
    peer = randomise(transformers.DINOv3ConvNextModel(config))
    peer.save_pretrained(tmp_path)
    ours = our_convnext(version=1).double().eval()
    check_report(load_pretrained(ours, str(tmp_path / "model.safetensors")), ours, "transformers DINOv3")
    x = image(70, 99)
    with torch.no_grad():
        expected = peer(x, output_hidden_states=True).hidden_states[1:]  # the first is the image
        assert largest_error(without_out_norms(ours)(x), expected) <= tolerance
