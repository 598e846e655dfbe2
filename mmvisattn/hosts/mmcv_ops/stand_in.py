"""The module object that stands in for ``mmcv._ext``, and how Python comes to import it.

The stand-in is offered by a finder at the end of ``sys.meta_path``: Python asks it only after every ordinary search has
failed, so a compiled ``mmcv._ext`` always wins, and the module that is imported has a real ``__spec__``.
"""

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any, NoReturn

EXTENSION = "mmcv._ext"


def install() -> bool:
    """Offer the stand-in as ``mmcv._ext`` where mmcv has no compiled one.

    Call it before the first import of ``mmcv.ops``; ``mmcv`` itself may be imported before or after. Calling it again
    changes nothing. Nothing is imported here: torchvision and the ops load with ``mmcv.ops``.

    Returns:
        Whether ``mmcv._ext`` is ours. False where a compiled module exists, even a broken one, and without mmcv.
    """
    if EXTENSION not in sys.modules and _FINDER not in sys.meta_path and _mmcv_lacks_extension():
        sys.meta_path.append(_FINDER)
    return is_active()


def is_active() -> bool:
    """Whether ``import mmcv._ext`` gives, or gave, the stand-in."""
    if EXTENSION in sys.modules:
        return isinstance(sys.modules[EXTENSION], StandInModule)
    return _FINDER in sys.meta_path


def provided_ops() -> tuple[str, ...]:
    """Names of the extension functions that the stand-in implements, sorted; any other fails when called.

    Example:
        >>> from mmvisattn.hosts.mmcv_ops import provided_ops
        >>> "roi_align_forward" in provided_ops(), "ball_query_forward" in provided_ops()
        (True, False)
    """
    return tuple(sorted(_provided()))


class StandInModule(ModuleType):
    """``mmcv._ext`` with every function mmcv may ask for: ours, or one that fails when called."""

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        """Stand for an op that is not provided: ``mmcv.ops`` checks at import that each name exists."""
        if name.startswith("__"):
            raise AttributeError(f"module {EXTENSION!r} has no attribute {name!r}")
        return _missing_op(name)


class _StandInLoader(Loader):
    def create_module(self, spec: ModuleSpec) -> StandInModule:
        return StandInModule(spec.name, __doc__)

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(_provided())


class _StandInFinder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != EXTENSION:
            return None
        return ModuleSpec(fullname, _StandInLoader(), origin=__name__)


_FINDER = _StandInFinder()


def _provided() -> dict[str, Callable[..., Any]]:
    # Imported late: the ops need torchvision, which an installation with compiled mmcv ops may lack.
    from mmvisattn.hosts.mmcv_ops.provided import PROVIDED

    return PROVIDED


def _mmcv_lacks_extension() -> bool:
    mmcv = importlib.util.find_spec("mmcv")
    if mmcv is None or mmcv.submodule_search_locations is None:
        return False
    return PathFinder.find_spec(EXTENSION, mmcv.submodule_search_locations) is None


def _missing_op(name: str) -> Callable[..., NoReturn]:
    def fail(*args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"mmcv op {name!r} is not provided without compiled mmcv ops; to compile them, run: {_build_command()}"
        )

    fail.__name__ = name
    return fail


def _build_command() -> str:
    for distribution in ("onedl-mmcv", "mmcv", "mmcv-lite"):
        try:
            release = version(distribution)
        except PackageNotFoundError:
            continue
        source = "mmcv" if distribution == "mmcv-lite" else distribution
        return (
            f"pip uninstall -y {distribution} && MMCV_WITH_OPS=1 pip install --no-build-isolation --no-binary {source} "
            f"{source}=={release}"
        )
    return "MMCV_WITH_OPS=1 pip install --no-build-isolation --no-binary mmcv mmcv"
