"""Reading a config file, and the command-line options laid over it."""

import difflib
import inspect
from importlib.util import find_spec
from pathlib import Path

from mmengine.config import Config
from mmengine.runner import Runner
from mmengine.utils import import_modules_from_strings

from mmvisattn.hosts import prepare
from mmvisattn.hosts.input_error import InputError, check_is_file

HOSTS = {"mmdet": "mmdet", "mmseg": "mmsegmentation"}  # default_scope -> name on the package index
REGISTRY = "mmvisattn.registry"

# Top-level keys the Runner reads from the whole config rather than from an argument of its own.
EXTRA_RUNNER_KEYS = {
    "activation_checkpointing",
    "compile",
    "custom_imports",
    "efficient_conv_bn_eval",
    "find_unused_parameters",
    "model_wrapper_cfg",
    "runner_type",
    "sync_bn",
    "tta_model",
    "tta_pipeline",
}


def read_config(
    path: str, options: dict[str, object] | None = None, work_dir: str | None = None, launcher: str = "none"
) -> Config:
    """Read a config, lay options over it, and import ``mmvisattn.registry`` whether or not the config asks for it.

    Args:
        path: The config file.
        options: ``--cfg-options``: dotted key to value.
        work_dir: Where logs and checkpoints go; None = the config's own ``work_dir``, else ``work_dirs/<file name>``.
        launcher: ``'none'``, ``'pytorch'``, ``'slurm'`` or ``'mpi'``.

    Returns:
        The config, with ``work_dir`` and ``launcher`` set.

    Raises:
        InputError: If the file is missing, an option's key is misspelt, ``default_scope`` names no host, or the host is
            not installed.
    """
    check_is_file("config", path)
    prepare()  # before the config is read: its custom_imports may import mmcv's operators
    cfg = Config.fromfile(path)
    if options:
        check_option_keys(cfg, options)
        cfg.merge_from_dict(options)
    check_host(cfg)
    import_registry(cfg)
    cfg.launcher = launcher
    cfg.work_dir = work_dir or cfg.get("work_dir") or str(Path("work_dirs") / Path(path).stem)
    return cfg


def check_host(cfg: Config) -> None:
    """Check that ``default_scope`` names a host and that the host is installed.

    Args:
        cfg: The config.

    Raises:
        InputError: If not.
    """
    scope = cfg.get("default_scope")
    if scope not in HOSTS:
        raise InputError(f"default_scope in the config is {scope!r}; allowed are {' and '.join(map(repr, HOSTS))}.")
    if find_spec(scope) is None:
        raise InputError(
            f"default_scope in the config is '{scope}', but {HOSTS[scope]} is not installed; run tools/doctor.py."
        )


def import_registry(cfg: Config) -> None:
    """Import ``mmvisattn.registry`` and note it in ``cfg.custom_imports``, so that the dumped config runs elsewhere.

    Args:
        cfg: The config; a user's ``custom_imports`` replaces an inherited one, so ours may be lost from it.
    """
    imports = dict(cfg.get("custom_imports") or dict(imports=[], allow_failed_imports=False))
    names = [imports["imports"]] if isinstance(imports["imports"], str) else list(imports["imports"])
    if REGISTRY not in names:
        cfg.custom_imports = {**imports, "imports": [REGISTRY, *names]}
    import_modules_from_strings([REGISTRY], allow_failed_imports=False)


def check_option_keys(cfg: Config, options: dict[str, object]) -> None:
    """Find misspelt keys among ``--cfg-options``, which would otherwise be added to the config and ignored.

    A first part that is neither in the config nor known to the Runner is refused. Below that, options may add keys (an
    argument the config leaves at its default), so a missing group is refused only where a similar one exists; the last
    part is checked by the constructor that receives it.

    Args:
        cfg: The config, before the options are laid over it.
        options: Dotted key to value.

    Raises:
        InputError: If a key is misspelt, with the nearest key that exists.

    Example:
        >>> check_option_keys(Config(dict(train_dataloader=dict(batch_size=2))), {"train_dataloder.batch_size": 4})
        Traceback (most recent call last):
            ...
        mmvisattn.hosts.input_error.InputError: --cfg-options has the key 'train_dataloder.batch_size', but the config
        has no 'train_dataloder'; did you mean 'train_dataloader'?
    """
    runner_keys = set(inspect.signature(Runner.__init__).parameters) - {"self", "cfg"} | EXTRA_RUNNER_KEYS
    for option in options:
        node: object = cfg
        *groups, leaf = option.split(".")
        for depth, key in enumerate(groups or [leaf]):
            if isinstance(node, (list, tuple)) or not hasattr(node, "keys"):
                break  # an index into a list, or a value to be replaced: merge_from_dict checks these
            known = set(node.keys()) | (runner_keys if depth == 0 else set())
            # 0.8 tells a slip ('bakcbone') from a neighbour the config leaves out ('batch_sampler' beside 'sampler')
            similar = difflib.get_close_matches(key, known, n=1, cutoff=0.6 if depth == 0 else 0.8)
            if key not in known and (similar or depth == 0):
                hint = f"; did you mean '{similar[0]}'?" if similar else "."
                raise InputError(f"--cfg-options has the key '{option}', but the config has no '{key}'{hint}")
            node = node.get(key)
