import pytest
import torch
from torch import nn

from mmvisattn.backbones.swin import SWIN_ARCHS, SwinArch, SwinTransformer

NANO = dict(embed_dim=8, depths=(2, 2), num_heads=(1, 2))


def swin(arch=NANO, **options):
    torch.manual_seed(0)
    backbone = SwinTransformer(arch, **{"window_size": 3, "out_indices": (0, 1), **options})
    return backbone


# Published sizes in millions, classifier included: https://github.com/microsoft/Swin-Transformer, model hub.
@pytest.mark.parametrize(
    ("arch", "window_size", "published"),
    [
        ("tiny", 7, 28.29),
        ("small", 7, 49.61),
        ("base", 7, 87.77),
        ("base", 12, 87.90),
        ("large", 7, 196.53),
        ("large", 12, 196.74),
    ],
)
def test_parameter_counts_are_the_published_ones(arch, window_size, published):
    with torch.device("meta"):
        backbone = SwinTransformer(arch, window_size=window_size, out_indices=(3,))  # one norm, as in the classifier
    classifier = 1000 * backbone.out_channels[-1] + 1000
    total = sum(parameter.numel() for parameter in backbone.parameters()) + classifier
    assert round(total / 1e6, 2) == published


@pytest.mark.parametrize("arch", SWIN_ARCHS)
def test_builds_and_runs_on_the_meta_device(arch):
    with torch.device("meta"):
        backbone = SwinTransformer(arch)
        features = backbone(torch.empty(2, 3, 100, 333))
    dims = {"tiny": 96, "small": 96, "base": 128, "large": 192}[arch]
    sizes = [(25, 84), (13, 42), (7, 21), (4, 11)]
    assert [tuple(f.shape) for f in features] == [(2, dims * 2**s, *size) for s, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("height", "width"), [(1, 1), (1, 45), (83, 129), (4, 4), (12, 12), (24, 24), (24, 9), (333 // 4, 517 // 4)]
)
@pytest.mark.parametrize("small_map", ["pad", "shrink"])
def test_any_size_gives_maps_rounded_up_and_finite_gradients(height, width, small_map):
    backbone = swin(small_map=small_map)
    features = backbone(torch.rand(2, 3, height, width))
    for index, stride in enumerate((4, 8)):
        assert features[index].shape == (2, 8 * 2**index, -(-height // stride), -(-width // stride))
        assert features[index].is_contiguous()
    sum(f.square().sum() for f in features).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in backbone.parameters())


@pytest.mark.parametrize("in_channels", [1, 4, 12])
def test_number_of_image_channels(in_channels):
    backbone = swin(in_channels=in_channels)
    assert backbone(torch.rand(1, in_channels, 16, 16))[0].shape == (1, 8, 4, 4)
    with pytest.raises(ValueError, match=rf"\(B, {in_channels}, H, W\).*set by in_channels"):
        backbone(torch.rand(1, in_channels + 1, 16, 16))


def test_one_image_does_not_change_another():
    backbone, images = swin().double().eval(), torch.rand(3, 3, 21, 30, dtype=torch.float64)
    together, alone = backbone(images), backbone(images[1:2])
    for features, feature in zip(together, alone, strict=True):
        torch.testing.assert_close(features[1:2], feature, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("position", ["relative", "absolute", "relative+absolute", "none"])
def test_positions(position):
    backbone = swin(position=position, pretrain_img_size=(16, 24))
    names = set(backbone.state_dict())
    assert ("absolute_pos_embed" in names) == ("absolute" in position)
    assert any("relative_position_bias_table" in name for name in names) == ("relative" in position)
    if "absolute" in position:
        assert backbone.absolute_pos_embed.shape == (1, 8, 4, 6)
        assert backbone.absolute_pos_embed.std() > 0.01
    features = backbone(torch.rand(1, 3, 40, 20))  # not the size it was made for
    sum(f.square().sum() for f in features).backward()
    assert all(p.grad.abs().sum() > 0 for n, p in backbone.named_parameters() if "pos" in n)


def test_odd_blocks_shift_by_half_a_window():
    shifts = [block.token_mixer.shift_size for stage in swin(window_size=(7, 4)).stages for block in stage.blocks]
    assert shifts == [(0, 0), (3, 2)] * 2


def test_drop_path_rises_over_all_blocks():
    rates = [block.drop_path.rate for stage in swin(drop_path_rate=0.3).stages for block in stage.blocks]
    assert rates == pytest.approx([0, 0.1, 0.2, 0.3])


def test_initial_values():
    backbone = swin(dict(embed_dim=32, depths=(1, 1), num_heads=(1, 2)), position="relative+absolute")
    for name, parameter in backbone.named_parameters():
        leaf, owner = name.split(".")[-1], name.split(".")[-2:][0]
        if leaf == "bias" and "patch_embed.proj" not in name:
            assert (parameter == 0).all(), name
        elif "norm" in owner or name.startswith("out_norms"):
            assert (parameter == 1).all(), name
        elif "patch_embed" not in name:
            # normal with deviation 0.02; the smallest tensor here has 25 values: three deviations of its deviation
            assert parameter.std().item() == pytest.approx(0.02, rel=0.45), name


def test_init_weights_gives_new_values_to_everything():
    backbone = swin(position="relative+absolute")
    for parameter in backbone.parameters():
        nn.init.constant_(parameter, 7.0)
    backbone.init_weights()
    assert not any((parameter == 7).any() for parameter in backbone.parameters())


@pytest.mark.parametrize("frozen_stages", [-1, 0, 1])
def test_recomputation_gives_the_same_gradients_without_warnings(frozen_stages, check_recomputation):
    options = dict(frozen_stages=frozen_stages, drop_path_rate=0.5)
    check_recomputation(lambda with_cp: swin(with_cp=with_cp, **options), size=(18, 26))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype, check_half_precision):
    # 4 blocks with about 10 roundings each
    check_half_precision(swin(position="relative+absolute"), (22, 27), dtype, roundings=40)


def test_autocast():
    backbone = swin().eval()
    image = torch.rand(1, 3, 22, 27)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = backbone(image)
    for low, exact in zip(features, backbone(image), strict=True):
        assert (low - exact).abs().max() < 40 * torch.finfo(torch.bfloat16).eps


@pytest.mark.parametrize("train", [False, True])
def test_compiles_for_changing_sizes(train):
    backbone = swin(dict(embed_dim=8, depths=(1, 1), num_heads=(1, 2))).double().eval()
    compiled = torch.compile(backbone, backend="aot_eager", dynamic=True, fullgraph=True)
    with torch.set_grad_enabled(train):
        for height, width in [(24, 27), (30, 41)]:
            image = torch.rand(1, 3, height, width, dtype=torch.float64)
            results = []
            for model in (backbone, compiled):
                backbone.zero_grad()
                features = model(image)
                if train:
                    sum(f.square().sum() for f in features).backward()
                results.append([*features, *(p.grad for p in backbone.parameters() if p.grad is not None)])
            for expected, ours in zip(*results, strict=True):
                torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (dict(embed_dims=96, use_abs_pos_embeds=True), TypeError, "did you mean 'use_abs_pos_embed'"),
        (dict(arch="huge"), ValueError, r"arch must be one of \['tiny', 'small', 'base', 'large'\] or a dict"),
        (dict(arch=dict(embed_dim=8, depths=(2, 2), num_heads=(1,))), ValueError, "num_heads must be 2 positive"),
        (dict(arch=dict(embed_dim=8, depths=(2, 2), num_heads=(1, 3))), ValueError, "num_heads must divide"),
        (dict(position="learned"), ValueError, "position must be one of"),
        (dict(small_map="crop"), ValueError, "small_map must be one of"),
        (dict(impl="fast"), ValueError, "impl must be one of"),
        (dict(window_size=0), ValueError, "window_size"),
        (dict(position="absolute", pretrain_img_size=3), ValueError, "pretrain_img_size"),
        (dict(drop_path_rate=1.0), ValueError, "drop_path_rate must be in"),
        (dict(norm_cfg="LN"), TypeError, "norm_cfg"),
        (dict(act_cfg=dict(type="Gelu2")), ValueError, "act_cfg"),
        (dict(pretrained="swin.pth"), ValueError, "init_cfg=dict"),
        (
            dict(strides=(4, 2, 2, 1)),
            ValueError,
            "strides cannot be .* side of a patch, then 2 for every",
        ),
        (dict(strides=(4, 2, 2, 2), patch_size=2), ValueError, "contradicts"),
        (dict(attn_drop_rate=0.1), ValueError, "attn_drop_rate must be 0.0, got 0.1"),
        (dict(stage_cfgs=dict(block_cfgs=dict(ffn_cfgs={}))), ValueError, "stage_cfgs cannot be"),
    ],
)
def test_bad_options(options, error, message):
    with torch.device("meta"), pytest.raises(error, match=message):
        SwinTransformer(**options)


def test_architecture_as_a_value():
    arch = SwinArch(**NANO, mlp_ratio=2, patch_size=2, qkv_bias=False, patch_norm=False)
    backbone = swin(arch)
    assert backbone.out_strides == (2, 4)
    assert backbone.stages[0].blocks[0].mlp.fc1.out_features == 16
    assert not any(
        "qkv.bias" in name or "patch_embed.norm" in name or "downsample.norm" in name for name in backbone.state_dict()
    )
    assert backbone(torch.rand(1, 3, 9, 10))[1].shape == (1, 16, 3, 3)
