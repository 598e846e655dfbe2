"""Several processes per training, also on machines without a GPU.

With GPUs MMEngine does everything itself (backend nccl). Without, three of its steps fail: it asks for a CUDA device
when it starts the process group, it hands a device number to ``DistributedDataParallel``, and it keeps SyncBatchNorm,
which refuses CPU tensors. So on the CPU the process group is started here, with backend gloo, before the Runner is
built, and the model is wrapped in :class:`CpuDistributedDataParallel`.
"""

import atexit
import logging
import os
import subprocess

import torch
from mmengine.config import Config
from mmengine.logging import print_log
from mmengine.model import MMDistributedDataParallel, revert_sync_batchnorm
from torch import distributed, nn

from mmvisattn.hosts.input_error import InputError

# For each launcher: where it says which process this is, of how many, and which on this machine.
RANK_VARIABLES = {
    "pytorch": ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    "slurm": ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    "mpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
}


class CpuDistributedDataParallel(MMDistributedDataParallel):
    """MMEngine's ``MMDistributedDataParallel`` for models on the CPU.

    SyncBatchNorm layers become ordinary BatchNorm layers, with a line in the log that says how many. Batch statistics
    are then those of each process, and running statistics are those of rank 0 in the checkpoint.

    Args:
        module: The model, on the CPU.
        **kwargs: As for ``MMDistributedDataParallel``; ``device_ids`` must be None.
    """

    def __init__(self, module: nn.Module, **kwargs: object) -> None:
        sync_layers = sum(isinstance(layer, nn.SyncBatchNorm) for layer in module.modules())
        if sync_layers:
            print_log(
                f"SyncBatchNorm needs a GPU: {sync_layers} layers became BatchNorm, with statistics per process.",
                logger="current",
                level=logging.WARNING,
            )
            module = revert_sync_batchnorm(module)
        super().__init__(module=module, **kwargs)


def prepare_processes(cfg: Config) -> None:
    """Make a config with a launcher run on this machine; without a launcher, do nothing.

    With GPUs only their number is checked. Without, the gloo process group is started and ``cfg.model_wrapper_cfg`` is
    set; ``find_unused_parameters`` keeps its meaning and ``sync_bn`` (conversion *to* SyncBatchNorm) is dropped.

    Args:
        cfg: The config; ``cfg.launcher`` is ``'none'``, ``'pytorch'``, ``'slurm'`` or ``'mpi'``.

    Raises:
        InputError: If the launcher has not set its environment variables, or starts more processes on this machine
            than it has GPUs.
    """
    if cfg.launcher == "none":
        return
    variables = RANK_VARIABLES[cfg.launcher]
    missing = [name for name in variables if name not in os.environ]
    if missing:
        raise InputError(
            f"--launcher {cfg.launcher} needs the environment variables {', '.join(variables)}, but "
            f"{', '.join(missing)} is not set; start the processes with the launcher (tools/dist_train.sh), or leave "
            "--launcher out."
        )
    rank, world_size, local_rank = (int(os.environ[name]) for name in variables)
    if torch.cuda.is_available():
        if local_rank >= torch.cuda.device_count():
            raise InputError(
                f"process {local_rank} on this machine has no GPU: there are {torch.cuda.device_count()}; start at "
                "most one process per GPU."
            )
        return
    os.environ["LOCAL_RANK"] = str(local_rank)
    if not distributed.is_initialized():
        start_gloo(cfg.launcher, rank, world_size)
    cfg.pop("sync_bn", None)
    cfg.model_wrapper_cfg = cpu_wrapper(cfg)


def cpu_wrapper(cfg: Config) -> dict[str, object]:
    """The ``model_wrapper_cfg`` for the CPU, with the options of the config's own one kept.

    Args:
        cfg: The config.

    Raises:
        InputError: If the config asks for a wrapper other than ``MMDistributedDataParallel``.

    Example:
        >>> cpu_wrapper(Config(dict(find_unused_parameters=True)))["find_unused_parameters"]
        True
    """
    options = dict(broadcast_buffers=False, find_unused_parameters=cfg.get("find_unused_parameters", False))
    options.update(cfg.get("model_wrapper_cfg") or {})
    wrapper = options.get("type", "MMDistributedDataParallel")
    if wrapper.rsplit(".", 1)[-1] not in ("MMDistributedDataParallel", "CpuDistributedDataParallel"):
        raise InputError(
            f"model_wrapper_cfg.type is '{wrapper}', which needs GPUs; on the CPU only 'MMDistributedDataParallel' "
            "works."
        )
    return {**options, "type": "mmvisattn.CpuDistributedDataParallel", "device_ids": None}


def start_gloo(launcher: str, rank: int, world_size: int) -> None:
    """Start the gloo process group, and see to its end when the process ends.

    The meeting point is ``MASTER_ADDR``:``MASTER_PORT``. ``torchrun`` sets both; under Slurm the first host of the job
    is asked for, and the port is 29500, when they are not set.

    Args:
        launcher: ``'pytorch'``, ``'slurm'`` or ``'mpi'``.
        rank: Number of this process.
        world_size: How many processes there are.
    """
    if launcher == "slurm" and "MASTER_ADDR" not in os.environ:
        hosts = subprocess.run(
            ["scontrol", "show", "hostnames", os.environ["SLURM_NODELIST"]], capture_output=True, text=True, check=True
        )
        os.environ["MASTER_ADDR"] = hosts.stdout.split()[0]
    os.environ.setdefault("MASTER_PORT", "29500")
    distributed.init_process_group("gloo", rank=rank, world_size=world_size)
    atexit.register(stop_gloo)


def stop_gloo() -> None:
    """Stop the gloo process group; its threads, left running, can abort a process that ends (exit code -6)."""
    if distributed.is_initialized():
        distributed.destroy_process_group()
