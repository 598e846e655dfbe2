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


def dicts_of(node):
    """A node and every dict below it."""
    if isinstance(node, dict):
        yield node
    if isinstance(node, (dict, list, tuple)):
        for value in node.values() if isinstance(node, dict) else node:
            yield from dicts_of(value)


def config_types(config):
    """Every (top-level key, type string) of a config."""
    return {
        (key, node["type"])
        for key, value in config.items()
        if not key.endswith("_dataloader")  # these repeat the pipelines that stand beside them
        for node in dicts_of(value)
        if isinstance(node.get("type"), str)
    } - BARE_ON_PURPOSE


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


def test_a_resize_inside_another_transform_names_its_host(config):
    """RandomResize and RandomChoiceResize would otherwise build the Resize of whichever scope is in force."""
    steps = [step for key, value in config.items() if key.endswith("_pipeline") for step in dicts_of(value)]
    resizes = [step for step in steps if step.get("type") in ("RandomResize", "RandomChoiceResize")]
    assert all(step.get("resize_type") == f"{config.default_scope}.Resize" for step in resizes)


def test_registry_import_is_requested_and_may_not_fail(config):
    assert config.custom_imports == dict(imports=["mmvisattn.registry"], allow_failed_imports=False)


def test_contract_check_runs_under_the_hosts_own_tools(config):
    assert dict(type="mmvisattn.ChannelContractHook") in config.custom_hooks
