"""Say in words why a checkpoint does not fit a model."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

_BLOCK = re.compile(r"stages\.(\d+)\.blocks\.(\d+)\.")
_FIRST_PARAMETER = "patch_embed.proj.weight"


def explain_mismatch(
    tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor], optional: Collection[str], archs: Mapping[str, Any]
) -> str | None:
    """Return the most telling difference between a checkpoint and a model, or None if the one fits the other.

    Args:
        tensors: The checkpoint, by our names, with its position tensors resized.
        expected: The model's state dict.
        optional: Names that may be missing on either side.
        archs: The family's architectures by name, with ``depths`` and ``dims``, for advice.

    Example:
        >>> import torch
        >>> blocks = {f"stages.0.blocks.{b}.norm1.bias": torch.zeros(2) for b in range(3)}
        >>> explain_mismatch(blocks, {"stages.0.blocks.0.norm1.bias": torch.zeros(2)}, (), {})
        'the checkpoint has 3 blocks in stage 1, the model 1'
    """
    depths, width = _sizes(tensors)
    advice = "".join(f": use arch='{name}'" for name, arch in archs.items() if _sizes_of_arch(arch) == (depths, width))
    own_depths, own_width = _sizes(expected)
    if len(depths) != len(own_depths):
        return f"the checkpoint has {len(depths)} stages, the model {len(own_depths)}{advice}"
    for stage, (depth, own_depth) in enumerate(zip(depths, own_depths, strict=True), start=1):
        if depth != own_depth:
            return f"the checkpoint has {depth} blocks in stage {stage}, the model {own_depth}{advice}"
    if width != own_width:
        return f"the checkpoint has {width} channels in stage 1, the model {own_width}{advice}"
    for name in sorted(tensors.keys() & expected.keys()):
        if tensors[name].shape != expected[name].shape:
            shapes = f"{tuple(tensors[name].shape)} in the checkpoint and {tuple(expected[name].shape)} in the model"
            return f"'{name}' has the shape {shapes}"
        if tensors[name].is_floating_point() != expected[name].is_floating_point():
            return (
                f"'{name}' is of type {tensors[name].dtype} in the checkpoint and {expected[name].dtype} in the model"
            )
        if not tensors[name].isfinite().all():
            return f"'{name}' holds values in the checkpoint that are not finite"
    for name in sorted(set(optional) & (expected.keys() - tensors.keys())):
        module = name.rpartition(".")[0]
        if given := [other for other in tensors.keys() & expected.keys() if other.rpartition(".")[0] == module]:
            return f"the checkpoint has '{given[0]}' but not '{name}'"
    if missing := sorted(expected.keys() - tensors.keys() - set(optional)):
        return f"the checkpoint lacks {len(missing)} of the model's parameters: {_some(missing)}"
    if surplus := sorted(tensors.keys() - expected.keys() - set(optional)):
        return f"the model lacks {len(surplus)} of the checkpoint's parameters: {_some(surplus)}"
    return None


def _sizes(names: Mapping[str, Tensor]) -> tuple[tuple[int, ...], int | None]:
    blocks = {(int(found[1]), int(found[2])) for name in names if (found := _BLOCK.match(name))}
    stages = sorted({stage for stage, _ in blocks})
    depths = tuple(sum(1 for stage, _ in blocks if stage == wanted) for wanted in stages)
    first = names.get(_FIRST_PARAMETER)
    return depths, None if first is None or first.ndim == 0 else first.shape[0]


def _sizes_of_arch(arch: Any) -> tuple[tuple[int, ...], int | None]:
    return tuple(arch.depths), arch.dims[0]


def _some(names: list[str]) -> str:
    return ", ".join(f"'{name}'" for name in names[:5]) + (", ..." if len(names) > 5 else "")
