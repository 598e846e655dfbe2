import pytest
import torch
from mmengine.runner.checkpoint import load_state_dict
from torch import nn

from mmvisattn.checkpoints.maps.swin import OFFICIAL, OPENMMLAB
from mmvisattn.checkpoints.state_dict_hook import convert_state_dict_in_place


class Detector(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(2, 2)


def full_state(detector, key_map, state):
    state = state | {f"norm{s}.{p}": torch.rand(8 * 2**s) for s in (0, 1) for p in ("weight", "bias")}
    return {"backbone." + key: tensor for key, tensor in state.items()} | {
        "head." + key: tensor for key, tensor in detector.head.state_dict().items()
    }


@pytest.mark.parametrize("key_map", [OFFICIAL, OPENMMLAB], ids=lambda key_map: key_map.source)
def test_a_detector_loads_a_public_checkpoint_strictly(key_map, swin, public):
    """Through load_state_dict, the way of the hosts' load_from."""
    detector = Detector(swin(window_size=4))
    state = full_state(detector, key_map, public(swin(), key_map))
    given = dict(state)
    detector.load_state_dict(state)
    assert state.keys() == given.keys()  # the caller's own dictionary is left alone
    assert torch.equal(detector.backbone.out_norms["1"].bias, given["backbone.norm1.bias"])
    table = detector.backbone.stages[0].blocks[0].token_mixer.relative_position_bias_table
    assert table.shape == (49, 2)


def test_mmengine_loads_a_public_checkpoint_strictly(swin, public):
    """mmengine walks the modules itself; its averaging hook does so with strict=True."""
    detector = Detector(swin())
    state = full_state(detector, OFFICIAL, public(swin(), OFFICIAL))
    state["backbone.layers.0.blocks.0.attn.relative_position_index"] = torch.zeros(9, 9).long()
    load_state_dict(detector, state, strict=True)
    assert torch.equal(detector.backbone.patch_embed.proj.weight, state["backbone.patch_embed.proj.weight"])


def test_in_place_and_twice(swin, public):
    model = swin()
    state = public(model, OFFICIAL)
    expected = OFFICIAL.convert(state).tensors
    state = {"b." + key: tensor for key, tensor in state.items()} | {
        "b.head.bias": torch.zeros(1),
        "other": torch.ones(1),
    }
    for _ in range(2):
        convert_state_dict_in_place(model, state, "b.")
        assert state.keys() == {"b." + name for name in expected} | {"other"}
        assert all(torch.equal(state["b." + name], expected[name]) for name in expected)


def test_our_names_stay_as_they_are(swin):
    model = swin()
    state = {"x." + name: tensor for name, tensor in model.state_dict().items()}
    before = dict(state)
    convert_state_dict_in_place(model, state, "x.")
    assert list(state) == list(before) and all(state[key] is before[key] for key in state)


def test_an_unknown_naming_is_left_to_torch(swin, public):
    detector = Detector(swin())
    state = full_state(detector, OFFICIAL, public(swin(), OFFICIAL))
    state["backbone.layers.0.blocks.0.surprise"] = torch.zeros(1)
    with pytest.raises(RuntimeError, match=r"(?s)Missing key.*Unexpected key.*surprise"):
        detector.load_state_dict(state)


def test_another_depth_is_left_to_torch(swin, public):
    detector = Detector(swin())
    state = full_state(detector, OFFICIAL, public(swin(depths=(1, 3)), OFFICIAL))
    with pytest.raises(RuntimeError, match=r"(?s)Unexpected key.*backbone.stages.1.blocks.2"):
        detector.load_state_dict(state)
