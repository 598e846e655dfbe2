"""The experiment configs that come with this package: where they lie, what they are called, how to take a copy.

In a clone they lie in ``configs/`` beside the package, in an installed wheel inside it. MMEngine resolves
``'mmdet::...'`` bases from a table closed to other packages, so a config of ours is inherited by its path, which
``mmvisattn configs path NAME`` prints, or copied.
"""

import ast
import difflib
import shutil
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
BASES = "_base_"  # the folder of shared parts, and mmengine's word for "inherits from"


def configs_root() -> Path:
    """The folder of the shipped configs.

    Raises:
        FileNotFoundError: If the package was installed without them.
    """
    candidates = (PACKAGE / "configs", PACKAGE.parent / "configs")
    for folder in candidates:
        if (folder / BASES).is_dir():
            return folder
    raise FileNotFoundError(f"no shipped configs in {' or '.join(map(str, candidates))}; reinstall mmvisattn")


def config_names() -> list[str]:
    """Names of all configs that can be trained: ``family/file`` without the suffix, sorted.

    >>> "swin/mask-rcnn_swin-t-p4-w7_fpn_1x_coco" in config_names()
    True
    """
    root = configs_root()
    paths = (path.relative_to(root) for path in root.glob("*/*.py"))
    return sorted(path.with_suffix("").as_posix() for path in paths if path.parts[0] != BASES)


def config_path(name: str) -> Path:
    """Find a shipped config.

    Args:
        name: ``family/file`` or the file name alone, with or without ``.py``.

    Returns:
        Its absolute path.

    Raises:
        ValueError: If there is no config of that name; the message holds the nearest names.
    """
    names = config_names()
    wanted = name.removeprefix("configs/").removesuffix(".py")
    for known in names:
        if wanted in (known, known.split("/")[1]):
            return configs_root() / f"{known}.py"
    files = {known.split("/")[1]: known for known in names}
    near = [files.get(match, match) for match in difflib.get_close_matches(wanted, [*names, *files], n=3)]
    hint = f"did you mean {' or '.join(dict.fromkeys(near))}?" if near else "`mmvisattn configs list` shows all."
    raise ValueError(f"there is no config named {name!r}; {hint}")


def with_bases(config: Path) -> list[Path]:
    """A config and every file it inherits from, the config first, each file once.

    Args:
        config: A config whose bases are relative paths; bases of a host (``'mmdet::...'``) are left out.
    """
    found = [config]
    for path in found:  # grows while it is read
        for base in _base_names(path):
            target = (path.parent / base).resolve()
            if "::" not in base and target not in found:
                found.append(target)
    return found


def _base_names(config: Path) -> list[str]:
    """What a config file writes in ``_base_``."""
    for node in ast.parse(config.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == BASES:
            bases = ast.literal_eval(node.value)
            return [bases] if isinstance(bases, str) else list(bases)
    return []


def copy_config(name: str, folder: Path, overwrite: bool = False) -> Path:
    """Copy a shipped config, with all it inherits from, so that it works by itself.

    Args:
        name: As in :func:`config_path`.
        folder: Where to; made if missing. The files keep their places relative to one another, so several configs
            may be copied to one folder and share their bases.
        overwrite: Whether files that are there already, with other contents, may be replaced.

    Returns:
        Path of the copied config.

    Raises:
        ValueError: If there is no config of that name.
        FileExistsError: If a file would be replaced and ``overwrite`` is false; nothing is copied then.
    """
    root = configs_root()
    sources = with_bases(config_path(name).resolve())
    targets = [folder / source.relative_to(root.resolve()) for source in sources]
    for source, target in zip(sources, targets, strict=True):
        if target.exists() and not overwrite and target.read_bytes() != source.read_bytes():
            raise FileExistsError(f"{target} exists and differs from the shipped file; nothing was copied")
    for source, target in zip(sources, targets, strict=True):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    return targets[0]
