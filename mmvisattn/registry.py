"""The one import that switches everything on, and the table of all that is registered.

A config for MMDetection or MMSegmentation needs one line::

    custom_imports = dict(imports=['mmvisattn.registry'], allow_failed_imports=False)

Importing this module puts the stand-in for mmcv's compiled operators and the checkpoint allow-list in force, and
registers the classes of :data:`REGISTERED` under the scope ``mmvisattn``. They are children of MMEngine's root
registries, so ``type='mmvisattn.SwinTransformer'`` resolves under the default scope of either host, in one process, in
any order; each host alone is enough, and neither is imported here. Names never leave the scope, so nothing can clash
with a host's class of the same name.

To add a class, add one line to the table.
"""

from importlib import import_module

from mmengine import registry as mmengine_registry
from mmengine.registry import Registry

from mmvisattn import hosts

SCOPE = "mmvisattn"


def scoped_child(parent: Registry) -> Registry:
    """The registry of scope ``mmvisattn`` below one of MMEngine's roots, made on the first call.

    Args:
        parent: A root registry of MMEngine.

    Returns:
        Its child; the same object however often this module is loaded.
    """
    if SCOPE in parent.children:
        return parent.children[SCOPE]
    return Registry(parent.name, scope=SCOPE, parent=parent)


MODELS = scoped_child(mmengine_registry.MODELS)
MODEL_WRAPPERS = scoped_child(mmengine_registry.MODEL_WRAPPERS)
HOOKS = scoped_child(mmengine_registry.HOOKS)
OPTIM_WRAPPERS = scoped_child(mmengine_registry.OPTIM_WRAPPERS)
OPTIM_WRAPPER_CONSTRUCTORS = scoped_child(mmengine_registry.OPTIM_WRAPPER_CONSTRUCTORS)

# registry, type name in a config, module that defines it
REGISTERED: tuple[tuple[Registry, str, str], ...] = (
    # backbones
    (MODELS, "SwinTransformer", "mmvisattn.backbones.swin"),
    (MODELS, "SwinTransformerV2", "mmvisattn.backbones.swin_v2"),
    (MODELS, "ConvNeXt", "mmvisattn.backbones.convnext"),
    (MODELS, "ConvNeXtV2", "mmvisattn.backbones.convnext"),
    # training
    (OPTIM_WRAPPER_CONSTRUCTORS, "LayerDecayOptimWrapperConstructor", "mmvisattn.engine.layer_decay"),
    (HOOKS, "ChannelContractHook", "mmvisattn.engine.hooks.channel_contract"),
    (HOOKS, "ExactResume", "mmvisattn.engine.hooks.exact_resume"),
    (HOOKS, "LabelCheck", "mmvisattn.hosts.label_check"),
    (OPTIM_WRAPPERS, "CpuAmpOptimWrapper", "mmvisattn.engine.cpu_amp"),
    (MODEL_WRAPPERS, "CpuDistributedDataParallel", "mmvisattn.hosts.distributed"),
)


def register_all() -> None:
    """Put the hosts' repairs in force and register every row of :data:`REGISTERED` that is not registered yet."""
    hosts.prepare()
    for registry, name, module in REGISTERED:
        if name not in registry.module_dict:
            registry.register_module(name=name, module=getattr(import_module(module), name))


register_all()
