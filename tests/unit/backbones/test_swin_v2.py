import copy
import pickle

import pytest
import torch
from torch import nn

from mmvisattn.backbones.swin import SwinTransformer
from mmvisattn.backbones.swin_v2 import SWIN_V2_ARCHS, SwinTransformerV2, SwinV2Arch, window_of_each_stage
from mmvisattn.checkpoints.load import load_pretrained

NANO = dict(embed_dim=8, depths=(2, 2), num_heads=(1, 2))


def swin_v2(arch=NANO, **options):
    torch.manual_seed(0)
    return SwinTransformerV2(arch, **{"window_size": 4, "out_indices": (0, 1), **options})


def trained(backbone):
    """Move the norms away from zero, where each block does nothing."""
    with torch.no_grad():
        for name, parameter in backbone.named_parameters():
            if name.endswith(("norm1.weight", "norm2.weight")):
                parameter.add_(1)
    return backbone


# Published sizes in millions: https://github.com/microsoft/Swin-Transformer, model hub, for tiny to large (classifier
# included); the abstract and section 4.1 of the paper for giant; SimMIM's and ConvNeXt V2's papers for huge.
@pytest.mark.parametrize(
    ("arch", "published", "digits"),
    [
        ("tiny", 28.35, 2),
        ("small", 49.73, 2),
        ("base", 87.92, 2),
        ("large", 196.74, 2),
        ("huge", 658, 0),
        ("giant", 3000, -2),
    ],
)
def test_parameter_counts_are_the_published_ones(arch, published, digits):
    with torch.device("meta"):
        backbone = SwinTransformerV2(arch, window_size=16, out_indices=(3,))  # one norm, as in the classifier
    classifier = 1000 * backbone.out_channels[-1] + 1000
    total = sum(parameter.numel() for parameter in backbone.parameters()) + classifier
    assert round(total / 1e6, digits) == published


@pytest.mark.parametrize("arch", SWIN_V2_ARCHS)
def test_builds_and_runs_on_the_meta_device(arch):
    with torch.device("meta"):
        backbone = SwinTransformerV2(arch)
        features = backbone(torch.empty(2, 3, 100, 333))
    dims = {"tiny": 96, "small": 96, "base": 128, "large": 192, "huge": 352, "giant": 512}[arch]
    sizes = [(25, 84), (13, 42), (7, 21), (4, 11)]
    assert [tuple(f.shape) for f in features] == [(2, dims * 2**s, *size) for s, size in enumerate(sizes)]


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 45), (83, 129), (16, 16), (32, 32), (24, 9)])
@pytest.mark.parametrize("small_map", ["pad", "shrink"])
def test_any_size_gives_maps_rounded_up_and_finite_gradients(height, width, small_map):
    backbone = trained(swin_v2(small_map=small_map))
    features = backbone(torch.rand(2, 3, height, width))
    for index, stride in enumerate((4, 8)):
        assert features[index].shape == (2, 8 * 2**index, -(-height // stride), -(-width // stride))
        assert features[index].is_contiguous()
    sum(f.square().sum() for f in features).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in backbone.parameters())


def test_number_of_image_channels():
    backbone = swin_v2(in_channels=4)
    assert backbone(torch.rand(1, 4, 16, 16))[0].shape == (1, 8, 4, 4)
    with pytest.raises(ValueError, match=r"\(B, 4, H, W\).*set by in_channels"):
        backbone(torch.rand(1, 3, 16, 16))


def test_contract():
    backbone = SwinTransformerV2(NANO, out_indices=-1)
    assert (backbone.out_indices, backbone.out_channels, backbone.out_strides) == ((1,), (16,), (8,))
    assert set(backbone.out_norms) == {"1"}


def test_initial_values():
    backbone = swin_v2(dict(embed_dim=32, depths=(2, 2), num_heads=(1, 2), extra_norm_every_n_blocks=2))
    for name, parameter in backbone.named_parameters():
        leaf, owner = name.split(".")[-1], name.split(".")[-2]
        if owner in ("norm1", "norm2") or (leaf.endswith("bias") and name != "patch_embed.proj.bias"):
            assert (parameter == 0).all(), name
        elif owner in ("norm", "norm3") or name.startswith("out_norms"):
            assert (parameter == 1).all(), name
        elif leaf == "logit_scale":
            torch.testing.assert_close(parameter.exp(), torch.full_like(parameter, 10.0))
        elif "patch_embed" not in name:
            # normal with deviation 0.02; the smallest tensor has 512 values: ten deviations of its deviation
            assert parameter.std().item() == pytest.approx(0.02, rel=0.3), name


@pytest.mark.parametrize("norm", [dict(type="LN"), dict(type="BN"), dict(type="GN", num_groups=2)])
def test_init_weights_gives_new_values_to_everything(norm):
    backbone = swin_v2(position="relative+absolute", norm_cfg=norm)
    for parameter in backbone.parameters():
        nn.init.constant_(parameter, 7.0)
    backbone.init_weights()
    assert not any((parameter == 7).any() for parameter in backbone.parameters())


def test_a_new_block_passes_its_input_on():
    block, x = swin_v2().stages[0].blocks[1], torch.randn(2, 5, 6, 8)
    assert torch.equal(block(x), x)


def test_extra_norms_stand_after_every_nth_block_of_a_stage():
    backbone = swin_v2(dict(embed_dim=8, depths=(2, 7), num_heads=(1, 2), extra_norm_every_n_blocks=3))
    names = {name for name in backbone.state_dict() if "norm3" in name}
    assert names == {f"stages.1.blocks.{block}.norm3.{kind}" for block in (2, 5) for kind in ("weight", "bias")}
    with torch.device("meta"):
        giant = SwinTransformerV2("giant")
    assert sum("norm3.weight" in name for name in giant.state_dict()) == 7


@pytest.mark.parametrize(
    ("window_size", "expected"),
    [
        (8, [(8, 8)] * 4),
        ((7, 5), [(7, 5)] * 4),
        ([7, 5], [(7, 5)] * 4),
        ([16, 16, 16, 8], [(16, 16), (16, 16), (16, 16), (8, 8)]),
        ((4, (4, 2), 4, [2, 1]), [(4, 4), (4, 2), (4, 4), (2, 1)]),
    ],
)
def test_windows_of_the_stages(window_size, expected):
    assert window_of_each_stage(window_size, 4) == expected


def test_windows_shifts_and_trained_windows_reach_the_blocks():
    backbone = swin_v2(window_size=((4, 6), 3), pretrained_window_sizes=(12, 6))
    mixers = [[block.token_mixer for block in stage.blocks] for stage in backbone.stages]
    assert [[mixer.window_size for mixer in stage] for stage in mixers] == [[(4, 6)] * 2, [(3, 3)] * 2]
    assert [[mixer.shift_size for mixer in stage] for stage in mixers] == [[(0, 0), (2, 3)], [(0, 0), (1, 1)]]
    assert [[mixer.cpb_mlp.pretrained_window_size for mixer in stage] for stage in mixers] == [[12] * 2, [6] * 2]


def test_weights_move_to_another_window_without_conversion():
    """No parameter depends on the window, and with the trained window given, neither does a bias within it."""
    small, large = trained(swin_v2(window_size=3)), swin_v2(window_size=6, pretrained_window_sizes=3)
    large.load_state_dict(small.state_dict())
    for before, after in zip(small.stages, large.stages, strict=True):
        few, many = before.blocks[0].token_mixer.cpb_mlp((3, 3)), after.blocks[0].token_mixer.cpb_mlp((6, 6))
        heads = few.shape[1]
        torch.testing.assert_close(few.view(5, 5, heads), many.view(11, 11, heads)[3:8, 3:8])


def test_absolute_positions():
    backbone = swin_v2(position="relative+absolute", pretrain_img_size=(16, 24))
    assert backbone.absolute_pos_embed.shape == (1, 8, 4, 6)
    sum(f.square().sum() for f in backbone(torch.rand(1, 3, 40, 20))).backward()
    assert backbone.absolute_pos_embed.grad.abs().sum() > 0
    assert not any("cpb_mlp" in name for name in swin_v2(position="none").state_dict())


def test_drop_path_rises_over_all_blocks():
    rates = [block.drop_path.rate for stage in swin_v2(drop_path_rate=0.3).stages for block in stage.blocks]
    assert rates == pytest.approx([0, 0.1, 0.2, 0.3])


def test_no_weight_decay():
    backbone = swin_v2(position="relative+absolute")
    decayed = {name for name, _ in backbone.named_parameters()} - backbone.no_weight_decay()
    assert {name.rsplit(".", 2)[-2] for name in decayed} == {"proj", "qkv", "fc1", "fc2", "reduction"}
    assert all(name.endswith(".weight") for name in decayed)


def test_layer_ids():
    backbone = swin_v2(dict(embed_dim=8, depths=(2, 1, 3), num_heads=(1, 2, 2)), out_indices=(2,))
    depth = {name: backbone.parameter_depth(name) for name, _ in backbone.named_parameters()}
    assert backbone.num_decay_layers == 6
    first = {name.rsplit(".logit_scale", 1)[0]: layer for name, layer in depth.items() if name.endswith("logit_scale")}
    assert list(first.values()) == [1, 2, 3, 4, 5, 6]
    assert depth["stages.2.blocks.1.token_mixer.cpb_mlp.0.weight"] == 5
    assert depth["patch_embed.proj.weight"] == 0 and depth["out_norms.2.weight"] == 7
    assert depth["stages.1.downsample.norm.weight"] == 2


@pytest.mark.parametrize("frozen_stages", [-1, 0, 1, 2])
def test_frozen_parts(frozen_stages):
    backbone = swin_v2(frozen_stages=frozen_stages, position="relative+absolute", drop_path_rate=0.5)
    expected = ("patch_embed", "absolute_pos_embed") if frozen_stages >= 0 else ()
    for stage in range(frozen_stages):
        expected += (f"stages.{stage}.", f"out_norms.{stage}.", f"stages.{stage + 1}.downsample")
    for mode in (True, False):  # also before the first call of train()
        frozen = {name for name, p in backbone.named_parameters() if not p.requires_grad}
        assert frozen == {name for name, _ in backbone.named_parameters() if expected and name.startswith(expected)}
        backbone.train(mode)
    backbone.train()
    assert not any(backbone.get_submodule(f"stages.{stage}").training for stage in range(frozen_stages))


@pytest.mark.parametrize("frozen_stages", [-1, 1])
def test_recomputation_gives_the_same_gradients_without_warnings(frozen_stages, check_recomputation):
    options = dict(frozen_stages=frozen_stages, drop_path_rate=0.5)
    check_recomputation(lambda with_cp: trained(swin_v2(with_cp=with_cp, **options)), size=(18, 26))


def test_features_follow_weights_exchanged_with_their_moving_average():
    """Tables kept in evaluation must not outlive an exchange through `.data`, as mmengine's EMAHook does it."""
    backbone, image = trained(swin_v2()).eval(), torch.randn(1, 3, 24, 24)
    average = copy.deepcopy(backbone)
    with torch.no_grad():
        for parameter in average.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        expected = [average(image), backbone(image), average(image)]
        seen = []
        for _ in range(3):
            for ours, other in zip(backbone.parameters(), average.parameters(), strict=True):
                kept = ours.data.clone()
                ours.data.copy_(other.data)
                other.data.copy_(kept)
            seen.append(backbone(image))
    for features, others in zip(seen, expected, strict=True):
        assert all(map(torch.equal, features, others))


def test_copies_pickles_and_state_dicts_give_the_same_features():
    backbone, image = trained(swin_v2(frozen_stages=1)).eval(), torch.randn(1, 3, 16, 16)
    other = SwinTransformerV2(NANO, window_size=4, out_indices=(0, 1)).eval()
    with torch.no_grad():
        expected = backbone(image)
        other(image)
        other.load_state_dict(backbone.state_dict())
        for twin in (copy.deepcopy(backbone), pickle.loads(pickle.dumps(backbone)), other):
            assert all(map(torch.equal, expected, twin(image)))
    assert set(backbone.state_dict()) == {name for name, _ in backbone.named_parameters()}


def test_a_detectors_checkpoint_gives_all_weights_to_a_model_with_another_window(tmp_path):
    arch, path = dict(NANO, extra_norm_every_n_blocks=2), str(tmp_path / "detector.pth")
    source = trained(swin_v2(arch, position="relative+absolute"))
    torch.save({"state_dict": {f"backbone.{name}": value for name, value in source.state_dict().items()}}, path)
    backbone = swin_v2(arch, position="relative+absolute", window_size=6, pretrained_window_sizes=4)
    report = load_pretrained(backbone, path)
    assert set(report.loaded) == set(backbone.state_dict()) and not report.resized and not report.dropped
    assert all(map(torch.equal, source.parameters(), backbone.parameters()))


def test_weights_of_v1_are_refused(tmp_path):
    torch.save(SwinTransformer(NANO, window_size=4, out_indices=(0, 1)).state_dict(), tmp_path / "v1.pth")
    with pytest.raises(ValueError, match="into SwinTransformerV2: .*relative_position_bias_table"):
        load_pretrained(swin_v2(), str(tmp_path / "v1.pth"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype, check_half_precision):
    backbone = trained(swin_v2(dict(NANO, extra_norm_every_n_blocks=2), position="relative+absolute"))
    # Queries and keys of 8 channels are rounded once, which moves the logits, at most 10, by a few units, and the
    # features as much; 4 blocks with about 10 roundings each beside.
    check_half_precision(backbone, (22, 27), dtype, roundings=100)


def test_compiles_for_changing_sizes():
    backbone = trained(swin_v2(dict(embed_dim=8, depths=(1,), num_heads=(2,)), out_indices=0)).double().eval()
    compiled = torch.compile(backbone, backend="aot_eager", dynamic=True, fullgraph=True)
    for height, width in [(24, 40), (37, 41)]:
        image = torch.rand(1, 3, height, width, dtype=torch.float64)
        for ours, expected in zip(compiled(image), backbone(image), strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


def squares(step):
    """Four noisy images of 64 x 64 with a square of one of three colours each, and their label maps at stride 4."""
    generator = torch.Generator().manual_seed(step)
    image = 0.3 * torch.randn(4, 3, 64, 64, generator=generator)
    label = torch.zeros(4, 16, 16, dtype=torch.long)
    for index in range(4):
        y, x = torch.randint(0, 10, (2,), generator=generator).tolist()
        color = int(torch.randint(1, 4, (1,), generator=generator))
        tint = torch.tensor([1.5, -1.5, 0.7]).roll(color)
        image[index, :, 4 * y : 4 * y + 24, 4 * x : 4 * x + 24] += tint[:, None, None]
        label[index, y : y + 6, x : x + 6] = color
    return image, label


def losses(dtype, steps=30):
    """Losses of segmenting squares, under autocast to `dtype` with loss scaling for float16."""
    torch.manual_seed(0)
    arch = dict(embed_dim=32, depths=(2, 2, 2), num_heads=(1, 2, 4))
    backbone = SwinTransformerV2(arch, window_size=4, out_indices=(0, 1, 2), drop_path_rate=0.0)
    heads = nn.ModuleList(nn.Conv2d(channels, 4, 1) for channels in backbone.out_channels)
    for head in heads:  # as the hosts' heads
        nn.init.normal_(head.weight, std=0.01)
        nn.init.zeros_(head.bias)
    optimizer = torch.optim.AdamW([*backbone.parameters(), *heads.parameters()], lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, enabled=dtype == torch.float16)
    curve = []
    for step in range(steps):
        image, label = squares(step)
        with torch.autocast("cpu", dtype=dtype, enabled=dtype != torch.float32):
            maps = [head(x).float() for head, x in zip(heads, backbone(image), strict=True)]
        logits = sum(nn.functional.interpolate(x, size=(16, 16)) for x in maps) / len(maps)
        loss = nn.functional.cross_entropy(logits, label)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        curve.append(loss.item())
    return torch.tensor(curve)


def test_training_in_low_precision_follows_float32():
    exact = losses(torch.float32)
    assert exact[-5:].mean() < 0.2 * exact[0], "it learns"
    for dtype, units in ((torch.bfloat16, 12), (torch.float16, 48)):
        # one rounding of a loss is one unit; errors add up in 30 steps, by a factor of 3 in trials
        drift = (losses(dtype) - exact).abs() / exact
        assert drift.max() < units * torch.finfo(dtype).eps, dtype


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (dict(embed_dims=96, use_abs_pos_embeds=True), TypeError, "did you mean 'use_abs_pos_embed'"),
        (dict(arch="hugs"), ValueError, "arch must be one of .*'huge'.*did you mean 'huge'"),
        (dict(arch=dict(NANO, extra_norm_every_n_blocks=-1)), ValueError, "extra_norm_every_n_blocks must be at least"),
        (dict(window_size=0), ValueError, "window_size"),
        (dict(window_size=(8, 8, 8)), ValueError, r"window_size must be a number, \(rows, columns\), or 4 of these"),
        (dict(window_size=8.0), TypeError, "window_size must be"),
        (dict(pretrained_window_sizes=(12, 6)), ValueError, "pretrained_window_sizes must be a number >= 0, or 4"),
        (dict(pretrained_window_sizes=-1), ValueError, "pretrained_window_sizes must be"),
        (dict(stage_cfgs=dict(block_cfgs={})), ValueError, "stage_cfgs must be {}.*give window_size"),
        (dict(position="learned"), ValueError, "position must be one of"),
        (dict(pretrained="swin.pth"), ValueError, "init_cfg=dict"),
    ],
)
def test_bad_options(options, error, message):
    with torch.device("meta"), pytest.raises(error, match=message):
        SwinTransformerV2(**options)


def test_architecture_as_a_value():
    arch = SwinV2Arch(**NANO, mlp_ratio=2, patch_size=2, qkv_bias=False, patch_norm=False, extra_norm_every_n_blocks=1)
    backbone = swin_v2(arch)
    assert backbone.out_strides == (2, 4)
    assert backbone.stages[0].blocks[0].mlp.fc1.out_features == 16
    names = backbone.state_dict()
    assert not any(part in name for name in names for part in ("q_bias", "patch_embed.norm", "downsample.norm"))
    assert sum("norm3.weight" in name for name in names) == 4
    assert backbone(torch.rand(1, 3, 9, 10))[1].shape == (1, 16, 3, 3)
