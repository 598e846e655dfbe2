"""Parameters and FLOPs are those that papers print, whatever implementation a config names."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from mmvisattn.analysis import cost
from mmvisattn.backbones.swin import SwinTransformer
from mmvisattn.ops import window_attention

ROOT = Path(__file__).parents[3]

# Billions of multiply-accumulates at 224 x 224 (Swin paper, table 1: 4.5, 8.7, 15.4), without the classifier
PUBLISHED = {"tiny": 4.5, "small": 8.7, "base": 15.4, "large": 34.5}


def on_meta(**options):
    with torch.device("meta"):
        return SwinTransformer(**options)


@pytest.mark.parametrize("arch", PUBLISHED)
def test_published_figures(arch):
    found = cost.of_model(on_meta(arch=arch, out_indices=(3,)), (224, 224))
    assert found.total.flops / 1e9 == pytest.approx(PUBLISHED[arch], abs=0.05)


def test_the_same_whichever_impl_runs():
    nano = dict(embed_dim=8, depths=(2, 2), num_heads=(1, 2))
    totals = {
        impl: cost.of_model(on_meta(arch=nano, out_indices=(1,), impl=impl), (50, 70)).total
        for impl in ("auto", "reference", "sdpa")
    }
    assert totals["auto"] == totals["reference"] == totals["sdpa"]


def test_attention_is_counted():
    nano = dict(embed_dim=8, depths=(1,), num_heads=(1,))
    found = cost.of_model(on_meta(arch=nano, window_size=4, out_indices=(0,)), (16, 16))
    tokens, dim, window = 16, 8, 16
    linear = tokens * (4 * 4 * 3 * dim + 3 * dim * dim + dim * dim + 2 * 4 * dim * dim)
    attention = 2 * tokens * window * dim
    assert found.total.flops == linear + attention
    assert found.modules["stages.0.blocks.0.token_mixer"].flops == tokens * 4 * dim * dim + attention


def test_the_fused_kernels_count_like_the_reference():
    from torch.utils.flop_counter import FlopCounterMode

    cost.register_kernel_formulas()
    cost.register_kernel_formulas()  # the second call must not clash with the first
    qkv = torch.empty(2, 10, 17, 3 * 24, device="meta")
    totals = []
    for run in (
        lambda: torch.ops.mmvisattn.window_attention(qkv, None, None, None, 3, [4, 5], [2, 2], 1.0),
        lambda: window_attention(qkv, num_heads=3, window_size=(4, 5), shift_size=2, impl="reference"),
    ):
        with FlopCounterMode(display=False) as counter:
            run()
        totals.append(counter.get_total_flops())
    assert totals[0] == totals[1] == 4 * (2 * 12 * 20) * 20 * 24
    with FlopCounterMode(display=False) as counter:
        arguments = (qkv, None, None, None, 3, [4, 5], [2, 2], 1.0, [True, False, False, False])
        torch.ops.mmvisattn.window_attention_backward(qkv.new_empty(2, 10, 17, 24), *arguments)
    assert counter.get_total_flops() == 10 * (2 * 12 * 20) * 20 * 24


def test_parts_add_up_to_the_whole():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU())).to("meta")
    found = cost.of_model(model, (9, 9))
    assert found.modules["0"].flops + found.modules["1"].flops == found.total.flops == 49 * (27 * 4 + 16)
    assert found.modules["1"].activations == 2 * 49 * 4


def test_bad_shape():
    with pytest.raises(ValueError, match=r"shape must be \(height, width\).*\(0, 5\)"):
        cost.of_model(nn.Conv2d(3, 4, 3, device="meta"), (0, 5))


# The papers print 264 G with 48 M, and 945 G with 60 M, for these Swin-T models; they count
# elementwise layers, which we do not.
@pytest.mark.parametrize(
    ("config", "shape", "millions", "billions"),
    [
        ("mask-rcnn_swin-t-p4-w7_fpn_1x_coco", (800, 1280), 47.79, 263),
        ("swin-tiny-patch4-window7-in1k-pre_upernet_8xb2-160k_ade20k-512x512", (512, 2048), 59.94, 940),
    ],
)
def test_the_tool_on_whole_models(config, shape, millions, billions, tmp_path):
    command = [sys.executable, "tools/get_flops.py", f"configs/swin/{config}.py"]
    command += ["--shape", *map(str, shape), "--json", str(tmp_path / "cost.json")]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    last = run.stdout.strip().splitlines()[-1]
    assert last.startswith(f"parameters {millions}") and f"at {shape[0]} x {shape[1]}" in last
    written = json.loads((tmp_path / "cost.json").read_text())
    assert written["total"]["flops"] / 1e9 == pytest.approx(billions, rel=0.005)
    assert (
        sum(written["modules"][part]["flops"] for part in written["modules"] if "." not in part)
        == written["total"]["flops"]
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere.py"], "config is 'nowhere.py', which is not a file."),
        (
            ["{}", "--cfg-options", "model.backbone.arhc=tiny"],
            "SwinTransformer has no option 'arhc'; did you mean 'arch'?",
        ),
        (["{}", "--cfg-options", "model.bakcbone.arch=tiny"], "the config has no 'bakcbone'; did you mean 'backbone'?"),
        (["{}", "--shape", "0", "64"], "H and W must be at least 1, got [0, 64]"),
    ],
)
def test_the_tool_on_faulty_input(arguments, sentence):
    config = "configs/quickstart/mask-rcnn_swin-nano_fpn_shapes.py"
    command = [sys.executable, "tools/get_flops.py", *(argument.format(config) for argument in arguments)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode and "Traceback" not in run.stderr
    assert run.stderr.strip().splitlines()[-1].endswith(sentence)
