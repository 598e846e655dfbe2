"""The name tables of Swin V2 against the names and shapes that the peers really use."""

import pytest
import torch

from mmvisattn.checkpoints.maps.swin_v2 import OFFICIAL, OPENMMLAB, TIMM, TORCHVISION, TRANSFORMERS

DIM, DEPTHS, HEADS = 16, (2, 2, 2), (2, 4, 4)


def our_shapes(out_norms=(), extra_norms=()):
    shapes = {"patch_embed.proj.weight": (DIM, 3, 4, 4)}
    shapes |= dict.fromkeys(["patch_embed.proj.bias", "patch_embed.norm.weight", "patch_embed.norm.bias"], (DIM,))
    for stage, depth in enumerate(DEPTHS):
        dim, heads = DIM * 2**stage, HEADS[stage]
        if stage:
            shapes[f"stages.{stage}.downsample.reduction.weight"] = (dim, 2 * dim)
            shapes |= norm(f"stages.{stage}.downsample.norm", dim)
        for block in range(depth):
            name = f"stages.{stage}.blocks.{block}."
            shapes |= norm(name + "norm1", dim) | norm(name + "norm2", dim)
            if block in extra_norms:
                shapes |= norm(name + "norm3", dim)
            shapes |= {
                name + "token_mixer.qkv.weight": (3 * dim, dim),
                name + "token_mixer.q_bias": (dim,),
                name + "token_mixer.v_bias": (dim,),
                name + "token_mixer.logit_scale": (heads, 1, 1),
                name + "token_mixer.cpb_mlp.0.weight": (512, 2),
                name + "token_mixer.cpb_mlp.0.bias": (512,),
                name + "token_mixer.cpb_mlp.2.weight": (heads, 512),
                name + "token_mixer.proj.weight": (dim, dim),
                name + "token_mixer.proj.bias": (dim,),
                name + "mlp.fc1.weight": (4 * dim, dim),
                name + "mlp.fc1.bias": (4 * dim,),
                name + "mlp.fc2.weight": (dim, 4 * dim),
                name + "mlp.fc2.bias": (dim,),
            }
    for stage in out_norms:
        shapes |= norm(f"out_norms.{stage}", DIM * 2**stage)
    return shapes


def norm(name, dim):
    return {name + ".weight": (dim,), name + ".bias": (dim,)}


def build_timm():
    import timm

    return timm.models.SwinTransformerV2(
        img_size=64, embed_dim=DIM, depths=DEPTHS, num_heads=HEADS, window_size=4, num_classes=3
    )


@pytest.mark.xdist_group("timm")
def test_timm(check_table, randomise):
    check_table(TIMM, randomise(build_timm()).state_dict(), our_shapes())


@pytest.mark.xdist_group("timm")
def test_official(check_table, randomise):
    """The official names are timm's with patch merging at the end of a stage and with buffers."""
    state = {}
    for key, tensor in randomise(build_timm()).state_dict().items():
        parts = key.split(".")
        if "downsample" in parts:
            parts[1] = str(int(parts[1]) - 1)
        state[".".join(parts).replace("head.fc", "head")] = tensor
    check_table(OFFICIAL, state, our_shapes())
    for block in ("layers.0.blocks.0.", "layers.0.blocks.1."):
        state[block + "attn.relative_coords_table"] = torch.zeros(1, 7, 7, 2)
        state[block + "attn.relative_position_index"] = torch.zeros(16, 16).long()
    state["layers.0.blocks.1.attn_mask"] = torch.zeros(4, 16, 16)
    check_table(OFFICIAL, state, our_shapes())
    older = {key.replace("cpb_mlp", "rpe_mlp"): tensor for key, tensor in state.items()}
    new, old = OFFICIAL.convert(state).tensors, OFFICIAL.convert(older).tensors
    assert new.keys() == old.keys() and all(torch.equal(new[name], old[name]) for name in new)


@pytest.mark.xdist_group("torchvision")
def test_torchvision(check_table, randomise):
    from torchvision.models import SwinTransformer
    from torchvision.models.swin_transformer import PatchMergingV2, SwinTransformerBlockV2

    peer = SwinTransformer(
        [4, 4], DIM, DEPTHS, HEADS, [4, 4], block=SwinTransformerBlockV2, downsample_layer=PatchMergingV2, num_classes=3
    )
    state = randomise(peer).state_dict()
    for key, tensor in state.items():
        if key.endswith("qkv.bias"):  # what its forward does
            tensor[len(tensor) // 3 : 2 * len(tensor) // 3] = 0
    check_table(TORCHVISION, state, our_shapes())


@pytest.mark.xdist_group("transformers")
@pytest.mark.parametrize("name", ["Swinv2ForImageClassification", "Swinv2Backbone", "Swinv2ForMaskedImageModeling"])
def test_transformers(name, check_table, randomise, tmp_path):
    import transformers
    from safetensors.torch import load_file

    config = transformers.Swinv2Config(
        image_size=64, embed_dim=DIM, depths=DEPTHS, num_heads=HEADS, window_size=4, out_indices=(1, 2, 3)
    )
    peer = randomise(getattr(transformers, name)(config))
    peer.save_pretrained(tmp_path)
    for state in (peer.state_dict(), load_file(tmp_path / "model.safetensors")):
        inside = {
            key.removeprefix("swinv2."): tensor for key, tensor in state.items() if not key.startswith("decoder.")
        }
        check_table(TRANSFORMERS, inside, our_shapes())


@pytest.mark.xdist_group("mmpretrain")
def test_mmpretrain(check_table, mmpretrain_results):
    state = mmpretrain_results["swin_v2"]["state"]
    check_table(OPENMMLAB, state, our_shapes(out_norms=(0, 1, 2), extra_norms=(1,)))
