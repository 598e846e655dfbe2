"""The name tables of ConvNeXt against the names and shapes that the peers really use."""

import pytest
import torch

from mmvisattn.checkpoints.maps.convnext import (
    FCMAE,
    MMPRETRAIN,
    MMPRETRAIN_CONV_MLP,
    OFFICIAL,
    TIMM,
    TIMM_CONV_MLP,
    TORCHVISION,
    TRANSFORMERS,
    TRANSFORMERS_DINOV3,
)

DEPTHS, DIMS = (1, 2), (8, 16)


def our_shapes(version, out_norms=False, depths=DEPTHS, dims=DIMS):
    shapes = {"patch_embed.proj.weight": (dims[0], 3, 4, 4), "patch_embed.proj.bias": (dims[0],)}
    shapes |= norm("patch_embed.norm", dims[0])
    for stage, (depth, dim) in enumerate(zip(depths, dims, strict=True)):
        if stage:
            shapes |= norm(f"stages.{stage}.downsample.norm", dims[stage - 1])
            shapes[f"stages.{stage}.downsample.conv.weight"] = (dim, dims[stage - 1], 2, 2)
            shapes[f"stages.{stage}.downsample.conv.bias"] = (dim,)
        for block in range(depth):
            name = f"stages.{stage}.blocks.{block}."
            shapes |= norm(name + "norm", dim) | {
                name + "token_mixer.weight": (dim, 1, 7, 7),
                name + "token_mixer.bias": (dim,),
                name + "mlp.fc1.weight": (4 * dim, dim),
                name + "mlp.fc1.bias": (4 * dim,),
                name + "mlp.fc2.weight": (dim, 4 * dim),
                name + "mlp.fc2.bias": (dim,),
            }
            if version == 1:
                shapes[name + "gamma"] = (dim,)
            else:
                shapes |= {name + "mlp.grn.gamma": (4 * dim,), name + "mlp.grn.beta": (4 * dim,)}
        if out_norms:
            shapes |= norm(f"out_norms.{stage}", dim)
    return shapes


def norm(name, dim):
    return {name + ".weight": (dim,), name + ".bias": (dim,)}


@pytest.mark.xdist_group("timm")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("conv_mlp", [False, True])
@pytest.mark.parametrize("head_norm_first", [False, True])
def test_timm(version, conv_mlp, head_norm_first, check_table, randomise):
    import timm

    sizes = {"depths": (1, 2, 1, 1), "dims": (8, 16, 16, 16)}  # timm has four stages, always
    options = {} if version == 1 else {"use_grn": True, "ls_init_value": None}
    peer = timm.models.ConvNeXt(**sizes, **options, conv_mlp=conv_mlp, head_norm_first=head_norm_first, num_classes=3)
    right, wrong = (TIMM_CONV_MLP, TIMM) if conv_mlp else (TIMM, TIMM_CONV_MLP)
    state = randomise(peer).state_dict()
    check_table(right, state, our_shapes(version, **sizes))
    if not conv_mlp:
        with pytest.raises(ValueError, match="expected the weight of a 1x1 convolution"):
            wrong.convert(state)


@pytest.mark.xdist_group("torchvision")
def test_torchvision(check_table, randomise):
    from torchvision.models import ConvNeXt
    from torchvision.models.convnext import CNBlockConfig

    peer = ConvNeXt([CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 2)], num_classes=3)
    check_table(TORCHVISION, randomise(peer).state_dict(), our_shapes(1))


@pytest.mark.xdist_group("transformers")
@pytest.mark.parametrize("kind", ["ForImageClassification", "Backbone"])
@pytest.mark.parametrize("version", [1, 2])
def test_transformers(version, kind, check_table, randomise, tmp_path):
    import transformers
    from safetensors.torch import load_file

    family = "ConvNext" if version == 1 else "ConvNextV2"
    config = getattr(transformers, family + "Config")(
        num_stages=2, depths=list(DEPTHS), hidden_sizes=list(DIMS), out_features=["stage1", "stage2"]
    )
    peer = randomise(getattr(transformers, family + kind)(config))
    peer.save_pretrained(tmp_path)
    for state in (peer.state_dict(), load_file(tmp_path / "model.safetensors")):
        inside = {key.removeprefix(family.lower() + "."): tensor for key, tensor in state.items()}
        check_table(TRANSFORMERS, inside, our_shapes(version, out_norms=kind == "Backbone"))


@pytest.mark.xdist_group("transformers")
def test_transformers_dinov3(check_table, randomise, tmp_path):
    from safetensors.torch import load_file
    from transformers import DINOv3ConvNextConfig, DINOv3ConvNextModel

    peer = randomise(DINOv3ConvNextModel(DINOv3ConvNextConfig(depths=list(DEPTHS), hidden_sizes=list(DIMS))))
    peer.save_pretrained(tmp_path)
    for state in (peer.state_dict(), load_file(tmp_path / "model.safetensors")):
        inside = {key.removeprefix("model."): tensor for key, tensor in state.items()}
        check_table(TRANSFORMERS_DINOV3, inside, our_shapes(1))


@pytest.mark.xdist_group("mmpretrain")
def test_mmpretrain(check_table, mmpretrain_results, sizes):
    convnext, convnext_v2 = mmpretrain_results["convnext"], mmpretrain_results["convnext_v2"]
    check_table(MMPRETRAIN, convnext["state"], our_shapes(1, out_norms=True, **sizes))
    check_table(MMPRETRAIN_CONV_MLP, convnext_v2["state"], our_shapes(2, out_norms=True, **sizes))


def official_state(version):
    """Random weights under the official names, spelled out for a stage without and one with a downsampling."""
    generator = torch.Generator().manual_seed(0)

    def block(name, dim):
        shapes = {"dwconv.weight": (dim, 1, 7, 7), "dwconv.bias": (dim,), **norm("norm", dim)}
        shapes |= {"pwconv1.weight": (4 * dim, dim), "pwconv1.bias": (4 * dim,)}
        shapes |= {"pwconv2.weight": (dim, 4 * dim), "pwconv2.bias": (dim,)}
        grn = {"grn.gamma": (1, 1, 1, 4 * dim), "grn.beta": (1, 1, 1, 4 * dim)}
        return {name + key: shape for key, shape in (shapes | ({"gamma": (dim,)} if version == 1 else grn)).items()}

    shapes = {"downsample_layers.0.0.weight": (8, 3, 4, 4), "downsample_layers.0.0.bias": (8,)}
    shapes |= norm("downsample_layers.0.1", 8) | block("stages.0.0.", 8)
    shapes |= norm("downsample_layers.1.0", 8)
    shapes |= {"downsample_layers.1.1.weight": (16, 8, 2, 2), "downsample_layers.1.1.bias": (16,)}
    shapes |= block("stages.1.0.", 16) | block("stages.1.1.", 16)
    return {key: torch.randn(shape, generator=generator) for key, shape in shapes.items()}


@pytest.mark.parametrize("version", [1, 2])
def test_official(version, check_table):
    state = official_state(version)
    head = {"norm.weight": torch.ones(16), "norm.bias": torch.ones(16), "head.weight": torch.ones(3, 16)}
    check_table(OFFICIAL, state | head, our_shapes(version))
    # DINOv3 stores its last norm under two names; detectors have a norm per level.
    check_table(OFFICIAL, state | {"norms.3.weight": torch.ones(16)}, our_shapes(version))
    norms = {f"norm{s}.{param}": torch.ones(DIMS[s]) for s in (0, 1) for param in ("weight", "bias")}
    check_table(OFFICIAL, state | norms, our_shapes(version, out_norms=True))


def sparse(state):
    """The official dense names and layouts to those of the sparse encoder, element by element."""
    result = {}
    for key, value in state.items():
        is_layer = not key.startswith("downsample_layers.0.")
        if is_layer and value.ndim == 4 and key.endswith("weight"):
            out_channels, in_channels, side, _ = value.shape
            kernel = torch.zeros(side * side, in_channels, out_channels)
            for row in range(side):
                for column in range(side):
                    kernel[column * side + row] = value[:, :, row, column].t()
            result[key.replace("weight", "kernel")] = kernel.squeeze(1) if "dwconv" in key else kernel
        elif is_layer and (".norm." in key or key.startswith("downsample_layers.1.0.")):
            result[".".join([*key.split(".")[:-1], "ln", key.split(".")[-1]])] = value
        elif "pwconv" in key:
            result[".".join([*key.split(".")[:-1], "linear", key.split(".")[-1]])] = value
        elif "grn" in key or (is_layer and key.endswith("bias")):
            result[key] = value.view(1, -1)
        else:
            result[key] = value
    return result


def test_fcmae(check_table):
    dense = official_state(version=2)
    stored = sparse(dense)
    assert stored["stages.0.0.dwconv.kernel"].shape == (49, 8)
    assert stored["downsample_layers.1.1.kernel"].shape == (4, 8, 16)
    check_table(FCMAE, stored, our_shapes(2))
    from_sparse, from_dense = FCMAE.convert(stored).tensors, OFFICIAL.convert(dense).tensors
    assert [name for name in from_dense if not torch.equal(from_dense[name], from_sparse[name])] == []


def test_fcmae_file_that_is_dense_in_part():
    dense = official_state(version=2)
    mixed = {key: value for key, value in sparse(dense).items() if not key.startswith("stages.1.1.")}
    mixed |= {key: value for key, value in dense.items() if key.startswith("stages.1.1.")}
    from_mixed, from_dense = FCMAE.convert(mixed).tensors, OFFICIAL.convert(dense).tensors
    assert [name for name in from_dense if not torch.equal(from_dense[name], from_mixed[name])] == []
