import dataclasses
import re

import pytest
import torch

from mmvisattn.backbones.swin import SwinArch
from mmvisattn.checkpoints.load import load_pretrained
from mmvisattn.checkpoints.maps.swin import (
    OFFICIAL,
    OPENMMLAB,
    TIMM,
    TORCHVISION,
    TRANSFORMERS,
    TRANSFORMERS_IN_MEMORY,
)

SOURCES = [OFFICIAL, TIMM, TRANSFORMERS, TRANSFORMERS_IN_MEMORY, TORCHVISION, OPENMMLAB]


@pytest.fixture
def saved(tmp_path):
    def save(content):
        path = str(tmp_path / "weights.pth")
        torch.save(content, path)
        return path

    return save


def snapshot(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def assert_same(state, other):
    assert state.keys() == other.keys()
    assert [name for name in state if not torch.equal(state[name], other[name])] == []


@pytest.mark.parametrize("key_map", SOURCES, ids=lambda key_map: key_map.source)
def test_every_source_is_recognised(key_map, swin, public, saved):
    model = swin()
    state = public(model, key_map)
    before = snapshot(model)
    report = load_pretrained(model, saved(state))
    assert report.source == key_map.source
    assert report.new == ("out_norms.0.weight", "out_norms.0.bias", "out_norms.1.weight", "out_norms.1.bias")
    assert set(report.loaded) | set(report.new) == set(before)
    expected = key_map.convert(state).tensors | {name: before[name] for name in report.new}
    assert_same(model.state_dict(), {name: expected[name] for name in before})


@pytest.mark.parametrize("entry", [None, "state_dict", "model"])
@pytest.mark.parametrize("outer", ["", "module."])
@pytest.mark.parametrize("prefix", ["", "backbone."])
@pytest.mark.parametrize("key_map", [OFFICIAL, OPENMMLAB], ids=lambda key_map: key_map.source)
def test_wrappers_and_prefixes_change_nothing(key_map, prefix, outer, entry, swin, public, saved):
    model = swin()
    state = public(model, key_map)
    content = {outer + prefix + key: tensor for key, tensor in state.items()}
    if prefix:
        content[outer + "decode_head.conv_seg.weight"] = torch.zeros(2)
    report = load_pretrained(model, saved({entry: content} if entry else content))
    assert (report.entry, report.prefix, report.source) == (entry or "", prefix, key_map.source)
    assert report.dropped == ({"decode_head.conv_seg.weight": f"not below '{prefix}'"} if prefix else {})
    assert all(torch.equal(model.state_dict()[name], key_map.convert(state).tensors[name]) for name in report.loaded)


def test_our_own_checkpoint(swin, saved):
    trained, model = swin(), swin(window_size=5)
    torch.nn.init.ones_(trained.out_norms["0"].bias)
    report = load_pretrained(
        model, saved({"state_dict": {"backbone." + k: v for k, v in trained.state_dict().items()}})
    )
    assert report.source == "mmvisattn" and not report.new and not report.dropped
    assert torch.equal(model.out_norms["0"].bias, trained.out_norms["0"].bias)


def test_our_own_checkpoint_with_running_statistics(swin, saved):
    trained, model = swin(norm_cfg={"type": "BN"}), swin(norm_cfg={"type": "BN"})
    trained(torch.rand(2, 3, 32, 32))
    report = load_pretrained(model, saved(trained.state_dict()))
    assert report.source == "mmvisattn" and not report.new and not report.dropped
    assert_same(model.state_dict(), trained.state_dict())


def test_the_report_is_one_line(swin, public, saved):
    state = public(swin(), OFFICIAL)
    state["norm.weight"] = state["head.weight"] = torch.zeros(3)
    for block in ("0.blocks.0", "1.blocks.0", "1.blocks.1"):
        state[f"layers.{block}.attn.relative_position_index"] = torch.zeros(9, 9).long()
    state["layers.1.blocks.1.attn_mask"] = torch.zeros(1)
    state = {"backbone." + key: tensor for key, tensor in state.items()}
    state |= {"neck.convs.0.conv.weight": torch.zeros(2), "roi_head.bbox_head.fc_cls.bias": torch.zeros(2)}
    report = load_pretrained(swin(window_size=4), saved({"model": state}))
    assert str(report) == (
        f"loaded 46/46 tensors from {report.path} (official names, entry 'model', prefix 'backbone.'); "
        "resized: relative_position_bias_table; new, as expected: out_norms.0, out_norms.1; "
        "dropped: attn_mask, backbone.head, backbone.norm, neck, relative_position_index, roi_head"
    )


def test_output_norms_of_a_detector_are_loaded_where_the_model_has_them(swin, public, saved):
    state = public(swin(), OPENMMLAB) | {f"norm{s}.weight": torch.full((8 * 2**s,), 1.0 + s) for s in (0, 1)}
    state |= {f"norm{s}.bias": torch.zeros(8 * 2**s) for s in (0, 1)}
    model = swin(out_indices=(1,))
    report = load_pretrained(model, saved(state))
    assert (model.out_norms["1"].weight == 2).all() and not report.new
    assert report.dropped == dict.fromkeys(["norm0.weight", "norm0.bias"], "the model has no such parameter")


def test_half_precision_is_converted(swin, public, saved):
    model = swin()
    state = public(model, OFFICIAL)
    load_pretrained(model, saved({key: tensor.half() for key, tensor in state.items()}))
    assert model.patch_embed.proj.weight.dtype == torch.float32
    assert torch.equal(model.patch_embed.proj.weight, state["patch_embed.proj.weight"].half().float())


# Swin-S into Swin-T and the like, each a sentence; and nothing is changed.


@pytest.mark.parametrize(
    ("given", "wanted", "message"),
    [
        ({"depths": (1, 5)}, {}, r"the checkpoint has 5 blocks in stage 2, the model 2: use arch='deep'"),
        ({"depths": (1, 4)}, {}, r"the checkpoint has 4 blocks in stage 2, the model 2$"),
        ({"embed_dim": 16}, {}, r"the checkpoint has 16 channels in stage 1, the model 8: use arch='wide'"),
        ({"depths": (1, 2, 1)}, {}, r"the checkpoint has 3 stages, the model 2$"),
        ({}, {"in_channels": 4}, r"'patch_embed.proj.weight' has the shape \(8, 3, 4, 4\) in .* and \(8, 4, 4, 4\)"),
        (
            {"position": "none"},
            {},
            r"the checkpoint lacks 3 of the model's parameters: '.*relative_position_bias_table'",
        ),
        (
            {},
            {"position": "none"},
            r"the model lacks 3 of the checkpoint's parameters: '.*relative_position_bias_table'",
        ),
        ({}, {"position": "relative+absolute"}, r"lacks 1 of the model's parameters: 'absolute_pos_embed'"),
    ],
)
@pytest.mark.parametrize("key_map", [OFFICIAL, TIMM, OPENMMLAB], ids=lambda key_map: key_map.source)
def test_another_architecture(key_map, given, wanted, message, swin, public, saved, monkeypatch):
    model = swin(**wanted)
    archs = {
        "deep": SwinArch(embed_dim=8, depths=(1, 5), num_heads=(2, 2)),
        "wide": SwinArch(embed_dim=16, depths=(1, 2), num_heads=(2, 2)),
    }
    monkeypatch.setattr(type(model), "archs", archs)
    before = snapshot(model)
    with pytest.raises(ValueError, match=r"cannot load '.*weights.pth' into SwinTransformer: .*" + message):
        load_pretrained(model, saved(public(swin(**given), key_map)))
    assert_same(model.state_dict(), before)


# One key changed in a complete file: the message names it, and nothing is changed.


def without(state, key):
    return {name: tensor for name, tensor in state.items() if name != key}


CHANGES = {
    "missing": (without, "the checkpoint lacks 1 of the model's parameters: '{name}'"),
    "misspelt": (lambda state, key: without(state, key) | {key + "s": state[key]}, "does not know 1 key: '{key}s'"),
    "another shape": (
        lambda state, key: state | {key: torch.zeros(7, 5, 3)},
        "'{name}' has the shape (7, 5, 3) in the",
    ),
    "not a number": (lambda state, key: state | {key: state[key] / 0}, "'{name}' holds values in the checkpoint that"),
    "integers": (
        lambda state, key: state | {key: state[key].to(torch.int8)},
        "'{name}' is of type torch.int8 in the checkpoint",
    ),
    "a duplicate": (
        lambda state, key: state | {"backbone." + key: state[key]},
        "does not know 1 key: 'backbone.{key}'",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    "key", ["patch_embed.norm.bias", "layers.1.blocks.1.attn.qkv.weight", "layers.0.downsample.reduction.weight"]
)
def test_one_wrong_key(key, change, swin, public, saved):
    model = swin()
    before = snapshot(model)
    apply, message = CHANGES[change]
    state = apply(public(model, OFFICIAL), key)
    name = next(iter(OFFICIAL.convert({key: torch.zeros(1)}).tensors))
    with pytest.raises(ValueError) as caught:
        load_pretrained(model, saved(state))
    assert message.format(key=key, name=name) in str(caught.value)
    assert_same(model.state_dict(), before)


@pytest.mark.parametrize("shape", [(), (0,), (5,), (1, 1, 1, 1, 1)], ids=str)
def test_any_tensor_of_a_wrong_shape(shape, swin, saved):
    model = swin(position="relative+absolute", pretrain_img_size=16)
    state = model.state_dict()
    one_of_each_kind = {re.sub(r"\d+", "0", name): name for name in state}
    for name in one_of_each_kind.values():
        with pytest.raises(ValueError, match="weights.pth' into SwinTransformer: .*(shape|expected|channels)"):
            load_pretrained(model, saved(state | {name: torch.zeros(shape)}))
        with pytest.raises(RuntimeError, match=f"size mismatch for {name}"):  # torch's own words
            model.load_state_dict(state | {name: torch.zeros(shape)})


def test_a_lost_half_of_an_output_norm(swin, saved):
    model = swin()
    state = without(model.state_dict(), "out_norms.1.bias")
    with pytest.raises(ValueError, match="the checkpoint has 'out_norms.1.weight' but not 'out_norms.1.bias'"):
        load_pretrained(model, saved(state))


def test_a_lost_piece(swin, public, saved):
    model = swin()
    key = "encoder.layers.1.blocks.0.attention.self.key.weight"
    with pytest.raises(ValueError, match=f"but not '{key}'"):
        load_pretrained(model, saved(without(public(model, TRANSFORMERS), key)))


def test_prefix_of_the_callers_choice(swin, public, saved):
    model = swin()
    teacher, student = public(model, OFFICIAL, seed=1), public(model, OFFICIAL, seed=2)
    both = {"t." + key: tensor for key, tensor in teacher.items()} | {"s." + k: v for k, v in student.items()}
    with pytest.raises(ValueError, match=r"several backbones: choose one by prefix=, out of \['s.', 't.'\]"):
        load_pretrained(model, saved(both))
    for prefix, state in (("s.", student), ("t", teacher)):  # with or without the dot
        report = load_pretrained(model, saved(both), prefix=prefix)
        assert report.prefix[0] == prefix[0]
        assert torch.equal(model.patch_embed.proj.weight, state["patch_embed.proj.weight"])
    with pytest.raises(ValueError, match=r"prefix='backbone.' starts no key of the checkpoint; .* with 's.', 't.'"):
        load_pretrained(model, saved(both), prefix="backbone.")


def test_another_family(swin, saved):
    with pytest.raises(
        ValueError, match=r"no table of parameter names fits the checkpoint: .*'conv1.weight'.*also tried"
    ):
        load_pretrained(swin(), saved({"conv1.weight": torch.zeros(2), "layer1.0.conv1.weight": torch.zeros(2)}))


def test_not_a_backbone(saved):
    with pytest.raises(TypeError, match="Linear is not a backbone of mmvisattn"):
        load_pretrained(torch.nn.Linear(2, 2), saved({"weight": torch.zeros(2, 2)}))


def test_subclasses_keep_their_family(swin, public, saved):
    model = swin()

    class Mine(type(model)):
        pass

    model.__class__ = Mine
    assert load_pretrained(model, saved(public(model, TIMM))).source == "timm"


def test_values_are_copied_into_the_same_parameters(swin, public, saved):
    """DDP and optimizers hold the parameters by the time weights are loaded."""
    model = swin()
    before = {name: (id(p), p.data_ptr()) for name, p in model.named_parameters()}
    load_pretrained(model, saved(public(model, OFFICIAL)))
    assert {name: (id(p), p.data_ptr()) for name, p in model.named_parameters()} == before
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_reports_are_data(swin, public, saved):
    report = load_pretrained(swin(), saved(public(swin(), OFFICIAL)), map_location="cpu")
    assert dataclasses.asdict(report)["source"] == "official"
