"""What the stand-in answers to the question which compilers built the extension."""

import torch
import torchvision


def get_compiler_version() -> str:
    """Name what takes the place of the C++ compiler, for ``mmcv.utils.collect_env``."""
    return f"none (ops by mmvisattn on PyTorch {torch.__version__}, torchvision {torchvision.__version__})"


def get_compiling_cuda_version() -> str:
    """Name what takes the place of the CUDA compiler, for ``mmcv.utils.collect_env``."""
    return f"none (PyTorch built with CUDA {torch.version.cuda})" if torch.version.cuda else "none"
