"""``--amp``: mixed precision, float16 with loss scaling on a GPU, bfloat16 on the CPU."""

import torch
from mmengine.config import Config
from mmengine.logging import print_log

from mmvisattn.hosts.input_error import InputError

GPU_WRAPPER = "AmpOptimWrapper"
CPU_WRAPPER = "mmvisattn.CpuAmpOptimWrapper"


def enable_amp(cfg: Config) -> None:
    """Change ``cfg.optim_wrapper`` to train in mixed precision, and say in which.

    A config that already uses ``AmpOptimWrapper`` keeps its ``dtype`` and ``loss_scale`` on a GPU; on the CPU these are
    dropped, because bfloat16 autocast is all there is and needs no scaling.

    Args:
        cfg: The config.

    Raises:
        InputError: If the optimizer wrapper is of a type that mixed precision is not defined for.
    """
    wrapper = cfg.optim_wrapper
    kind = wrapper.get("type", "OptimWrapper").rsplit(".", 1)[-1]
    if kind not in ("OptimWrapper", "AmpOptimWrapper", "CpuAmpOptimWrapper"):
        raise InputError(f"--amp needs optim_wrapper.type to be 'OptimWrapper', but the config has '{wrapper.type}'.")
    if torch.cuda.is_available():
        wrapper.type = GPU_WRAPPER
        wrapper.setdefault("loss_scale", "dynamic")
        print_log(f"--amp: training in {wrapper.get('dtype', 'float16')} on the GPU ({GPU_WRAPPER}).", logger="current")
        return
    wrapper.type = CPU_WRAPPER
    for key in ("loss_scale", "dtype", "use_fsdp"):
        wrapper.pop(key, None)
    print_log(f"--amp: there is no GPU, training in bfloat16 on the CPU ({CPU_WRAPPER}).", logger="current")


def check_device(cfg: Config) -> None:
    """Refuse a config that asks for mixed precision on a GPU where there is none, before anything is built.

    Args:
        cfg: The config.

    Raises:
        InputError: If ``optim_wrapper`` is ``AmpOptimWrapper`` and there is no GPU.
    """
    kind = cfg.optim_wrapper.get("type", "OptimWrapper")
    if kind.rsplit(".", 1)[-1] == "AmpOptimWrapper" and not torch.cuda.is_available():
        raise InputError(
            f"optim_wrapper.type is '{kind}', which needs a GPU, and there is none; pass --amp to train in bfloat16 on "
            "the CPU, or --cfg-options optim_wrapper.type=OptimWrapper for float32."
        )
