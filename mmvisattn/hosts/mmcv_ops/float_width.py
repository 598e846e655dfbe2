"""The number format the ops compute in."""

import torch
from torch import Tensor


def at_least_float32(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Bring tensors to their common floating type, no narrower than float32.

    Half and bfloat16 inputs are so computed in float32 and rounded once, at the end, by the copy into the output that
    mmcv allocated. Autocast of the surrounding code does not reach the ops, which use no matrix product.

    Args:
        tensors: any shapes, at least one.

    Returns:
        The same tensors, cast where needed; float64 stays float64.

    Example:
        >>> half, single = at_least_float32(torch.ones(2, dtype=torch.float16), torch.ones(3))
        >>> half.dtype, single.dtype
        (torch.float32, torch.float32)
    """
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return tuple(tensor.to(dtype) for tensor in tensors)
