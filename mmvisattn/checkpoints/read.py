"""Open a checkpoint file: tensors only, no code from the file is ever run.

Files written by ``torch.save`` are read with ``weights_only=True``, always. Training checkpoints also hold harmless
objects (an argparse Namespace, a yacs config, log buffers) whose classes that mode refuses; a fixed list of such names
is answered with empty stand-ins, since only the tensors matter here. Any other name is an error.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlparse

import torch
from torch import Tensor

# Where training scripts put the weights, in the order in which we look: averaged weights before raw ones. (MMEngine
# swaps the two on saving, so that its `state_dict` is the average already; it never writes the first two names.)
_WRAPPERS = (
    "state_dict_ema",
    "model_ema",
    "state_dict",
    "model_state",
    "model",
    "module",
    "teacher",
    "student",
)
# Added by wrappers around the whole model: nn.DataParallel, torch.compile, FSDP.
_OUTER_PREFIXES = ("module.", "_orig_mod.", "_fsdp_wrapped_module.")


class _Inert(dict[Any, Any]):
    """Stands for an object that is not a tensor: takes any arguments and state, and forgets them."""

    def __new__(cls, *args: Any, **kwargs: Any) -> _Inert:
        return super().__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        pass

    def append(self, item: Any) -> None:
        """Forget an item of a list."""

    def extend(self, items: Any) -> None:
        """Forget the items of a list."""


_STAND_INS: dict[str, type] = {
    "argparse.Namespace": _Inert,
    "builtins.getattr": _Inert,  # MMEngine stores methods of its log buffers
    "datetime.datetime": _Inert,
    "datetime.timedelta": _Inert,
    "easydict.EasyDict": OrderedDict,
    "mmengine.config.config.ConfigDict": OrderedDict,
    "mmengine.logging.history_buffer.HistoryBuffer": _Inert,
    "numpy._core.multiarray._reconstruct": _Inert,
    "numpy._core.multiarray.scalar": _Inert,
    "numpy.core.multiarray._reconstruct": _Inert,
    "numpy.core.multiarray.scalar": _Inert,
    "numpy.dtype": _Inert,
    "numpy.ndarray": _Inert,
    "pathlib.Path": _Inert,
    "pathlib.PosixPath": _Inert,
    "pathlib.WindowsPath": _Inert,
    "yacs.config.CfgNode": OrderedDict,
}


class CheckpointError(ValueError):
    """A checkpoint that cannot be read, or does not fit the model; the message names the file and says why."""


@dataclass(frozen=True)
class CheckpointFile:
    """The tensors of one file.

    Attributes:
        path: Where it lies.
        entry: The entries that led to the tensors, such as ``model``; empty if they lay at the top.
        state: Tensors by the file's own keys, without prefixes of wrappers around the whole model.
    """

    path: str
    entry: str
    state: dict[str, Tensor]


def read_checkpoint(checkpoint: str | os.PathLike[str], map_location: str | torch.device = "cpu") -> CheckpointFile:
    """Open a checkpoint and find its tensors.

    Args:
        checkpoint: A path, or an http(s) address, which is downloaded once into torch's hub folder. The file is what
            ``torch.save`` wrote, or safetensors.
        map_location: Device for the tensors.

    Raises:
        FileNotFoundError: If there is no such file.
        OSError: If the download fails.
        CheckpointError: If the file cannot be read as weights.
        TypeError: If ``checkpoint`` is neither a string nor a path.
    """
    if not isinstance(checkpoint, (str, os.PathLike)):
        raise TypeError(f"checkpoint must be a path or an http(s) address, got {checkpoint!r}")
    path = _local(os.fspath(checkpoint))
    content = _read_safetensors(path, map_location) if _is_safetensors(path) else _read_torch(path, map_location)
    entries: list[str] = []
    while key := next((key for key in _WRAPPERS if isinstance(content.get(key), Mapping)), None):
        content = content[key]
        entries.append(key)
    state = {key: value for key, value in content.items() if isinstance(key, str) and isinstance(value, Tensor)}
    if not state:
        found = ", ".join(repr(key) for key in list(content)[:8])
        raise CheckpointError(
            f"the checkpoint '{path}' holds no weights under the usual names; its entries are: {found}"
        )
    return CheckpointFile(path, ".".join(entries), _without_outer_prefixes(state))


def _local(checkpoint: str) -> str:
    address = urlparse(checkpoint)
    if address.scheme in ("http", "https"):
        folder = os.path.join(torch.hub.get_dir(), "checkpoints")
        path = os.path.join(folder, os.path.basename(address.path))
        if not os.path.exists(path):
            os.makedirs(folder, exist_ok=True)
            try:
                torch.hub.download_url_to_file(checkpoint, path)
            except OSError as error:
                raise OSError(f"checkpoint='{checkpoint}' could not be downloaded: {error}") from error
        return path
    path = os.path.expanduser(checkpoint)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"checkpoint='{checkpoint}' is not a file")
    return path


def _is_safetensors(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(9)[8:9] == b"{"  # 8 bytes of header length, then JSON


def _read_safetensors(path: str, map_location: str | torch.device) -> dict[str, Any]:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError as error:
        raise ImportError(f"'{path}' is a safetensors file: run `pip install safetensors` to read it") from error
    try:
        return load_file(path, device=str(map_location))
    except SafetensorError as error:
        raise CheckpointError(f"'{path}' is not a whole file of safetensors: {error}") from error


def _read_torch(path: str, map_location: str | torch.device) -> Mapping[Any, Any]:
    try:
        with _only_stand_ins():
            content = torch.load(path, map_location=map_location, weights_only=True, mmap=zipfile.is_zipfile(path))
    except Exception as error:  # a damaged file can end in any of them
        refused = re.search(r"GLOBAL ([\w.]+)", str(error))
        if refused is None:
            raise CheckpointError(
                f"'{path}' is not a file of torch.save or safetensors, it is incomplete, or it holds more than data"
            ) from error
        raise CheckpointError(
            f"the checkpoint '{path}' was not opened, since it asks to run {refused[1]}; "
            "if you trust the file, load it yourself and save its state dict alone"
        ) from error
    if not isinstance(content, Mapping):
        raise CheckpointError(f"the checkpoint '{path}' holds a {type(content).__name__}, not a dictionary of tensors")
    return content


@contextmanager
def _only_stand_ins() -> Iterator[None]:
    """Answer names in a pickle by the stand-ins alone, whatever else the process allows."""
    allowed = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    try:
        torch.serialization.add_safe_globals([(stand_in, name) for name, stand_in in _STAND_INS.items()])
        yield
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(allowed)


def _without_outer_prefixes(state: dict[str, Tensor]) -> dict[str, Tensor]:
    while prefix := next((p for p in _OUTER_PREFIXES if all(key.startswith(p) for key in state)), None):
        state = {key[len(prefix) :]: value for key, value in state.items()}
    return state
