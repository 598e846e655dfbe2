"""A config means the same whichever default scope is in force, so that it can be merged into another."""

import functools

import mmdet.utils
import mmengine.registry
import mmseg.utils
import pytest
from mmengine.registry import Registry, init_default_scope

# MMSegmentation's inference functions take this step out of the test pipeline, and look for exactly this name.
BARE_ON_PURPOSE = {("test_pipeline", "LoadAnnotations")}
ROOTS = [value for value in vars(mmengine.registry).values() if isinstance(value, Registry)]
IN_MMCV_OPS = {"nms", "soft_nms", "RoIAlign"}  # looked up there, not in a registry


@pytest.fixture(scope="module", autouse=True)
def all_registered():
    mmdet.utils.register_all_modules(init_default_scope=False)
    mmseg.utils.register_all_modules(init_default_scope=False)


def types_of(node, where):
    """Every (top-level key, type string) below a node."""
    if isinstance(node, dict):
        if isinstance(node.get("type"), str):
            yield where, node["type"]
        for value in node.values():
            yield from types_of(value, where)
    elif isinstance(node, (list, tuple)):
        for value in node:
            yield from types_of(value, where)


def config_types(config):
    found = set()
    for key, value in config.items():
        # dataloaders repeat the pipelines that stand beside them
        found |= {pair for pair in types_of(value, key) if not key.endswith("_dataloader")}
    return found - BARE_ON_PURPOSE


@functools.cache
def meaning(name, scope):
    """Everything a type string stands for under a default scope, in any registry."""
    init_default_scope(scope)
    found = set()
    for root in ROOTS:
        with root.switch_scope_and_registry(None) as registry:
            found.add(registry.get(name))
    return found - {None}


def test_names_without_a_scope_are_names_no_host_registers(config):
    taken = {
        name
        for root in ROOTS
        for host in ("mmdet", "mmseg")
        if host in root.children
        for name in root.children[host].module_dict
    }
    assert not {name for _, name in config_types(config)} & taken


def test_every_type_exists_and_is_one_thing_under_both_scopes(config):
    for _, name in config_types(config):
        if name not in IN_MMCV_OPS:
            assert meaning(name, "mmdet"), f"{name} is not registered"
            assert meaning(name, "mmdet") == meaning(name, "mmseg")


def test_registry_import_is_requested_and_may_not_fail(config):
    assert config.custom_imports == dict(imports=["mmvisattn.registry"], allow_failed_imports=False)
