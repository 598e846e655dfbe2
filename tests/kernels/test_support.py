"""What the Triton kernels say they take, without a GPU, and what asking costs."""

import re
import subprocess
import sys

import pytest
import torch

from mmvisattn.ops import why_not, window_attention
from mmvisattn.ops.window_attention.triton import support

ARGUMENTS = {"num_heads": 2, "window_size": (7, 7)}


def test_importing_the_ops_does_not_import_triton():
    code = "import sys, mmvisattn.ops; print([name for name in sys.modules if name.split('.')[0] == 'triton'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_cpu_is_refused_in_words():
    qkv = torch.zeros(1, 7, 7, 96)
    assert "TRITON_INTERPRET=1" in why_not("window_attention", "triton", qkv, **ARGUMENTS)
    with pytest.raises(ValueError, match="TRITON_INTERPRET"):
        window_attention(qkv, num_heads=2, window_size=7, impl="triton")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dtype": torch.float64}, "float64"),
        ({"head_dim": 4}, "4 channels"),
        ({"head_dim": 136}, "136 channels"),
        ({"window_size": (7, 33)}, r"\(7, 33\)"),
        ({}, None),
    ],
)
def test_dtype_head_and_window_are_refused_in_words(change, words, monkeypatch):
    monkeypatch.setattr(support, "_remembered_device", lambda device: None)
    dtype, head_dim = change.pop("dtype", torch.float32), change.pop("head_dim", 16)
    refusal = support.why_not(torch.zeros(1, 7, 7, 6 * head_dim, dtype=dtype), **(ARGUMENTS | change))
    assert refusal is None if words is None else re.search(words, refusal)


@pytest.mark.parametrize("device", ["cuda", "meta"])
def test_fakes_make_the_shapes_of_the_results(device):
    """The registered ops know their results' shapes without running, also where there is no GPU."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        qkv = torch.empty(2, 9, 10, 3 * 32, device=device, dtype=torch.bfloat16)
        table = torch.empty(169, 2, device=device)
        arguments = (qkv, table, None, None, 2, [7, 7], [3, 3], 0.25)
        out = torch.ops.mmvisattn.window_attention(*arguments)
        assert out.shape == (2, 9, 10, 32) and out.dtype == torch.bfloat16 and out.device.type == device
        grads = torch.ops.mmvisattn.window_attention_backward(out, *arguments, [True, True, False, False])
        assert [grad.shape for grad in grads] == [qkv.shape, table.shape]
        assert [grad.dtype for grad in grads] == [torch.bfloat16, torch.float32]
