"""Load a public checkpoint into a backbone, and say exactly what was loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
from torch import nn

from mmvisattn.checkpoints.detect import Detected, detect, key_maps_of
from mmvisattn.checkpoints.mismatch import explain_mismatch
from mmvisattn.checkpoints.read import CheckpointError, read_checkpoint
from mmvisattn.checkpoints.resize import fit_positions


@dataclass(frozen=True)
class LoadReport:
    """What a checkpoint gave to a model. ``str(report)`` is one line for the log.

    Attributes:
        path: The file.
        source: Whose parameter names it uses.
        entry: The entry of the file that held the weights; empty if they lay at the top.
        prefix: What stood before the backbone's keys.
        loaded: Names of the parameters that now have the checkpoint's values.
        resized: Names of those among them that were resized.
        new: Names of the parameters that keep their initial values, which is expected of them.
        dropped: Keys of the file that were not used, with the reason.
    """

    path: str
    source: str
    entry: str
    prefix: str
    loaded: tuple[str, ...]
    resized: tuple[str, ...]
    new: tuple[str, ...]
    dropped: dict[str, str]

    def __str__(self) -> str:
        place = "".join(f", {word} '{text}'" for word, text in (("entry", self.entry), ("prefix", self.prefix)) if text)
        line = f"loaded {len(self.loaded)}/{len(self.loaded)} tensors from {self.path} ({self.source} names{place})"
        for word, names in (("resized", self.resized), ("new, as expected", self.new), ("dropped", self.dropped)):
            if names:
                line += f"; {word}: " + ", ".join(sorted({self._kind(name) for name in names}))
        return line

    def _kind(self, name: str) -> str:
        """Shorten 'layers.0.blocks.1.attn_mask' to 'attn_mask', and a name outside the backbone to its first part."""
        parts = name.removesuffix(".weight").removesuffix(".bias").split(".")
        if name in self.dropped and not name.startswith(self.prefix):
            return parts[0]
        return parts[-1] if any(part.isdigit() for part in parts[:-1]) else ".".join(parts)


def load_pretrained(
    model: nn.Module,
    checkpoint: str | os.PathLike[str],
    *,
    prefix: str | None = None,
    map_location: str | torch.device = "cpu",
) -> LoadReport:
    """Load a checkpoint of any known source into a backbone.

    The naming and the place of the backbone in the file are found out, layouts are converted, and relative and
    absolute position tensors are resized to the model's window and image size. Every parameter of the model must be
    given, except those that the source cannot have (output norms, for a classifier's weights), and every key of the
    backbone must be known. Values are copied into the existing parameters, and only when all checks have passed.

    Args:
        model: A backbone of this package.
        checkpoint: A path or an http(s) address, see `mmvisattn.checkpoints.read.read_checkpoint`.
        prefix: What stands before the backbone's keys, such as ``'backbone.'``, with or without the dot; None finds it.
        map_location: Device on which the file is read and converted.

    Returns:
        What was loaded, resized, left as it was, and not used.

    Raises:
        FileNotFoundError: If there is no such file.
        CheckpointError: If the file cannot be read, its naming is unknown, or it does not fit the model.
        TypeError: If the model is not a backbone of this package, or ``checkpoint`` is neither a string nor a path.
    """
    key_maps = key_maps_of(model)
    if prefix and not prefix.endswith("."):
        prefix += "."
    file = read_checkpoint(checkpoint, map_location)
    expected = model.state_dict()
    try:
        detected = detect(file.state, key_maps, expected, prefix)
        tensors, resized = fit_positions(detected.converted.tensors, model)
        optional = {name for name in tensors.keys() | expected.keys() if detected.key_map.is_optional(name)}
        if problem := explain_mismatch(tensors, expected, optional, getattr(model, "archs", {})):
            raise ValueError(problem)
    except ValueError as error:
        raise CheckpointError(f"cannot load '{file.path}' into {type(model).__name__}: {error}") from error
    loaded = tuple(name for name in expected if name in tensors)
    with torch.no_grad():
        for name in loaded:
            expected[name].copy_(tensors[name])
    new = tuple(name for name in expected if name not in tensors)
    return LoadReport(
        path=file.path,
        source=detected.key_map.source,
        entry=file.entry,
        prefix=detected.prefix,
        loaded=loaded,
        resized=tuple(resized),
        new=new,
        dropped=_dropped(detected, set(expected)),
    )


def _dropped(detected: Detected, names: set[str]) -> dict[str, str]:
    converted, prefix = detected.converted, detected.prefix
    dropped = {prefix + key: reason for key, reason in converted.dropped.items()}
    for name in converted.tensors.keys() - names:
        dropped |= {prefix + key: "the model has no such parameter" for key in converted.origin[name]}
    return dropped | {key: f"not below '{prefix}'" for key in detected.outside}
