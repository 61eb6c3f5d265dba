"""Files of tensors and settings that never run code.

Tensors are stored in a safetensors file; settings and package versions are JSON in its
header. Nothing is pickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ma_sbi import __version__
from ma_sbi.writing import written_whole

__all__ = ["kind_of", "read", "write"]


def write(path: str | Path, kind: str, settings: dict[str, Any], **groups: Any) -> None:
    """Write named groups of tensors, with the settings that rebuild the object.

    An older file survives a failure.
    """
    tensors = {
        f"{group}/{name}": tensor.detach().cpu().contiguous()
        for group, members in groups.items()
        for name, tensor in members.items()
    }
    versions = {name: version(name) for name in ("torch", "sbi", "zuko")}
    versions["ma_sbi"] = __version__
    header = json.dumps({"kind": kind, "settings": settings, "versions": versions})
    with written_whole(path) as unfinished:
        save_file(tensors, unfinished, metadata={"ma_sbi": header})


def read(
    path: str | Path, kind: str
) -> tuple[dict[str, Any], dict[str, dict[str, Tensor]]]:
    """Read the settings, and the tensors by group.

    Raises:
        ValueError: If ma-sbi did not write the file, or it holds another kind.
    """
    with _opened(path) as file:
        header = _header(file)
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if header.get("kind") != kind:
        raise ValueError(f"{path} holds {header.get('kind')!r}, expected {kind!r}")
    groups: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        group, _, member = name.partition("/")
        groups.setdefault(group, {})[member] = tensor
    return header["settings"], groups


def kind_of(path: str | Path) -> str | None:
    """Return the kind of object in a file; None if ma-sbi did not write it.

    Raises:
        ValueError: If it is not a safetensors file.
    """
    with _opened(path) as file:
        return _header(file).get("kind")


def _header(file: Any) -> dict[str, Any]:
    return json.loads((file.metadata() or {}).get("ma_sbi", "{}"))


@contextmanager
def _opened(path: str | Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except SafetensorError as error:
        raise ValueError(f"{path} is not a file that ma-sbi saved: {error}") from error
