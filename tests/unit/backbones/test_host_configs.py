"""The hosts' own Swin configs build our Swin with only the type changed, and freeze the same parameters."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from mmvisattn import hosts
from mmvisattn.backbones.swin import SWIN_ARCHS, SwinTransformer
from mmvisattn.checkpoints.maps.swin import OPENMMLAB


def shipped_configs(host):
    if host == "mmpretrain":  # lives beside the environment: mmdet must not import it
        package = Path(sys.prefix) / "mmpretrain" / "mmpretrain"
    else:
        package = Path(importlib.util.find_spec(host).origin).parent
    paths = sorted((package / ".mim" / "configs").rglob("*swin*.py"))
    assert paths, f"{host} ships no Swin configs"
    return [pytest.param(path, id=f"{host}-{path.stem}") for path in paths if "swinv2" not in path.stem]


def swin_options(path):
    """Options of the backbone of a config, without its type; None if it is not a Swin."""
    backbone = Config.fromfile(path, import_custom_modules=False).get("model", {}).get("backbone", {})
    if backbone.get("type") != "SwinTransformer":
        return None
    return {name: value for name, value in backbone.items() if name != "type"}


@pytest.mark.parametrize("path", [c for host in ("mmdet", "mmseg", "mmpretrain") for c in shipped_configs(host)])
def test_shipped_config_builds_with_only_the_type_changed(path):
    options = swin_options(path)
    if options is None:
        pytest.skip("not a Swin V1 backbone")
    with torch.device("meta"):
        backbone = SwinTransformer(**options)
    arch = SWIN_ARCHS[options.get("arch", "tiny")]
    dim, depths = options.get("embed_dims", arch.embed_dim), options.get("depths", arch.depths)
    assert [len(stage.blocks) for stage in backbone.stages] == list(depths)
    assert backbone.out_channels == tuple(dim * 2**index for index in options.get("out_indices", (0, 1, 2, 3)))
    window = options.get("stage_cfgs", {}).get("block_cfgs", {}).get("window_size", options.get("window_size", 7))
    assert backbone.stages[0].blocks[0].token_mixer.window_size == (window, window)


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
