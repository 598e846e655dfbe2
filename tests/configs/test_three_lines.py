"""The README's lines put our backbone into the hosts' stock configs, and the result trains."""

import re
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, init_default_scope

from mmvisattn.analysis import contract

README = Path(__file__).parents[2] / "README.md"
CHANNELS = (96, 192, 384, 768)


def block_after(marker):
    """The first Python block after `<!-- marker -->` in the README."""
    return re.search(rf"<!-- {marker} -->\s*```python\n(.*?)```", README.read_text(), re.DOTALL).group(1)


@pytest.fixture(params=["mmdet", "mmseg"])
def host(request):
    return request.param


@pytest.fixture
def stock_config_with_our_backbone(host, tmp_path):
    path = tmp_path / "config.py"
    path.write_text(block_after(f"three-lines-{host}"))
    return Config.fromfile(path)  # imports what custom_imports names, as the hosts' scripts do


def test_block_starts_from_a_stock_config_and_imports_the_registry(host):
    block = block_after(f"three-lines-{host}")
    assert re.search(rf"^_base_ = ['\"]{host}::\S+\.py['\"]$", block, re.MULTILINE)
    assert "mmvisattn.registry" in block


def test_model_builds_and_its_parts_fit(host, stock_config_with_our_backbone):
    config = stock_config_with_our_backbone
    assert config.default_scope == host
    init_default_scope(host)
    with torch.device("meta"):
        model = MODELS.build(config.model)
    assert model.backbone.out_channels == CHANNELS
    assert contract.check(model).checked


def test_model_trains(stock_config_with_our_backbone, nano_model, random_batch):
    config = stock_config_with_our_backbone
    model = nano_model(config).train()
    data = model.data_preprocessor(random_batch(config), training=True)
    total, losses = model.parse_losses(model(**data, mode="loss"))
    total.backward()
    assert all(torch.isfinite(value).all() for value in losses.values())
    assert all(parameter.grad is not None for parameter in model.backbone.parameters())
