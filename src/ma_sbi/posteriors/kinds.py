"""What each kind of model is made by, imported when a file holds one."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["POSTERIORS", "UNPACK", "unpack_with"]

POSTERIORS = {
    "flow": "ma_sbi.posteriors.flow:unpack_flow",
    "ddpm": "ma_sbi.posteriors.diffusion:unpack_ddpm",
    "sbi posterior": "ma_sbi.posteriors.sbi_files:unpack_sbi",
}
UNPACK = POSTERIORS | {"density": "ma_sbi.posteriors.density:unpack_density"}


def unpack_with(kind: str) -> Callable[..., Any]:
    """Return what makes a model of this kind from its settings and tensors."""
    module, _, name = UNPACK[kind].partition(":")
    made: Callable[..., Any] = getattr(import_module(module), name)
    return made
