"""Run mmpretrain's models with random weights and save weights, images and outputs: `python mmpretrain_peer.py FILE`.

Runs in a process of its own, see the fixture `mmpretrain_results`.
"""

import sys
import warnings

import torch
from conftest import randomise, with_exact_coordinates
from torch import nn

from mmvisattn.analysis.benchmark.peers import import_mmpretrain


def results_of(model: nn.Module, *sizes: tuple[int, int]) -> dict:
    images = [torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(1)).double() for size in sizes]
    with torch.no_grad():
        outputs = [list(model(image)) for image in images]
    return {"state": dict(model.state_dict()), "images": images, "outputs": outputs}


def main(path: str) -> None:
    backbones = import_mmpretrain()
    ConvNeXt, SwinTransformer, SwinTransformerV2 = (
        getattr(backbones, name) for name in ("ConvNeXt", "SwinTransformer", "SwinTransformerV2")
    )
    arch = {"embed_dims": 16, "depths": [2, 2, 2], "num_heads": [2, 4, 4]}
    options = {"img_size": 64, "out_indices": (0, 1, 2), "pad_small_map": True}
    v2_arch = arch | {"extra_norm_every_n_blocks": 2}
    changed_windows = {"window_size": [4, 3, 4], "pretrained_window_sizes": [3, 0, 2]}
    convnext_arch = {"depths": [1, 2, 2, 1], "channels": [8, 16, 16, 24]}
    dense = {"out_indices": (0, 1, 2, 3), "gap_before_final_norm": False}
    models = {
        "swin": SwinTransformer(arch, stage_cfgs={"block_cfgs": {"window_size": 4}}, **options),
        "swin_v2": SwinTransformerV2(v2_arch, window_size=4, **options),
        "swin_v2_changed_windows": SwinTransformerV2(v2_arch, **changed_windows, **options),
        "convnext": ConvNeXt(convnext_arch, **dense),
        "convnext_v2": ConvNeXt(convnext_arch, use_grn=True, layer_scale_init_value=0.0, linear_pw_conv=False, **dense),
    }
    small = {"swin": (20, 28), "convnext": (40, 70)}  # mmpretrain's ConvNeXt needs a token at stride 32
    results = {}
    for name, model in models.items():
        results[name] = results_of(with_exact_coordinates(randomise(model)), (70, 99), small[name.partition("_")[0]])
    torch.save(results, path)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1])
