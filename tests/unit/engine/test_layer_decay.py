"""Layer decay: the exact scales of the published recipes, and each trainable parameter in exactly one group."""

import pytest
import torch
from mmengine.optim import build_optim_wrapper
from torch import nn

from mmvisattn import registry
from mmvisattn.backbones.swin import SwinTransformer

NANO = dict(embed_dim=8, depths=(1, 2, 3, 1), num_heads=(1, 1, 2, 2))
LR, DECAY = 1e-3, 0.05


class Detector(nn.Module):
    """A backbone with something after it."""

    def __init__(self, **options):
        super().__init__()
        self.backbone = SwinTransformer(NANO, window_size=3, position="relative+absolute", **options)
        self.neck = nn.Conv2d(8, 4, 1)
        self.bbox_head = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))


def groups_of(model, **paramwise):
    assert registry.SCOPE == "mmvisattn"
    config = dict(
        optimizer=dict(type="AdamW", lr=LR, weight_decay=DECAY),
        constructor="mmvisattn.LayerDecayOptimWrapperConstructor",
        paramwise_cfg=paramwise,
    )
    return build_optim_wrapper(model, config).optimizer.param_groups


def by_name(groups):
    return {name: group for group in groups for name in group["param_names"]}


@pytest.mark.parametrize("frozen_stages", [-1, 0, 2, 4])
@pytest.mark.parametrize("decay_type", ["layer_wise", "stage_wise"])
def test_every_trainable_parameter_is_in_exactly_one_group(frozen_stages, decay_type):
    model = Detector(frozen_stages=frozen_stages)
    groups = groups_of(model, decay_rate=0.7, decay_type=decay_type)
    given = [id(parameter) for group in groups for parameter in group["params"]]
    trainable = [id(parameter) for parameter in model.parameters() if parameter.requires_grad]
    assert sorted(given) == sorted(trainable)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for group in groups:
        assert [names[id(parameter)] for parameter in group["params"]] == group["param_names"]


def test_layer_wise_scales():
    found = by_name(groups_of(Detector(), decay_rate=0.7))
    layers = 1 + 2 + 3 + 1
    expected = {
        "backbone.patch_embed.proj.weight": 0,
        "backbone.absolute_pos_embed": 0,
        "backbone.stages.0.blocks.0.mlp.fc1.weight": 1,
        "backbone.stages.1.downsample.reduction.weight": 1,
        "backbone.stages.1.blocks.0.norm1.weight": 2,
        "backbone.stages.2.blocks.2.token_mixer.qkv.bias": 6,
        "backbone.stages.3.downsample.norm.weight": 6,
        "backbone.stages.3.blocks.0.token_mixer.relative_position_bias_table": 7,
        "backbone.out_norms.0.weight": 8,
        "neck.weight": 8,
        "bbox_head.0.bias": 8,
    }
    for name, layer in expected.items():
        assert found[name]["lr"] == pytest.approx(LR * 0.7 ** (layers + 1 - layer), rel=1e-12), name


def test_the_scales_of_a_twelve_block_vit():
    """0.7 ** 13, 0.7 ** 12, 0.7 and 1: embeddings, first block, last block, heads of ViTDet-B."""
    model = Detector()
    model.backbone = SwinTransformer(dict(embed_dim=8, depths=(12,), num_heads=(1,)), window_size=3, out_indices=(0,))
    found = by_name(groups_of(model, decay_rate=0.7))
    scales = [
        found[name]["lr_scale"]
        for name in (
            "backbone.patch_embed.proj.weight",
            "backbone.stages.0.blocks.0.norm1.weight",
            "backbone.stages.0.blocks.11.norm1.weight",
            "neck.weight",
        )
    ]
    assert scales == pytest.approx([0.00969, 0.01384, 0.7, 1.0], abs=5e-6)


@pytest.mark.parametrize(
    ("num_layers", "scales"), [(12, [0.254, 0.282, 0.314, 0.349, 0.387]), (6, [0.478, 0.531, 0.590, 0.656, 0.729])]
)
def test_stage_wise_scales_are_those_of_convnext(num_layers, scales):
    found = by_name(groups_of(Detector(), decay_rate=0.9, decay_type="stage_wise", num_layers=num_layers))
    names = ["backbone.patch_embed.proj.weight"] + [f"backbone.stages.{s}.blocks.0.mlp.fc1.weight" for s in range(4)]
    assert [found[name]["lr_scale"] for name in names] == pytest.approx(scales, abs=5e-4)
    assert found["backbone.stages.2.downsample.reduction.weight"]["lr_scale"] == pytest.approx(scales[0], abs=5e-4)
    assert found["neck.weight"]["lr_scale"] == found["backbone.out_norms.0.weight"]["lr_scale"] == 1


def test_what_is_spared_weight_decay():
    found = by_name(groups_of(Detector(), decay_rate=0.9))
    spared = ("bias", "relative_position_bias_table", "absolute_pos_embed")
    for name, group in found.items():
        norm = "norm" in name or name.startswith("bbox_head.1")
        assert group["weight_decay"] == (0.0 if norm or name.endswith(spared) else DECAY), name


def test_custom_keys_multiply_the_rate_and_replace_the_decay():
    custom = {
        "backbone": dict(lr_mult=0.1),
        "backbone.patch_embed": dict(lr_mult=2.0),
        "pos_embed": dict(decay_mult=1.0),
    }
    plain = by_name(groups_of(Detector(), decay_rate=0.5))
    found = by_name(groups_of(Detector(), decay_rate=0.5, custom_keys=custom))
    for name, factor in {
        "backbone.stages.0.blocks.0.mlp.fc1.weight": 0.1,
        "backbone.patch_embed.proj.weight": 2.0,  # the longest key wins
        "neck.weight": 1.0,
    }.items():
        assert found[name]["lr"] == pytest.approx(plain[name]["lr"] * factor)
    assert found["backbone.absolute_pos_embed"]["weight_decay"] == DECAY


def test_mmpretrain_spelling():
    first = by_name(groups_of(Detector(), decay_rate=0.6))
    second = by_name(groups_of(Detector(), layer_decay_rate=0.6))
    assert {name: group["lr"] for name, group in first.items()} == {name: group["lr"] for name, group in second.items()}


def test_without_options_only_the_weight_decay_rules_hold():
    groups = groups_of(Detector())
    assert {(group["lr"], group["weight_decay"]) for group in groups} == {(LR, 0.0), (LR, DECAY)}


def test_a_backbone_alone():
    backbone = Detector().backbone
    assert len(by_name(groups_of(backbone, decay_rate=0.9))) == len(list(backbone.parameters()))


def test_the_groups_take_a_step():
    model = Detector()
    wrapper_groups = groups_of(model, decay_rate=0.9)
    optimizer = torch.optim.AdamW(wrapper_groups)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    sum(features.sum() for features in model.backbone(torch.rand(1, 3, 32, 32))).backward()
    optimizer.step()
    moved = [name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])]
    assert "backbone.patch_embed.proj.weight" in moved


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(decay_rates=0.7), "unknown option 'decay_rates'"),
        (dict(decay_rate=1.7), r"decay_rate must be in \(0, 1\], got 1.7"),
        (dict(decay_rate="0.7"), r"decay_rate must be in \(0, 1\], got '0.7'"),
        (dict(decay_rate=0.7, layer_decay_rate=0.9), "two names of one option"),
        (
            dict(custom_keys={"norm": dict(lr_mul=0.1)}),
            r"custom_keys\['norm'\] must give numbers for lr_mult, decay_mult",
        ),
        (dict(custom_keys={"norm": dict(lr_mult="0.1")}), r"custom_keys\['norm'\] must give numbers"),
        (dict(decay_type="blockwise"), "decay_type must be one of"),
        (
            dict(decay_rate=0.9, num_layers=12),
            "num_layers must be 7 for layer_wise decay of this SwinTransformer, got 12",
        ),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        groups_of(Detector(), **options)


def test_a_backbone_that_does_not_tell_its_layers():
    model = nn.Module()
    model.backbone = nn.Conv2d(3, 3, 1)
    with pytest.raises(ValueError, match="needs a backbone with parameter_depth, got Conv2d"):
        groups_of(model, decay_rate=0.9)
