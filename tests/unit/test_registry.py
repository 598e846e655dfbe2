"""One import registers everything, for each host alone and for both, in either order, as often as it is loaded."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from mmengine import registry as mmengine_registry

from mmvisattn import registry

# Builds our backbone inside a stock model of each host. Until the first host has built, the other cannot be imported.
BOTH_HOSTS = """
import sys
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope

first, second = sys.argv[1:]
sys.modules[second] = None  # importing it raises ImportError
BASES = {"mmdet": "mmdet::_base_/models/retinanet_r50_fpn.py", "mmseg": "mmseg::_base_/models/upernet_swin.py"}
ARCH = dict(embed_dim=8, depths=(1, 1, 1, 1), num_heads=(1, 1, 2, 2))

def build(scope):
    text = f"_base_ = '{BASES[scope]}'\\n"
    text += "custom_imports = dict(imports=['mmvisattn.registry'], allow_failed_imports=False)\\n"
    text += f"model = dict(backbone=dict(_delete_=True, type='mmvisattn.SwinTransformer', arch={ARCH}))\\n"
    model = Config.fromstring(text, ".py").model
    if scope == "mmdet":
        model.neck.in_channels = [8, 16, 32, 64]
    else:
        model.decode_head.in_channels, model.auxiliary_head.in_channels = [8, 16, 32, 64], 32
    with DefaultScope.overwrite_default_scope(scope):
        return type(MODELS.build(model).backbone)

kinds = [build(first)]
del sys.modules[second]
kinds.append(build(second))
del sys.modules["mmvisattn.registry"]
import mmvisattn.registry
kinds.append(build(first))
assert len(set(kinds)) == 1, kinds
print("built", kinds[0].__module__)
"""

# mmpretrain 1.2 cannot be imported where transformers 5 is, unless it believes that transformers is absent.
BESIDE_MMPRETRAIN = """
import sys
import importlib_metadata

sys.path.append(sys.argv[1])
find = importlib_metadata.distribution

def hide_transformers(name):
    if name == "transformers":
        raise importlib_metadata.PackageNotFoundError(name)
    return find(name)

importlib_metadata.distribution = hide_transformers
import mmpretrain.models, mmvisattn.registry
from mmengine.registry import MODELS

for scope in ("mmvisattn", "mmpretrain"):
    print(MODELS.get(f"{scope}.SwinTransformer").__module__)
"""


@pytest.mark.parametrize("order", [("mmdet", "mmseg"), ("mmseg", "mmdet")], ids="then".join)
def test_each_host_alone_then_both(order):
    command = [sys.executable, "-W", "ignore", "-c", BOTH_HOSTS, *order]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout.split()[-2:] == ["built", "mmvisattn.backbones.swin"], done.stderr[-3000:]


def test_loading_twice_keeps_the_nodes_and_their_classes():
    before = {node.name: dict(node.module_dict) for node in (registry.MODELS, registry.HOOKS)}
    nodes = registry.MODELS, registry.HOOKS
    again = importlib.reload(registry)
    assert nodes == (again.MODELS, again.HOOKS)
    assert {node.name: dict(node.module_dict) for node in nodes} == before


@pytest.mark.parametrize(
    ("node", "name", "module"), registry.REGISTERED, ids=lambda value: str(getattr(value, "name", value))
)
def test_every_row_of_the_table_resolves_from_the_root(node, name, module):
    root = getattr(mmengine_registry, next(k for k, v in vars(registry).items() if v is node and k.isupper()))
    kind = root.get(f"mmvisattn.{name}")
    assert (kind.__module__, kind.__name__) == (module, name)


def test_the_table_is_all_there_is():
    listed = {(node.name, name) for node, name, _ in registry.REGISTERED}
    nodes = {id(node): node for node in vars(registry).values() if isinstance(node, mmengine_registry.Registry)}
    assert {(node.name, name) for node in nodes.values() for name in node.module_dict} == listed


def test_beside_mmpretrain():
    """Its backbones have the same class names; scopes keep them apart."""
    apart = Path(sys.prefix) / "mmpretrain"  # a folder of its own, see tools/environment/peers-apart.txt
    if not apart.is_dir():
        pytest.skip("mmpretrain is not installed beside this environment")
    command = [sys.executable, "-W", "ignore", "-c", BESIDE_MMPRETRAIN, str(apart)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    modules = ["mmvisattn.backbones.swin", "mmpretrain.models.backbones.swin_transformer"]
    assert done.stdout.split()[-2:] == modules, done.stderr[-3000:]
