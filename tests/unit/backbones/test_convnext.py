import copy
import pickle

import pytest
import torch
from torch import nn

from mmvisattn.backbones.convnext import CONVNEXT_ARCHS, CONVNEXT_V2_ARCHS, ConvNeXt, ConvNeXtArch, ConvNeXtV2
from mmvisattn.checkpoints.load import load_pretrained

NANO = dict(depths=(1, 2, 2, 1), channels=(8, 12, 16, 20))
VERSIONS = pytest.mark.parametrize("version", [ConvNeXt, ConvNeXtV2])


def convnext(version=ConvNeXt, arch=NANO, **options):
    torch.manual_seed(0)
    return version(arch, **options)


def trained(backbone):
    """Give weight to the branches, which start with a scale of 1e-6, and to global response normalisation."""
    with torch.no_grad():
        for name, parameter in backbone.named_parameters():
            if name.endswith(("gamma", "beta")):
                parameter.normal_(0.5, 0.2)
    return backbone


# Published sizes in millions, classifier included: model zoos of github.com/facebookresearch/ConvNeXt and ConvNeXt-V2.
@pytest.mark.parametrize(
    ("version", "arch", "published"),
    [
        (ConvNeXt, "tiny", 28.6),
        (ConvNeXt, "small", 50.2),
        (ConvNeXt, "base", 88.6),
        (ConvNeXt, "large", 197.8),
        (ConvNeXt, "xlarge", 350.2),
        (ConvNeXtV2, "atto", 3.7),
        (ConvNeXtV2, "femto", 5.2),
        (ConvNeXtV2, "pico", 9.1),
        (ConvNeXtV2, "nano", 15.6),
        (ConvNeXtV2, "tiny", 28.6),
        (ConvNeXtV2, "base", 88.7),
        (ConvNeXtV2, "large", 198.0),
        (ConvNeXtV2, "huge", 660),
    ],
)
def test_parameter_counts_are_the_published_ones(version, arch, published):
    with torch.device("meta"):
        backbone = version(arch, out_indices=(3,))  # one norm, as in the classifier
    classifier = 1000 * backbone.out_channels[-1] + 1000
    total = sum(parameter.numel() for parameter in backbone.parameters()) + classifier
    assert round(total / 1e6, 0 if arch == "huge" else 1) == published


@pytest.mark.parametrize(
    ("version", "arch"),
    [*((ConvNeXt, name) for name in CONVNEXT_ARCHS), *((ConvNeXtV2, name) for name in CONVNEXT_V2_ARCHS)],
)
def test_builds_and_runs_on_the_meta_device(version, arch):
    with torch.device("meta"):
        backbone = version(arch)
        features = backbone(torch.empty(2, 3, 100, 333))
    sizes = [(25, 83), (12, 41), (6, 20), (3, 10)]
    assert [tuple(f.shape) for f in features] == [
        (2, dim, *size) for dim, size in zip(CONVNEXT_ARCHS[arch].channels, sizes, strict=True)
    ]


def test_v2_has_the_published_sizes():
    assert list(CONVNEXT_V2_ARCHS) == ["atto", "femto", "pico", "nano", "tiny", "base", "large", "huge"]


@pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 45), (83, 129), (32, 32), (64, 31)])
@VERSIONS
def test_any_size_gives_maps_rounded_down_and_finite_gradients(version, height, width):
    backbone = trained(convnext(version))
    features = backbone(torch.rand(2, 3, height, width))
    for index, stride in enumerate((4, 8, 16, 32)):
        size = max(1, height // stride), max(1, width // stride)
        assert features[index].shape == (2, NANO["channels"][index], *size)
        assert features[index].is_contiguous()
    sum(f.square().sum() for f in features).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in backbone.parameters())


def test_number_of_image_channels():
    backbone = convnext(in_channels=4)
    assert backbone(torch.rand(1, 4, 16, 16))[0].shape == (1, 8, 4, 4)
    with pytest.raises(ValueError, match=r"\(B, 4, H, W\).*set by in_channels"):
        backbone(torch.rand(1, 3, 16, 16))


def test_contract():
    backbone = convnext(out_indices=(1, -1))
    assert backbone.out_indices == (1, 3)
    assert (backbone.out_channels, backbone.out_strides) == ((12, 20), (8, 32))
    assert set(backbone.out_norms) == {"1", "3"}


@VERSIONS
def test_one_image_does_not_change_another(version):
    backbone, images = trained(convnext(version)).double().eval(), torch.rand(3, 3, 42, 60, dtype=torch.float64)
    for features, feature in zip(backbone(images), backbone(images[1:2]), strict=True):
        torch.testing.assert_close(features[1:2], feature, rtol=1e-10, atol=1e-10)


def test_a_block_written_out():
    """Section 2 and figure 4 of the first paper, on channels-first tensors, and section 3 of the second."""
    for version in (ConvNeXt, ConvNeXtV2):
        block, x = trained(convnext(version)).double().stages[0].blocks[0], torch.rand(2, 9, 8, 8).double()
        y = nn.functional.conv2d(
            x.permute(0, 3, 1, 2), block.token_mixer.weight, block.token_mixer.bias, padding=3, groups=8
        )
        mean, variance = y.mean(1, keepdim=True), y.var(1, keepdim=True, correction=0)
        y = (y - mean) / (variance + 1e-6).sqrt()
        y = y * block.norm.weight[:, None, None] + block.norm.bias[:, None, None]
        y = nn.functional.gelu(nn.functional.conv2d(y, block.mlp.fc1.weight[:, :, None, None], block.mlp.fc1.bias))
        if version is ConvNeXtV2:
            response = y.square().sum((2, 3), keepdim=True).sqrt()
            grn, gamma, beta = block.mlp.grn, block.mlp.grn.gamma[:, None, None], block.mlp.grn.beta[:, None, None]
            y = gamma * (y * response / (response.mean(1, keepdim=True) + 1e-6)) + beta + y
            assert set(grn.state_dict()) == {"gamma", "beta"}
        y = nn.functional.conv2d(y, block.mlp.fc2.weight[:, :, None, None], block.mlp.fc2.bias)
        if version is ConvNeXt:
            y = y * block.gamma[:, None, None]
        torch.testing.assert_close(block(x), x + y.permute(0, 2, 3, 1), rtol=1e-10, atol=1e-10)


@VERSIONS
def test_initial_values(version):
    backbone = convnext(version, dict(depths=(1, 1, 1, 1), channels=(32, 32, 32, 32)))
    for name, parameter in backbone.named_parameters():
        leaf, owner = name.split(".")[-1], name.split(".")[-2]
        if leaf in ("bias", "beta") or owner == "grn":
            assert (parameter == 0).all(), name
        elif leaf == "gamma":
            assert (parameter == 1e-6).all(), name
        elif owner == "norm" or name.startswith("out_norms"):
            assert (parameter == 1).all(), name
        else:
            # normal with deviation 0.02; the smallest tensor has 1536 values: ten deviations of its deviation
            assert parameter.std().item() == pytest.approx(0.02, rel=0.2), name


def test_layer_scale():
    assert (convnext(layer_scale_init_value=1.0).stages[1].blocks[0].gamma == 1).all()
    for backbone in (convnext(layer_scale_init_value=0.0), convnext(ConvNeXtV2)):
        assert not any(name.endswith("blocks.0.gamma") for name in backbone.state_dict())
    both = convnext(ConvNeXtV2, layer_scale_init_value=1e-6)
    assert {"stages.0.blocks.0.gamma", "stages.0.blocks.0.mlp.grn.gamma"} <= set(both.state_dict())


@pytest.mark.parametrize("norm", [dict(type="LN"), dict(type="BN"), dict(type="GN", num_groups=2)])
@VERSIONS
def test_init_weights_gives_new_values_to_everything(version, norm):
    backbone = convnext(version, norm_cfg=norm)
    for parameter in backbone.parameters():
        nn.init.constant_(parameter, 7.0)
    backbone.init_weights()
    assert not any((parameter == 7).any() for parameter in backbone.parameters())


def test_drop_path_rises_over_all_blocks():
    rates = [block.drop_path.rate for stage in convnext(drop_path_rate=0.5).stages for block in stage.blocks]
    assert rates == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5])


# The rule of the official layer decay: 6 layers for three blocks of the third stage at a time, 12 for 27 blocks; with
# the downsampling before it in the second stage's layer, that before the third stage in layer 3, and the last in N.
@pytest.mark.parametrize(("arch", "layers"), [("tiny", 6), ("small", 12), ("base", 12), ("atto", 5), ("nano", 6)])
def test_layer_wise_ids(arch, layers):
    with torch.device("meta"):
        backbone = ConvNeXt(arch)
    depth = {name: backbone.parameter_depth(name) for name, _ in backbone.named_parameters()}
    assert backbone.num_decay_layers == layers
    assert depth["patch_embed.proj.weight"] == depth["patch_embed.norm.bias"] == 0
    assert [depth[f"stages.{s}.downsample.conv.weight"] for s in (1, 2, 3)] == [2, 3, layers]
    assert [depth[f"stages.{s}.blocks.0.gamma"] for s in (0, 1, 3)] == [1, 2, layers]
    blocks = CONVNEXT_ARCHS[arch].depths[2]
    assert [depth[f"stages.2.blocks.{b}.norm.weight"] for b in range(blocks)] == [3 + b // 3 for b in range(blocks)]
    assert max(depth[f"stages.2.blocks.{b}.norm.weight"] for b in range(blocks)) < layers
    assert {depth[f"out_norms.{s}.weight"] for s in range(4)} == {layers + 1}


# Learning-rate factors of the official configs, decay 0.9, from the lowest to the highest.
@pytest.mark.parametrize(
    ("arch", "published"),
    [("small", [0.254, 0.282, 0.314, 0.349, 0.387, 1.0]), ("tiny", [0.478, 0.531, 0.590, 0.656, 0.729, 1.0])],
)
def test_stage_wise_factors(arch, published):
    with torch.device("meta"):
        backbone = ConvNeXt(arch)
    depth = {name: backbone.parameter_depth(name, "stage_wise") for name, _ in backbone.named_parameters()}
    factors = {0.9 ** (backbone.num_decay_layers + 1 - layer) for layer in depth.values()}
    assert sorted(factors) == pytest.approx(published, abs=6e-4)
    assert depth["stages.3.downsample.conv.weight"] == depth["patch_embed.proj.weight"] == 0
    assert [depth[f"stages.{s}.blocks.0.gamma"] for s in range(4)] == [1, 2, 3, 4]


def test_no_weight_decay():
    backbone = convnext(ConvNeXtV2, layer_scale_init_value=1.0)
    decayed = {name for name, _ in backbone.named_parameters()} - backbone.no_weight_decay()
    assert {name.rsplit(".", 2)[-2] for name in decayed} == {"proj", "token_mixer", "fc1", "fc2", "conv"}
    assert all(name.endswith(".weight") for name in decayed)


@pytest.mark.parametrize("frozen_stages", [-1, 0, 1, 4])
def test_frozen_parts(frozen_stages):
    backbone = convnext(frozen_stages=frozen_stages, drop_path_rate=0.5)
    expected = ("patch_embed",) if frozen_stages >= 0 else ()
    for stage in range(frozen_stages):
        expected += (f"stages.{stage}.", f"out_norms.{stage}.")
    for mode in (True, False):  # also before the first call of train()
        frozen = {name for name, p in backbone.named_parameters() if not p.requires_grad}
        assert frozen == {name for name, _ in backbone.named_parameters() if expected and name.startswith(expected)}
        backbone.train(mode)
    backbone.train()
    assert not any(backbone.stages[stage].training for stage in range(frozen_stages))


@pytest.mark.parametrize("frozen_stages", [-1, 1])
@VERSIONS
def test_recomputation_gives_the_same_gradients_without_warnings(version, frozen_stages, check_recomputation):
    options = dict(frozen_stages=frozen_stages, drop_path_rate=0.5)
    check_recomputation(lambda with_cp: trained(convnext(version, with_cp=with_cp, **options)), size=(38, 46))


@VERSIONS
def test_copies_pickles_and_state_dicts_give_the_same_features(version):
    backbone, image = trained(convnext(version)).eval(), torch.randn(1, 3, 32, 40)
    other = version(NANO).eval()
    other.load_state_dict(backbone.state_dict())
    for twin in (copy.deepcopy(backbone), pickle.loads(pickle.dumps(backbone)), other):
        assert all(map(torch.equal, backbone(image), twin(image)))
    assert set(backbone.state_dict()) == {name for name, _ in backbone.named_parameters()}


@VERSIONS
def test_a_detectors_checkpoint_gives_all_weights(version, tmp_path):
    source, path = trained(convnext(version)), str(tmp_path / "detector.pth")
    torch.save({"state_dict": {f"backbone.{name}": value for name, value in source.state_dict().items()}}, path)
    backbone = convnext(version)
    report = load_pretrained(backbone, path)
    assert set(report.loaded) == set(backbone.state_dict()) and not report.dropped
    assert all(map(torch.equal, source.parameters(), backbone.parameters()))


def test_weights_of_another_version_or_size_are_refused(tmp_path):
    torch.save(convnext().state_dict(), tmp_path / "v1.pth")
    with pytest.raises(ValueError, match="into ConvNeXtV2: .*lacks 12 of the model's parameters: .*grn"):
        load_pretrained(convnext(ConvNeXtV2), str(tmp_path / "v1.pth"))
    with pytest.raises(ValueError, match="2 blocks in stage 2, the model 3"):
        load_pretrained(convnext(arch=dict(NANO, depths=(1, 3, 2, 1))), str(tmp_path / "v1.pth"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@VERSIONS
def test_half_precision(version, dtype, check_half_precision):
    # up to 6 blocks with about 10 roundings each
    check_half_precision(trained(convnext(version)), (42, 57), dtype, roundings=60)


def test_response_norms_do_not_overflow_in_half_precision():
    """The sum of squares of a map of 64 x 64 tokens of size 10 is 4e5, beyond float16."""
    backbone = trained(convnext(ConvNeXtV2)).half()
    grn = backbone.stages[0].blocks[0].mlp.grn
    x = torch.full((1, 64, 64, 32), 10.0, dtype=torch.float16, requires_grad=True)
    y = grn(x)
    y.float().mean().backward()
    assert y.isfinite().all() and x.grad.isfinite().all()


def test_batch_norms_instead_of_layer_norms():
    backbone = convnext(norm_cfg=dict(type="BN"), norm_eval=True).train()
    before = backbone.patch_embed.norm.norm.running_mean.clone()
    backbone(torch.rand(2, 3, 64, 64))
    assert torch.equal(before, backbone.patch_embed.norm.norm.running_mean)


@VERSIONS
def test_compiles_for_changing_sizes(version):
    arch = dict(depths=(1, 1, 1, 1), channels=(4, 8, 8, 8))
    backbone = trained(convnext(version, arch, out_indices=(1, 3))).double().eval()
    compiled = torch.compile(backbone, backend="aot_eager", dynamic=True, fullgraph=True)
    for height, width in [(64, 96), (77, 130)]:
        image = torch.rand(1, 3, height, width, dtype=torch.float64)
        for ours, expected in zip(compiled(image), backbone(image), strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("version", "options", "error", "message"),
    [
        (ConvNeXt, dict(layer_scale_init=1.0, layer_scale_init_value=1.0), TypeError, "two names of one option"),
        (ConvNeXt, dict(layer_scale_init_valu=1.0), TypeError, "did you mean 'layer_scale_init_value'"),
        (ConvNeXt, dict(layer_scale_init_value=-1.0), ValueError, "layer_scale_init_value must be at least 0"),
        (ConvNeXt, dict(arch="tinny"), ValueError, "did you mean 'tiny'"),
        (ConvNeXtV2, dict(arch="small"), ValueError, "arch must be one of .*got 'small'"),
        (ConvNeXtV2, dict(use_grn=False), ValueError, "use_grn must be True in ConvNeXtV2"),
        (ConvNeXt, dict(arch=dict(depths=(1, 1), channels=(8, 8))), ValueError, "depths must be 4 positive integers"),
        (ConvNeXt, dict(gap_before_final_norm=True), ValueError, "gap_before_final_norm must be False, got True"),
        (ConvNeXt, dict(drop_path_rate=1.0), ValueError, "drop_path_rate must be in"),
        (ConvNeXt, dict(pretrained="convnext.pth"), ValueError, "init_cfg=dict"),
    ],
)
def test_bad_options(version, options, error, message):
    with torch.device("meta"), pytest.raises(error, match=message):
        version(**options)


def test_architecture_as_a_value():
    backbone = convnext(arch=ConvNeXtArch(**NANO, patch_size=2))
    assert backbone.out_strides == (2, 4, 8, 16)
    assert backbone(torch.rand(1, 3, 19, 20))[1].shape == (1, 12, 4, 5)
