import subprocess
import sys


def test_ops_need_torch_and_nothing_else():
    """Neither Triton nor the parts of torch that import it; no package but torch's own dependencies."""
    code = (
        "import sys, torch; before = set(sys.modules); import mmvisattn.ops; "
        "print('\\n'.join(sorted(set(sys.modules) - before)))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "mmvisattn.ops" in loaded
    foreign = {name for name in loaded if name.split(".")[0] not in {"mmvisattn", "torch"} | sys.stdlib_module_names}
    assert not foreign
    heavy = ("triton", "torch._dynamo", "torch._inductor", "torch.utils.flop_counter")
    assert not [name for name in loaded if name.startswith(heavy)]
