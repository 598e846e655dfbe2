"""The hosts' own configs build our backbones with only the type changed; Swin freezes the same parameters as theirs."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from mmvisattn import hosts
from mmvisattn.backbones.convnext import CONVNEXT_ARCHS, ConvNeXt
from mmvisattn.backbones.swin import SWIN_ARCHS, SwinTransformer
from mmvisattn.backbones.swin_v2 import SWIN_V2_ARCHS, SwinTransformerV2
from mmvisattn.checkpoints.maps.swin import OPENMMLAB

# mmengine cannot read these two: they change a pipeline that their base does not have.
BROKEN = ("swinv2-base-w12_8xb128_in21k-192px", "swinv2-large-w12_8xb128_in21k-192px")


def shipped_configs(words, libraries):
    """Paths of the configs with one of these words in their name that a host ships."""
    found = []
    for host in libraries:
        if host == "mmpretrain":  # lives beside the environment: mmdet must not import it
            package = Path(sys.prefix) / "mmpretrain" / "mmpretrain"
        else:
            package = Path(importlib.util.find_spec(host).origin).parent
        paths = sorted(p for p in (package / ".mim" / "configs").rglob("*.py") if any(word in p.stem for word in words))
        assert paths, f"{host} ships no configs of {words}"
        found += [pytest.param(path, id=f"{host}-{path.stem}") for path in paths if path.stem not in BROKEN]
    return found


def backbone_options(path, backbone_type):
    """Options of the backbone of a config, without its type; skips if it is of another type or has none."""
    backbone = Config.fromfile(path, import_custom_modules=False).get("model", {}).get("backbone", {})
    if backbone.get("type", "").removeprefix("mmpretrain.") != backbone_type:
        pytest.skip(f"no {backbone_type}")
    return {name: value for name, value in backbone.items() if name != "type"}


def check_pyramid(backbone, depths, dims, options):
    assert [len(stage.blocks) for stage in backbone.stages] == list(depths)
    assert backbone.out_channels == tuple(dims[index] for index in options.get("out_indices", (0, 1, 2, 3)))


@pytest.mark.parametrize("path", shipped_configs(["swin-", "swin_"], ("mmdet", "mmseg", "mmpretrain")))
def test_swin(path):
    options = backbone_options(path, "SwinTransformer")
    with torch.device("meta"):
        backbone = SwinTransformer(**options)
    arch = SWIN_ARCHS[options.get("arch", "tiny")]
    dim, depths = options.get("embed_dims", arch.embed_dim), options.get("depths", arch.depths)
    check_pyramid(backbone, depths, [dim * 2**stage for stage in range(len(depths))], options)
    window = options.get("stage_cfgs", {}).get("block_cfgs", {}).get("window_size", options.get("window_size", 7))
    assert backbone.stages[0].blocks[0].token_mixer.window_size == (window, window)


@pytest.mark.parametrize("path", shipped_configs(["swinv2"], ("mmpretrain",)))
def test_swin_v2(path):
    options = backbone_options(path, "SwinTransformerV2")
    with torch.device("meta"):
        backbone = SwinTransformerV2(**options)
    arch = SWIN_V2_ARCHS[options["arch"]]
    check_pyramid(backbone, arch.depths, arch.dims, options)
    mixers = [stage.blocks[0].token_mixer for stage in backbone.stages]
    windows = options.get("window_size", 8)
    windows = [windows] * 4 if isinstance(windows, int) else windows
    assert [mixer.window_size for mixer in mixers] == [(window, window) for window in windows]
    pretrained = options.get("pretrained_window_sizes", [0] * 4)
    assert [mixer.cpb_mlp.pretrained_window_size for mixer in mixers] == pretrained


@pytest.mark.parametrize("path", shipped_configs(["convnext"], ("mmdet", "mmseg", "mmpretrain")))
def test_convnext(path):
    options = backbone_options(path, "ConvNeXt")
    with torch.device("meta"):
        backbone = ConvNeXt(**options)
    arch = CONVNEXT_ARCHS[options["arch"]]
    check_pyramid(backbone, arch.depths, arch.channels, options)
    names = backbone.state_dict()
    assert any("grn" in name for name in names) == options.get("use_grn", False)
    assert ("stages.0.blocks.0.gamma" in names) == (options.get("layer_scale_init_value", 1e-6) > 0)


@pytest.fixture(scope="module")
def mmdet_swin():
    hosts.prepare()
    from mmdet.models.backbones.swin import SwinTransformer as MMDetSwin

    return MMDetSwin


SMALL = dict(embed_dims=8, depths=(2, 1, 2, 1), num_heads=(1, 1, 2, 2), window_size=3)


@pytest.mark.parametrize("frozen_stages", [-1, 0, 1, 2, 3, 4])
@pytest.mark.parametrize("use_abs_pos_embed", [False, True])
def test_the_same_parameters_are_frozen_as_in_mmdet(mmdet_swin, frozen_stages, use_abs_pos_embed):
    options = dict(SMALL, frozen_stages=frozen_stages, use_abs_pos_embed=use_abs_pos_embed)
    ours, peer = SwinTransformer(**options), mmdet_swin(**options)
    peer.train()  # mmdet freezes only here
    frozen = {OPENMMLAB.source_of(name) for name, p in ours.named_parameters() if not p.requires_grad}
    expected = {name for name, p in peer.named_parameters() if not p.requires_grad}
    assert frozen == expected
    assert (len(frozen) > 0) == (frozen_stages >= 0)


def test_defaults_are_those_of_mmdet(mmdet_swin):
    with torch.device("meta"):
        ours = SwinTransformer()
    peer = mmdet_swin()
    assert {OPENMMLAB.source_of(name) for name in ours.state_dict()} == {name for name, _ in peer.named_parameters()}
    ours_rates = [block.drop_path.rate for stage in ours.stages for block in stage.blocks]
    peer_rates = [getattr(b.attn.drop, "drop_prob", 0.0) for stage in peer.stages for b in stage.blocks]
    assert ours_rates == pytest.approx(peer_rates)
