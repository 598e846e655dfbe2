"""Kernels run in Triton's interpreter, on the CPU, on memory that holds NaN until it is written."""

import os
from dataclasses import dataclass, replace
from functools import lru_cache

import pytest
import torch
from torch import Tensor

if os.environ.get("TRITON_INTERPRET") != "1":
    collect_ignore_glob = ["test_*.py"]  # `test_interpreted.py` runs them


if os.environ.get("TRITON_INTERPRET") == "1":
    import triton.language as tl
    from triton.runtime import interpreter

    # The interpreter wraps all of triton.language again, in ever more layers, on every call of a device function. A
    # launch has done so already for the module our kernels use; the one the standard library uses needs it once.
    # That makes these tests many times faster and changes nothing else.
    @lru_cache
    def patch_standard_library(function):
        interpreter._patch_lang(function)

    def call_device_function(self, *args, **kwargs):
        if any(value is tl.core for value in self.fn.__globals__.values()):
            patch_standard_library(tl.standard.cdiv.fn)
        return self.rewrite()(*args, **kwargs)

    interpreter.InterpretedFunction.__call__ = call_device_function
    # Each integer sum is otherwise computed a second time in 64 bits.
    interpreter.interpreter_builder.options = replace(interpreter.interpreter_builder.options, sanitize_overflow=False)


@pytest.fixture(autouse=True)
def poisoned_memory():
    """Let `torch.empty` return NaN, so that anything read before it is written shows."""
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


@dataclass(frozen=True)
class Call:
    """Arguments of one call of window attention, in float64 but holding values of `dtype`."""

    qkv: Tensor
    bias_table: Tensor | None
    logit_scale: Tensor | None
    pad_kv: Tensor | None
    num_heads: int
    window_size: tuple[int, int]
    shift_size: tuple[int, int]

    TENSORS = ("qkv", "bias_table", "logit_scale", "pad_kv")

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors that are there, by name."""
        return {name: getattr(self, name) for name in self.TENSORS if getattr(self, name) is not None}

    def as_input(self, dtype: torch.dtype) -> "Call":
        """The call with qkv in `dtype`, parameters in float32 (float64 for float64), all wanting gradients."""
        wide = torch.promote_types(dtype, torch.float32)
        cast = {name: t.to(dtype if name == "qkv" else wide).requires_grad_() for name, t in self.tensors.items()}
        return replace(self, **cast)

    def arguments(self) -> dict:
        """Keyword arguments of the op."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@pytest.fixture(scope="session")
def make_call():
    """Return a function that draws a call."""

    def make(
        size=(6, 5),
        window=(4, 4),
        shift=(0, 0),
        head_dim=16,
        heads=2,
        batch=1,
        dtype=torch.float32,
        bias=True,
        cosine=False,
        pad=True,
    ):
        generator = torch.Generator().manual_seed(0)

        def draw(*shape):
            return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).double()

        channels = heads * head_dim
        entries = (2 * window[0] - 1) * (2 * window[1] - 1)
        return Call(
            qkv=draw(batch, *size, 3 * channels),
            bias_table=draw(entries, heads) if bias else None,
            logit_scale=2 + draw(heads) if cosine else None,
            pad_kv=draw(2, channels) if pad else None,
            num_heads=heads,
            window_size=window,
            shift_size=shift,
        )

    return make
