"""Files of tensors and settings that never run code.

Tensors are stored in a safetensors file; settings and package versions are JSON in its
header. Nothing is pickled, and nothing that a file says is trusted: see
:mod:`ma_sbi.saved`.
"""

from __future__ import annotations

import json
import math
import re
import stat
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from ma_sbi import __version__
from ma_sbi.display.text import shorten
from ma_sbi.saved import Saved
from ma_sbi.writing import written_whole

__all__ = ["Packed", "kind_of", "named", "read", "require_file", "write"]

MOST_HEADER_BYTES = 4_000_000
"""Enough for ten thousand tensors; parsing JSON takes many times its size."""
DTYPES = {
    torch.float32,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
}


class Packed(NamedTuple):
    """A model as it is written, to a file of its own or as a part of another.

    Attributes:
        kind: What it is.
        settings: What rebuilds it, as JSON can hold it.
        groups: Its tensors, by group and name.
    """

    kind: str
    settings: dict[str, Any]
    groups: dict[str, dict[str, Tensor]]

    def write(self, path: str | Path) -> None:
        """Write a file of its own."""
        write(path, self.kind, self.settings, self.groups)


def write(
    path: str | Path,
    kind: str,
    settings: dict[str, Any],
    groups: Mapping[str, Mapping[str, Tensor]],
    *,
    finite: bool = True,
) -> None:
    """Write named groups of tensors, with the settings that rebuild the object.

    An older file survives a failure.

    Args:
        path: The file.
        kind: What it holds.
        settings: What rebuilds it, as JSON can hold it.
        groups: Tensors, by group and name.
        finite: Whether all numbers must be finite.

    Raises:
        ValueError: If a number is not finite, or of a type that could not be read again.
    """
    tensors = {
        f"{group}/{name}": tensor.detach().cpu().contiguous()
        for group, members in groups.items()
        for name, tensor in members.items()
    }
    for name, tensor in tensors.items():
        if tensor.dtype not in DTYPES:
            raise ValueError(f"{name} has type {tensor.dtype}, which is not saved")
        if finite and not tensor.isfinite().all():
            raise ValueError(f"{name} is not finite (NaN or infinite), and is not saved")
    versions = {name: version(name) for name in ("torch", "sbi", "zuko")}
    versions["ma_sbi"] = __version__
    content = {"kind": kind, "settings": settings, "versions": versions}
    header = json.dumps(content, allow_nan=False)
    if len(header) + 200 * len(tensors) > MOST_HEADER_BYTES:
        raise ValueError(
            f"this {kind} has {len(tensors)} tensors, more than a file can describe"
        )
    with written_whole(path) as unfinished:
        save_file(tensors, unfinished, metadata={"ma_sbi": header})


def read(path: str | Path, kind: str, *, finite: bool = True) -> Saved:
    """Read a file of one kind.

    Args:
        path: The file.
        kind: What it must hold.
        finite: Whether all numbers must be finite.

    Raises:
        ValueError: If ma-sbi did not write the file, it holds another kind, or numbers in
            it are not finite.
        OSError: If there is no such file.
    """
    header, tensors = _read(path, with_tensors=True)
    found, settings = header["kind"], header["settings"]
    if found != kind:
        _refuse(path, f"holds {shorten(repr(found))}, expected {kind!r}")
    groups: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        shown = shorten(repr(name))
        if tensor.dtype not in DTYPES:
            _refuse(path, f"holds tensor {shown} of type {tensor.dtype}")
        if finite and not tensor.isfinite().all():
            _refuse(path, f"holds tensor {shown}, which is not finite (NaN or infinite)")
        group, _, member = name.partition("/")
        groups.setdefault(group, {})[member] = tensor
    return Saved(named(path), settings, groups)


def kind_of(path: str | Path) -> str:
    """Return the kind of object in a file.

    Raises:
        ValueError: If ma-sbi did not write it.
        OSError: If there is no such file.
    """
    return _read(path, with_tensors=False)[0]["kind"]


def require_file(path: str | Path) -> None:
    """Check that there is a file to read, without opening it: a pipe would wait for ever.

    Raises:
        OSError: If there is none.
        ValueError: If it is something else, such as a folder.
    """
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {named(path)}") from None
    except (OSError, ValueError) as error:  # a name that no file can have
        raise ValueError(f"{named(path)} cannot be read: {shorten(error)}") from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise ValueError(f"{named(path)} is {kind}, expected a file that ma-sbi saved")


def _read(
    path: str | Path, *, with_tensors: bool
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the header, and the tensors if they are wanted."""
    require_file(path)
    with Path(path).open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
    if size > MOST_HEADER_BYTES:
        # Of what is no safetensors file, the first bytes are any number.
        _refuse(
            path,
            "is not a file that ma-sbi saved: pass one that save, or ma-sbi fit, wrote",
        )
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            names = file.keys() if with_tensors else []
            tensors = {name: file.get_tensor(name) for name in names}
    except Exception as error:  # what comes from outside may fail in any way
        _refuse(path, f"is not a file that ma-sbi saved: {shorten(error)}", error)
    if "ma_sbi" not in metadata:
        _refuse(path, "is not a file that ma-sbi saved: it has no header of ma-sbi's")
    try:
        header = json.loads(metadata["ma_sbi"], parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError) as error:
        _refuse(path, f"has a header that cannot be read: {shorten(error)}", error)
    _check_header(path, header)
    return header, tensors


def _check_header(path: str | Path, header: Any) -> None:
    forms = {"kind": str, "settings": dict, "versions": dict}
    for name, form in forms.items():
        if not isinstance(header, dict) or not isinstance(header.get(name), form):
            _refuse(path, f"has a header that ma-sbi did not write: no {name} in it")
    written_by = header["versions"].get("ma_sbi")
    if not isinstance(written_by, str) or not re.match(r"\d{1,9}\.\d{1,9}", written_by):
        _refuse(path, "does not say which version of ma-sbi wrote it")
    if _release(written_by) > _release(__version__):
        _refuse(
            path,
            f"was written by ma-sbi {shorten(written_by, 40)}, which is newer than this "
            f"version, {__version__}; install that one to read it",
        )


def _release(version: str) -> tuple[int, ...]:
    """Give the first two numbers of a version: files of one release are alike."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def _finite(written: str) -> float:
    number = float(written)
    if not math.isfinite(number):
        raise ValueError(f"{shorten(written, 40)} is not a finite number")
    return number


def named(path: str | Path) -> str:
    """Write the name of a file as errors do: it may hold anything."""
    return shorten(path, 1_000)


def _refuse(path: str | Path, why: str, error: Exception | None = None) -> NoReturn:
    raise ValueError(f"{named(path)} {why}") from error
