"""Carry out the hosts' ``init_cfg``: pretrained weights and the initialisers of mmengine."""

import importlib
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from mmvisattn.checkpoints.load import load_pretrained

InitConfig = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


def apply_init_cfg(backbone: nn.Module, init_cfg: InitConfig) -> None:
    """Initialise a backbone as its ``init_cfg`` says, one entry after the other.

    Args:
        backbone: The backbone.
        init_cfg: ``dict(type='Pretrained', checkpoint=..., prefix=..., map_location=...)``, any initialiser of
            mmengine such as ``dict(type='TruncNormal', layer='Linear', std=0.02)``, a list of these, or None.
            ``Pretrained`` reads every checkpoint format that this package knows and fails on a partial match.

    Raises:
        ValueError: If a ``Pretrained`` entry has no checkpoint, or its checkpoint does not fit.
        TypeError: If a ``Pretrained`` entry has an unknown option.
    """
    entries = [init_cfg] if isinstance(init_cfg, Mapping) else list(init_cfg or [])
    for entry in entries:
        if entry.get("type") == "Pretrained":
            _load(backbone, entry)
        else:
            importlib.import_module("mmengine.model").initialize(backbone, dict(entry))


def _load(backbone: nn.Module, entry: Mapping[str, Any]) -> None:
    options = {name: value for name, value in entry.items() if name != "type"}
    checkpoint = options.pop("checkpoint", None)
    unknown = set(options) - {"prefix", "map_location"}
    if unknown:
        raise TypeError(f"init_cfg of type 'Pretrained' has no option {sorted(unknown)[0]!r}")
    if not isinstance(checkpoint, str):
        raise ValueError(f"init_cfg of type 'Pretrained' must name a checkpoint, got {checkpoint!r}")
    _log(str(load_pretrained(backbone, checkpoint, **options)))


def _log(message: str) -> None:
    """Write to the log of mmengine where that runs, and to Python's elsewhere."""
    if "mmengine.logging" in sys.modules:
        sys.modules["mmengine.logging"].print_log(message, logger="current")
    else:
        logging.getLogger("mmvisattn").info(message)
