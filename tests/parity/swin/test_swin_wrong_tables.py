"""The comparisons notice a wrong table: merging order left as it is, query and key exchanged."""

import dataclasses

import pytest
import torch
from transformers import SwinBackbone, SwinConfig

import mmvisattn.registry  # noqa: F401  (mmdet imports mmcv.ops)
from mmvisattn.checkpoints.key_map import Rename
from mmvisattn.checkpoints.maps.swin import OPENMMLAB, TRANSFORMERS_IN_MEMORY

pytestmark = pytest.mark.xdist_group("openmmlab")

VISIBLE = 1e-3


def changed(key_map, change):
    rules = tuple(change(rule) if isinstance(rule, Rename) else rule for rule in key_map.rules)
    assert rules != key_map.rules
    return dataclasses.replace(key_map, rules=rules)


def test_merging_order_matters(our_swin, randomise, transfer, largest_error, image):
    from mmdet.models.backbones.swin import SwinTransformer

    peer = SwinTransformer(
        embed_dims=16, depths=(2, 2), num_heads=(2, 4), strides=(4, 2), window_size=4, out_indices=(1,)
    )
    ours = our_swin(depths=(2, 2), num_heads=(2, 4), out_indices=(1,))
    wrong = changed(OPENMMLAB, lambda rule: dataclasses.replace(rule, transform=None))
    transfer(randomise(peer).state_dict(), ours, wrong)
    x = image(64, 64)
    with torch.no_grad():
        assert largest_error(ours(x), peer(x)) > VISIBLE


def test_order_of_query_and_key_matters(our_swin, randomise, transfer, largest_error, image):
    config = SwinConfig(embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, out_features=["stage1", "stage2"])
    peer = randomise(SwinBackbone(config))
    ours = our_swin(depths=(2, 2), num_heads=(2, 4), out_indices=(0, 1))

    def exchange(rule):
        if not isinstance(rule.source, tuple):
            return rule
        query, key, value = rule.source
        return dataclasses.replace(rule, source=(key, query, value))

    state = {name.removeprefix("swin."): tensor for name, tensor in peer.state_dict().items()}
    transfer(state, ours, changed(TRANSFORMERS_IN_MEMORY, exchange))
    x = image(64, 64)
    with torch.no_grad():
        assert largest_error(ours(x), peer(x).feature_maps) > VISIBLE
