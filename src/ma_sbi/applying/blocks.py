"""Correcting one block of a table: what a worker does, wherever it is."""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch

from ma_sbi.applying.outputs import format_of
from ma_sbi.applying.sources import Block
from ma_sbi.checking.cells import read_numbers, read_x
from ma_sbi.context import Entries, is_missing
from ma_sbi.correctors.files import Kept, TableColumns
from ma_sbi.loading import load_kept
from ma_sbi.mixture import few_rows
from ma_sbi.one_at_a_time import local_filters
from ma_sbi.posterior import CorrectedPosterior
from ma_sbi.posteriors.loading import load_posterior
from ma_sbi.protocols import Corrections
from ma_sbi.randomness import derive
from ma_sbi.saving import kind_of
from ma_sbi.telling import untold

__all__ = [
    "CONTEXT_IS",
    "KNOWN",
    "Finished",
    "Job",
    "correct_block",
    "load_model",
    "new_names",
    "read_entries",
]

CONTEXT_IS = "context_is"
KNOWN = "known"
TYPED = (".parquet", ".npz")
NOT_CORRECTED = "not corrected: x or context is not a number"
# The first that holds of a row is what is said of it.
KINDS = {
    "far": "unlike all seen",
    "opposed": "may say the opposite",
    "outside": "outside the range",
    "new": "new",
}


@dataclass(frozen=True)
class Job:
    """What is done to every block; it can be sent to another machine.

    Attributes:
        model: Content of the file of a corrector.
        columns: Which columns are x and context.
        suffix: Of the output, which tells its format.
        what: One line per row with the mean of its candidates, or a line for every
            candidate, or for every draw.
        posterior: Content of the file of a posterior; None if there is none, or the model
            holds it.
        allow_pickle: Whether that may be a pickle.
        draws: Draws per row.
        seed: Of the draws.
    """

    model: bytes = field(repr=False)
    columns: TableColumns
    suffix: str
    what: Literal["mean", "candidates", "draws"] = "mean"
    posterior: bytes | None = field(default=None, repr=False)
    allow_pickle: bool = False
    draws: int = 0
    seed: int = 0

    def fingerprint(self) -> str:
        """Tell jobs apart that give different results."""
        digest = hashlib.sha256(self.model + (self.posterior or b""))
        digest.update(repr(self).encode())
        return digest.hexdigest()


class Finished(NamedTuple):
    """A block that was corrected.

    Attributes:
        content: The block as it is written.
        num_rows: Rows that it was made of.
        contexts: How many of their contexts are of each kind.
    """

    content: bytes
    num_rows: int
    contexts: Counter[str]


@lru_cache(maxsize=2)
def load_model(content: bytes) -> Kept:
    """Load a corrector, with its posterior if it has one, once in a process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        path.write_bytes(content)
        return load_kept(path, kind_of(path))


@lru_cache(maxsize=2)
def _load_posterior(content: bytes, *, allow_pickle: bool) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "posterior"
        path.write_bytes(content)
        return load_posterior(path, allow_pickle=allow_pickle)


def correct_block(job: Job, number: int, first: int, block: Block) -> Finished:
    """Correct the rows of one block.

    Args:
        job: What to do.
        number: Of the block, which decides its random numbers.
        first: Number of its first row in the table.
        block: Columns of the table.
    """
    kept = load_model(job.model)
    x, x_is_there = _x_of(block, job.columns)
    entries, is_readable = _context_of(block, job.columns, len(x))
    known = kept.shown.context
    if isinstance(entries, pd.DataFrame) and isinstance(known, pd.DataFrame):
        entries.columns = known.columns  # new tables may have other names
    good = x_is_there & is_readable
    said = np.full(len(x), NOT_CORRECTED, dtype=object)
    rows = np.flatnonzero(good)
    names = _x_names(job.columns, x.shape[1])
    with untold(), local_filters(), torch.no_grad():
        warnings.simplefilter("ignore")
        some = entries.iloc[rows].reset_index(drop=True)
        if len(rows):
            said[rows] = _kinds(kept.corrector, some)
        added, lines = _WAYS[job.what](job, kept, number, x, some, rows, names)
    if job.suffix in TYPED and len(names) == len(job.columns.x_obs):
        # Cells of a csv are texts; those of x are numbers where a format has such.
        block = block | {name: x[:, i] for i, name in enumerate(names)}
    if lines is not None:
        block = {name: _take(one, lines) for name, one in block.items()}
        added = {"row": first + lines, **added}
    is_kind = said if lines is None else said[lines]
    table = {**block, **added, CONTEXT_IS: is_kind}
    content = format_of(Path(f"block{job.suffix}")).pack(table)
    return Finished(content, len(x), Counter(said.tolist()))


def new_names(job: Job) -> list[str]:
    """Name the columns that are added to a table."""
    x = _x_names(job.columns, len(job.columns.x_obs))
    corrected = [f"corrected_{name}" for name in x]
    own = {
        "mean": [*corrected, *(f"spread_{name}" for name in x), "largest_weight"],
        "candidates": ["row", "candidate", "weight", *corrected],
        "draws": ["row", "draw", "theta_0"],
    }
    return [*own[job.what], CONTEXT_IS]


def _mean(
    job: Job,
    kept: Kept,
    number: int,
    x: np.ndarray,
    entries: Entries,
    rows: Any,
    names: Any,
) -> tuple[Block, None]:
    """Give every row the mean of its candidates, their spread, and the largest weight."""
    mean, spread = (np.full(x.shape, np.nan) for _ in range(2))
    largest = np.full(len(x), np.nan)
    for some in few_rows(*x[rows].shape) if len(rows) else []:
        found = _corrections(kept, x[rows[some]], entries.iloc[some])
        weight = found.log_weight.double().exp()[..., None]
        centre = (weight * found.x.double()).sum(dim=0)
        variance = (weight * (found.x.double() - centre).square()).sum(dim=0)
        mean[rows[some]], spread[rows[some]] = centre.numpy(), variance.sqrt().numpy()
        largest[rows[some]] = weight.amax(dim=0)[:, 0].numpy()
    added = {f"corrected_{name}": mean[:, i] for i, name in enumerate(names)}
    added |= {f"spread_{name}": spread[:, i] for i, name in enumerate(names)}
    return added | {"largest_weight": largest}, None


def _candidates(
    job: Job,
    kept: Kept,
    number: int,
    x: np.ndarray,
    entries: Entries,
    rows: Any,
    names: Any,
) -> tuple[Block, np.ndarray]:
    """Give every candidate that has a weight a line."""
    lines, places, weights, values = [], [], [], []
    for some in few_rows(*x[rows].shape) if len(rows) else []:
        found = _corrections(kept, x[rows[some]], entries.iloc[some])
        weight = found.log_weight.T.double().exp()
        row, place = weight.nonzero(as_tuple=True)
        lines.append(rows[some][row.numpy()])
        places.append(((weight > 0).cumsum(dim=1) - 1)[row, place].numpy())
        weights.append(weight[row, place].numpy())
        values.append(found.x.transpose(0, 1)[row, place].double().numpy())
    line = np.concatenate([*lines, np.empty(0, dtype=int)])
    value = np.concatenate([*values, np.empty((0, x.shape[1]))])
    added = {
        "candidate": np.concatenate([*places, np.empty(0, dtype=int)]),
        "weight": np.concatenate([*weights, np.empty(0)]),
        **{f"corrected_{name}": value[:, i] for i, name in enumerate(names)},
    }
    return added, line


def _draws(
    job: Job,
    kept: Kept,
    number: int,
    x: np.ndarray,
    entries: Entries,
    rows: Any,
    names: Any,
) -> tuple[Block, np.ndarray]:
    """Give every draw from the corrected posterior a line."""
    posterior = kept.posterior
    if job.posterior is not None:
        posterior = _load_posterior(job.posterior, allow_pickle=job.allow_pickle)
    corrected = CorrectedPosterior(posterior, kept.corrector)
    seed = derive(job.seed, f"block {number}")
    if not len(rows):
        return {"draw": rows}, rows
    theta = corrected.sample(job.draws, x[rows], entries, seed=seed)
    drawn = theta.transpose(0, 1).flatten(0, 1).double().cpu().numpy()
    line = np.repeat(rows, job.draws)
    added = {
        "draw": np.tile(np.arange(job.draws), len(rows)),
        **{f"theta_{i}": drawn[:, i] for i in range(drawn.shape[1])},
    }
    return added, line


_WAYS: dict[str, Any] = {"mean": _mean, "candidates": _candidates, "draws": _draws}


def _corrections(kept: Kept, x: np.ndarray, entries: Entries) -> Corrections:
    found: Corrections = kept.corrector.corrections(x, entries.reset_index(drop=True))
    return found


def _x_of(block: Block, columns: TableColumns) -> tuple[np.ndarray, np.ndarray]:
    """Return observations, and which rows have only finite numbers."""
    parts = [read_x(_as_numpy(block[name]), name)[1] for name in columns.x_obs]
    x = np.hstack(parts)
    good = np.isfinite(x).all(axis=1) & (np.abs(x) < np.finfo(np.float32).max).all(axis=1)
    return x, good


def _context_of(
    block: Block, columns: TableColumns, num_rows: int
) -> tuple[Entries, np.ndarray]:
    """Return contexts as calibration read them, and which rows can be."""
    good, read = np.ones(num_rows, dtype=bool), {}
    for name, how in zip(columns.context, columns.read_as, strict=True):
        cells = pd.Series(_as_numpy(block[name]))
        read[name] = read_entries(cells, how)
        good &= np.asarray(is_missing(cells) | ~is_missing(read[name]))
    if len(read) == 1:
        return next(iter(read.values())), good
    return pd.DataFrame(read), good


def read_entries(cells: pd.Series, how: str) -> pd.Series:
    """Read a column of a context; what cannot be read is missing.

    Args:
        cells: Of the column.
        how: What they are: ``"number"``, ``"date"`` or ``"label"``.
    """
    if how == "date":
        return pd.to_datetime(cells, errors="coerce")
    there = ~is_missing(cells)
    cells = cells.astype(object).where(there, None)
    if how == "number":
        numbers = read_numbers(cells)
        return pd.Series(np.where(np.isfinite(numbers), numbers, np.nan))
    return pd.Series([None if one is None else str(one) for one in cells], dtype=object)


def _kinds(corrector: Any, entries: Entries) -> np.ndarray:
    """Say of each context what it is to calibration."""
    said = np.full(len(entries), KNOWN, dtype=object)
    if not hasattr(corrector, "unseen"):
        return np.full(len(entries), "not read", dtype=object)
    found = corrector.unseen(entries)
    for name, words in reversed(KINDS.items()):
        said[getattr(found, name)] = words
    gone = is_missing(entries).reshape(len(entries), -1).all(axis=1)
    said[gone] = "missing"
    return said


def _x_names(columns: TableColumns, dim_x: int) -> list[str]:
    if len(columns.x_obs) == dim_x:
        return list(columns.x_obs)
    return [f"{'_'.join(columns.x_obs)}_{place}" for place in range(dim_x)]


def _as_numpy(column: Any) -> np.ndarray:
    if hasattr(column, "to_pandas"):
        column = column.to_pandas().to_numpy()
    return np.asarray(column)


def _take(column: Any, lines: np.ndarray) -> Any:
    return column.take(lines) if hasattr(column, "to_pylist") else column[lines]
