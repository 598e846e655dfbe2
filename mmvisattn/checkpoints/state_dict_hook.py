"""Accept public checkpoints through ``load_state_dict`` too, as part of a whole detector or segmentor."""

from __future__ import annotations

from collections.abc import MutableMapping

from torch import Tensor, nn

from mmvisattn.checkpoints.detect import detect, key_maps_of
from mmvisattn.checkpoints.resize import fit_positions


def convert_state_dict_in_place(model: nn.Module, state_dict: MutableMapping[str, Tensor], prefix: str) -> None:
    """Give the backbone's part of a state dict our names and layouts, if it has those of a known source.

    For ``_load_from_state_dict`` of a backbone, which torch calls with the state dict of the whole model; this is how
    the hosts load checkpoints of detectors and segmentors. Position tensors are resized as by
    `mmvisattn.checkpoints.load.load_pretrained`. Keys that a source stores and a dense model does not need are
    removed. A state dict in our names stays as it is, so converting twice does no harm. So does one of an unknown
    naming: torch then reports its keys as missing and unexpected.

    Args:
        model: The backbone.
        state_dict: State dict of the whole model; changed in place.
        prefix: What stands before the backbone's keys in it.
    """
    inside = {key[len(prefix) :]: tensor for key, tensor in state_dict.items() if key.startswith(prefix)}
    expected = model.state_dict()
    if {name: tensor.shape for name, tensor in inside.items()} == {name: t.shape for name, t in expected.items()}:
        return
    try:
        detected = detect(inside, key_maps_of(model), expected, prefix="")
        tensors, _ = fit_positions(detected.converted.tensors, model)
    except ValueError:
        return
    for key in inside:
        del state_dict[prefix + key]
    state_dict.update({prefix + name: tensor for name, tensor in tensors.items()})
