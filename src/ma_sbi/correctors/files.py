"""A corrector in a file, with a few rows that show what it does."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ma_sbi.context import Entries
from ma_sbi.correctors.composed import BaseCorrector
from ma_sbi.one_at_a_time import local_filters
from ma_sbi.saving import write
from ma_sbi.storing.forms import form_of, stored
from ma_sbi.storing.packing import Packer
from ma_sbi.telling import levels_to_caller, untold

__all__ = ["KIND", "Kept", "Shown", "TableColumns", "save_corrector"]

KIND = "corrector"
# How far the correction of an example may be from what it was, in units of its spread and
# the size of x: other processors round differently, and neighbours may then change places.
CLOSE = 1e-3


@stored(x="n dim_x", mean="n dim_x", spread="n dim_x")
@dataclass(frozen=True, eq=False)
class Shown:
    """What a corrector did to a few rows when it was saved.

    Attributes:
        x: Observations, shape ``(n, dim_x)``.
        context: Their contexts.
        mean: Their corrections, averaged over candidates.
        spread: Standard deviation of the candidates.
    """

    x: Tensor
    context: Entries
    mean: Tensor
    spread: Tensor

    @classmethod
    def of(cls, corrector: BaseCorrector, x: Tensor, context: Entries) -> Shown:
        """Correct a few rows."""
        with untold(), local_filters(), torch.no_grad():
            warnings.simplefilter("ignore")
            found = corrector.corrections(x.float(), context)
        weight = found.log_weight.exp()[..., None]
        mean = (weight * found.x).sum(dim=0)
        variance = (weight * (found.x - mean).square()).sum(dim=0)
        return cls(x, context, mean, variance.sqrt())

    def is_like(self, other: Shown) -> bool:
        """Tell whether corrections are the same, but for rounding."""
        if self.mean.shape != other.mean.shape:
            return False
        size = self.spread + self.mean.abs() + self.x.abs().to(self.mean)
        apart = torch.maximum(
            (self.mean - other.mean).abs(), (self.spread - other.spread).abs()
        )
        return bool((apart <= CLOSE * size + 1e-6).all())


@stored()
@dataclass(frozen=True)
class TableColumns:
    """Which columns of a table are x and context.

    Attributes:
        x_obs: Names of the observed columns.
        context: Names of the columns of the context.
    """

    x_obs: tuple[str, ...]
    context: tuple[str, ...]


@stored()
@dataclass(frozen=True, eq=False)
class Kept:
    """What a file holds.

    Attributes:
        corrector: A fitted corrector.
        shown: What it does.
        posterior: What is corrected; None if the corrector is kept alone.
        table: Which columns of tables it was fitted to, if it was to a table.
    """

    corrector: Any
    shown: Shown
    posterior: Any = None
    table: TableColumns | None = None


def save_corrector(
    corrector: BaseCorrector,
    path: str | Path,
    kind: str = KIND,
    *,
    posterior: Any = None,
    table: TableColumns | None = None,
) -> None:
    """Write a corrector, and what it corrects, or of what table, if wanted.

    Raises:
        ValueError: If it is not fitted, or some part of it cannot be saved.
    """
    if form_of(corrector) is None:
        raise ValueError(
            f"a {type(corrector).__name__} is code that ma-sbi does not know, and is not "
            "saved: what it is made of may be"
        )
    examples = corrector.examples()
    shown = Shown.of(corrector, examples.x, examples.context)
    packer = Packer()
    tree = packer.pack(Kept(corrector, shown, posterior, table))
    write(path, kind, {"tree": tree}, {"tensors": packer.tensors}, finite=False)
    packer.warn(levels_to_caller())
