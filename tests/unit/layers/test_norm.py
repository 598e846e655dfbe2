import re

import pytest
import torch
from torch import nn

from mmvisattn.layers.norm import ChannelsLast, build_norm


def channels_first(layer, x):
    return layer(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


@pytest.mark.parametrize("name", ["LN", "LN2d"])
def test_layer_norm_is_over_channels(name):
    x = torch.randn(2, 3, 4, 8)
    norm = build_norm(dict(type=name, eps=1e-3), 8)
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True, correction=0)
    torch.testing.assert_close(norm(x), (x - mean) / torch.sqrt(variance + 1e-3))


@pytest.mark.parametrize(
    ("config", "plain"),
    [
        (dict(type="BN"), nn.BatchNorm2d(8)),
        (dict(type="BN2d", momentum=0.3), nn.BatchNorm2d(8, momentum=0.3)),
        (dict(type="GN", num_groups=2), nn.GroupNorm(2, 8)),
        (dict(type="IN"), nn.InstanceNorm2d(8)),
    ],
)
def test_other_norms_see_channels_first(config, plain):
    x = torch.randn(2, 3, 4, 8)
    norm = build_norm(config, 8)
    assert torch.equal(norm(x), channels_first(plain, x))
    assert norm(x).shape == x.shape


def test_sync_batch_norm_can_be_replaced_by_what_runs_on_the_cpu():
    norm = build_norm(dict(type="SyncBN", requires_grad=True), 8)
    assert isinstance(norm.norm, nn.SyncBatchNorm)
    back = nn.SyncBatchNorm.convert_sync_batchnorm(build_norm(dict(type="BN"), 8))
    assert isinstance(back, ChannelsLast) and isinstance(back.norm, nn.SyncBatchNorm)


def test_requires_grad_of_the_config():
    assert not any(p.requires_grad for p in build_norm(dict(type="LN", requires_grad=False), 8).parameters())


def test_type_of_the_host_registry():
    from mmengine.registry import MODELS

    class HalfNorm(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.channels = channels

        def forward(self, x):
            assert x.shape[1] == self.channels
            return x / 2

    MODELS.register_module(name="HalfNormOfTheTest", module=HalfNorm)
    try:
        x = torch.randn(2, 3, 4, 8)
        assert torch.equal(build_norm(dict(type="HalfNormOfTheTest"), 8)(x), x / 2)
    finally:
        MODELS._module_dict.pop("HalfNormOfTheTest")


@pytest.mark.parametrize("config", [None, "LN", dict(eps=1e-6), dict(type=nn.LayerNorm)])
def test_config_that_is_not_a_dict_with_a_type(config):
    with pytest.raises(TypeError, match="norm_cfg must be a dict"):
        build_norm(config, 8)


def test_unknown_type():
    with pytest.raises(ValueError, match="norm_cfg has type 'LayerNrm'.*'BN'.*'LN'"):
        build_norm(dict(type="LayerNrm"), 8)


def test_group_norm_needs_groups():
    with pytest.raises(ValueError, match="num_groups"):
        build_norm(dict(type="GN"), 8)


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (dict(type="LN", epsilon=1e-6), TypeError),
        (dict(type="LN", eps="1e-6"), TypeError),  # what YAML makes of 1e-6
        (dict(type="GN", num_groups=3), ValueError),
        (dict(type="BN", affine="no"), TypeError),
    ],
)
def test_options_that_the_layer_refuses(config, error):
    with pytest.raises(error, match=re.escape(f"norm_cfg cannot be {config!r}: ")):
        build_norm(config, 8)
