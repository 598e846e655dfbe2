import copy
import logging
import pickle

import pytest
import torch
from torch import nn

from mmvisattn.backbones.base import check_out_indices
from mmvisattn.backbones.swin import SwinTransformer

NANO = dict(embed_dim=8, depths=(2, 1, 3), num_heads=(1, 2, 2))


def swin(**options):
    return SwinTransformer(NANO, **{"window_size": 3, "out_indices": (0, 1, 2), **options})


@pytest.mark.parametrize(("given", "meant"), [((0, 1, 2), (0, 1, 2)), ([1, -1], (1, 2)), (-1, (2,)), (0, (0,))])
def test_out_indices(given, meant):
    backbone = swin(out_indices=given)
    assert backbone.out_indices == meant
    assert backbone.out_channels == tuple((8, 16, 32)[index] for index in meant)
    assert backbone.out_strides == tuple((4, 8, 16)[index] for index in meant)
    assert set(backbone.out_norms) == {str(index) for index in meant}
    assert len(backbone(torch.zeros(1, 3, 8, 8))) == len(meant)


@pytest.mark.parametrize("given", [(), (0, 0), (1, 0), (0, 3), (-4,), (2, -1)])
def test_out_indices_out_of_order_or_range(given):
    with pytest.raises(ValueError, match="out_indices must be rising and without repetition, from -3 to 2"):
        check_out_indices(given, 3)


@pytest.mark.parametrize("frozen_stages", [-2, 4])
def test_frozen_stages_out_of_range(frozen_stages):
    with pytest.raises(ValueError, match="frozen_stages must be from -1 to 3"):
        swin(frozen_stages=frozen_stages)


def test_train_and_eval_return_the_backbone():
    backbone = swin()
    assert backbone.train() is backbone and backbone.eval() is backbone


def test_frozen_parts_stay_as_they_are_in_training():
    backbone = swin(frozen_stages=1, drop_path_rate=0.5, position="relative+absolute").train()
    for part in (backbone.patch_embed, backbone.stages[0], backbone.out_norms["0"], backbone.stages[1].downsample):
        assert not any(module.training for module in part.modules())
        assert not any(parameter.requires_grad for parameter in part.parameters())
    assert not backbone.absolute_pos_embed.requires_grad
    assert backbone.stages[1].blocks.training and backbone.stages[2].training
    image = torch.randn(16, 3, 16, 16)
    first, *later = zip(backbone(image), backbone(image), strict=True)
    assert torch.equal(*first), "drop path must be off in a frozen stage"
    assert not any(torch.equal(*pair) for pair in later)


@pytest.mark.parametrize(
    ("frozen_stages", "out_indices"), [(1, (0, 1, 2)), (1, (0, 1)), (-1, (0,)), (-1, (1,)), (-1, (0, 2)), (0, (0, 1))]
)
def test_gradients_reach_all_that_is_not_frozen(frozen_stages, out_indices):
    """DDP fails on a parameter that asks for a gradient and gets none."""
    backbone = swin(frozen_stages=frozen_stages, out_indices=out_indices)
    sum(features.square().sum() for features in backbone(torch.randn(2, 3, 20, 28))).backward()
    for name, parameter in backbone.named_parameters():
        assert (parameter.grad is not None) == parameter.requires_grad, name
    frozen = any(not parameter.requires_grad for parameter in backbone.parameters())
    assert frozen == (frozen_stages >= 0 or out_indices[-1] < 2)


def test_levels_after_the_last_returned_one_do_not_run():
    backbone = swin(out_indices=(0, 1))
    backbone.stages[2].register_forward_pre_hook(lambda *_: pytest.fail("the last stage ran"))
    backbone.stages[1].register_forward_pre_hook(lambda *_: ran.append(1))
    ran = []
    assert len(backbone(torch.randn(1, 3, 16, 16))) == 2 and ran


def test_norm_eval_keeps_running_statistics():
    image = torch.randn(2, 3, 16, 16)
    for norm_eval in (False, True):
        backbone = swin(norm_cfg=dict(type="BN"), norm_eval=norm_eval).train()
        before = backbone.out_norms["0"].norm.running_mean.clone()
        backbone(image)
        assert torch.equal(before, backbone.out_norms["0"].norm.running_mean) == norm_eval
        assert backbone.out_norms["0"].norm.weight.requires_grad


def test_copies_and_pickles_give_the_same_features():
    backbone = swin(frozen_stages=1, init_cfg=dict(type="Pretrained", checkpoint="x.pth")).eval()
    image = torch.randn(1, 3, 16, 16)
    for twin in (copy.deepcopy(backbone), pickle.loads(pickle.dumps(backbone))):
        assert all(map(torch.equal, backbone(image), twin(image)))
        assert twin.init_cfg == backbone.init_cfg
        for part in twin.frozen_parts():
            assert not any(p.requires_grad for p in ([part] if isinstance(part, nn.Parameter) else part.parameters()))
        twin.patch_embed.proj.weight.data.add_(1)
    assert not torch.equal(backbone.patch_embed.proj.weight, twin.patch_embed.proj.weight)


def test_state_dict_round_trip_holds_parameters_only():
    backbone, other = swin(), swin()
    assert set(backbone.state_dict()) == {name for name, _ in backbone.named_parameters()}
    other.load_state_dict(backbone.state_dict())
    image = torch.randn(1, 3, 16, 16)
    assert all(map(torch.equal, backbone.eval()(image), other.eval()(image)))


def test_load_state_dict_reports_what_does_not_fit():
    state = swin().state_dict()
    del state["stages.0.blocks.0.mlp.fc1.bias"]
    state["stages.0.blocks.0.mlp.fc3.bias"] = torch.zeros(1)
    with pytest.raises(RuntimeError, match="(?s)Missing key.*mlp.fc1.bias.*Unexpected key.*mlp.fc3.bias"):
        swin().load_state_dict(state)


def test_public_checkpoint_as_part_of_a_larger_model():
    official = {}
    for name, tensor in swin().state_dict().items():
        name = name.replace("token_mixer", "attn").replace("stages", "layers")
        stage = int(name.split(".")[1]) if name.startswith("layers") else 0
        name = name.replace(f"layers.{stage}.downsample", f"layers.{stage - 1}.downsample")
        official[name.replace("out_norms.", "norm")] = tensor
    detector = nn.ModuleDict({"backbone": swin()})
    detector.load_state_dict({f"backbone.{name}": tensor for name, tensor in official.items()})
    expected = official["layers.0.downsample.reduction.weight"]
    assert torch.equal(detector["backbone"].stages[1].downsample.reduction.weight, expected)


def test_pretrained_weights_are_loaded_and_reported(tmp_path, caplog, monkeypatch):
    source = swin()
    torch.save({"state_dict": {f"backbone.{k}": v for k, v in source.state_dict().items()}}, tmp_path / "weights.pth")
    backbone = swin(init_cfg=dict(type="Pretrained", checkpoint=str(tmp_path / "weights.pth"), prefix="backbone."))
    monkeypatch.delitem(__import__("sys").modules, "mmengine.logging", raising=False)
    with caplog.at_level(logging.INFO, logger="mmvisattn"):
        backbone.init_weights()
    assert all(map(torch.equal, source.parameters(), backbone.parameters()))
    assert "weights.pth" in caplog.text


def test_initialisers_of_mmengine_come_after_the_familys_own():
    backbone = swin(
        init_cfg=[dict(type="Constant", layer="Linear", val=3.0), dict(type="Constant", layer="Conv2d", val=2.0)]
    )
    backbone.init_weights()
    assert (backbone.stages[0].blocks[0].mlp.fc1.weight == 3).all() and (backbone.patch_embed.proj.weight == 2).all()
    assert (backbone.out_norms["0"].weight == 1).all()


@pytest.mark.parametrize(
    ("init_cfg", "error", "message"),
    [
        (dict(type="Pretrained"), ValueError, "must name a checkpoint, got None"),
        (dict(type="Pretrained", checkpoint="x.pth", prefx="backbone."), TypeError, "no option 'prefx'"),
        (dict(type="Pretrained", checkpoint="/does/not/exist.pth"), FileNotFoundError, "exist.pth"),
    ],
)
def test_bad_init_cfg(init_cfg, error, message):
    with pytest.raises(error, match=message):
        swin(init_cfg=init_cfg).init_weights()


def test_layer_ids():
    backbone = swin(position="absolute")
    ids = {name: backbone.parameter_depth(name) for name, _ in backbone.named_parameters()}
    assert backbone.num_decay_layers == 6
    assert ids["absolute_pos_embed"] == ids["patch_embed.proj.weight"] == ids["patch_embed.norm.bias"] == 0
    first = {name.rsplit(".norm1", 1)[0]: depth for name, depth in ids.items() if name.endswith("norm1.weight")}
    assert list(first.values()) == [1, 2, 3, 4, 5, 6]
    assert ids["stages.1.downsample.reduction.weight"] == 2 and ids["stages.2.downsample.norm.weight"] == 3
    assert {ids[f"out_norms.{index}.weight"] for index in range(3)} == {7}


def test_stage_wise_layer_ids():
    backbone = swin()
    depth = {name: backbone.parameter_depth(name, "stage_wise") for name, _ in backbone.named_parameters()}
    assert depth["patch_embed.proj.weight"] == depth["stages.2.downsample.reduction.weight"] == 0
    assert [depth[f"stages.{stage}.blocks.0.norm1.weight"] for stage in range(3)] == [1, 2, 3]
    assert depth["out_norms.2.bias"] == 7


def test_no_weight_decay_spares_all_but_matrices():
    backbone = swin(position="relative+absolute")
    spared = backbone.no_weight_decay()
    decayed = {name for name, _ in backbone.named_parameters()} - spared
    assert {name.rsplit(".", 2)[-2] for name in decayed} == {"proj", "qkv", "fc1", "fc2", "reduction"}
    assert all(name.endswith(".weight") for name in decayed)
    assert {"absolute_pos_embed", "stages.2.blocks.1.token_mixer.relative_position_bias_table"} <= spared
