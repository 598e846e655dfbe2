"""Reading MMEngine checkpoints with torch's safe loader, which runs no code from the file.

Since torch 2.6 ``torch.load`` reads with ``weights_only=True`` and refuses every global that is not on its allow-list.
MMEngine 0.10.7 calls ``torch.load`` bare, and its checkpoints name more than tensors: the training log is kept in
``HistoryBuffer`` objects, which pickle as ``getattr(HistoryBuffer, 'mean')`` and NumPy arrays, and a one-cycle schedule
keeps its curve as ``getattr(OneCycleParamScheduler, '_annealing_cos')``. So a checkpoint written by MMEngine can be
neither loaded nor resumed by MMEngine.

:func:`install` adds exactly these globals to torch's list, and ``builtins.getattr`` only as
:func:`mmengine_method`, which hands out four statistics and two curves and nothing else. Switching ``weights_only``
off instead, or allowing the real ``getattr``, would let a checkpoint from the internet run any program.

The maintained fork ``onedl-mmengine`` tries the safe loader first and falls back to ``weights_only=False`` *by itself*
when that fails: there this module makes the first try succeed, but it cannot stop the fork from running the code of a
file that asks for more. Do not open files you do not trust with it.
"""

from collections.abc import Callable

import numpy
import torch
from mmengine.logging import HistoryBuffer
from mmengine.optim import OneCycleParamScheduler

try:
    from numpy._core.multiarray import _reconstruct, scalar
except ImportError:  # NumPy 1
    from numpy.core.multiarray import _reconstruct, scalar

STATISTICS = ("mean", "max", "min", "current")  # what HistoryBuffer.__init__ stores in its pickled state


CURVES = ("_annealing_cos", "_annealing_linear")  # one of them is in the state of a one-cycle schedule
METHODS: dict[type, tuple[str, ...]] = {HistoryBuffer: STATISTICS, OneCycleParamScheduler: CURVES}


def mmengine_method(owner: type, name: str) -> Callable[..., object]:
    """The stand-in for ``builtins.getattr`` inside a checkpoint: one of :data:`METHODS`, nothing else.

    Args:
        owner: The class the file asks for an attribute of.
        name: The attribute it asks for.

    Returns:
        The function of that class with that name.

    Raises:
        ValueError: If the file asks for anything else.
    """
    if not isinstance(owner, type) or name not in METHODS.get(owner, ()):
        allowed = "; ".join(f"{', '.join(names)} of {each.__name__}" for each, names in METHODS.items())
        raise ValueError(f"the checkpoint asks for getattr({owner!r}, {name!r}), but only {allowed} are allowed.")
    return getattr(owner, name)


def allowed_globals() -> list[object]:
    """What MMEngine checkpoints need beyond tensors, as torch's ``add_safe_globals`` takes it.

    NumPy 1 and 2 write the same two functions under different module names; both are accepted under both, so that a
    checkpoint can move between them.
    """
    renamed = [
        (function, f"{module}.{function.__name__}")
        for function in (_reconstruct, scalar)
        for module in ("numpy.core.multiarray", "numpy._core.multiarray")
    ]
    number_types = numpy.typecodes["AllInteger"] + numpy.typecodes["AllFloat"] + "?"
    dtype_classes = dict.fromkeys(type(numpy.dtype(code)) for code in number_types)
    return [
        HistoryBuffer,
        OneCycleParamScheduler,
        (mmengine_method, "builtins.getattr"),
        numpy.ndarray,
        numpy.dtype,
        *renamed,
        *dtype_classes,
    ]


def install() -> None:
    """Add :func:`allowed_globals` to torch's list for this process; calling it again changes nothing."""
    torch.serialization.add_safe_globals(allowed_globals())
