"""Correcting one block of a table: what a worker does, wherever it is."""

from __future__ import annotations

import hashlib
import re
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch

from ma_sbi.applying import sources
from ma_sbi.applying.contexts import read_as, read_like
from ma_sbi.applying.outputs import format_of
from ma_sbi.applying.sources import Block
from ma_sbi.applying.unread import Unread, find_unread
from ma_sbi.checking.cells import read_x
from ma_sbi.checking.formats import from_arrow
from ma_sbi.context import Entries, is_missing
from ma_sbi.correctors.files import KIND as CORRECTOR
from ma_sbi.correctors.files import Kept, TableColumns
from ma_sbi.display.text import shorten
from ma_sbi.loading import load_kept
from ma_sbi.minilm import embedded_once
from ma_sbi.mixture import few_rows
from ma_sbi.one_at_a_time import local_filters, recorded_warnings
from ma_sbi.posterior import KIND as CORRECTED
from ma_sbi.posterior import CorrectedPosterior
from ma_sbi.posteriors.loading import PickledPosterior, load_posterior
from ma_sbi.protocols import Corrections
from ma_sbi.randomness import derive
from ma_sbi.saving import kind_of
from ma_sbi.telling import untold

__all__ = [
    "CONTEXT_IS",
    "FAR",
    "KNOWN",
    "Finished",
    "Job",
    "X_IS",
    "Told",
    "check_new",
    "correct_block",
    "load_drawn",
    "load_model",
]

X_IS, CONTEXT_IS = "x_is", "context_is"
FAR = "far outside"
KNOWN = "known"
TYPED = (".parquet", ".npz")
NOT_CORRECTED = "not corrected: x or context is not a number"
# Rows of a block where each has a line per candidate, of which there may be a thousand, and
# draws of a block: a flow takes a few kB for each.
CANDIDATE_ROWS = 1_000
MOST_DRAWS = 50_000
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

    @property
    def block_rows(self) -> int:
        """Rows of a block: fewer where each becomes many lines."""
        most = sources.BLOCK_ROWS
        if self.what == "candidates":
            return min(most, CANDIDATE_ROWS)
        return max(1, min(most, MOST_DRAWS // self.draws)) if self.draws else most

    def fingerprint(self) -> str:
        """Tell jobs apart that give different results."""
        digest = hashlib.sha256(self.model + (self.posterior or b""))
        digest.update(repr(self).encode())
        return digest.hexdigest()


class Told(NamedTuple):
    """What there is to say of a block.

    Attributes:
        num_rows: Rows that it was made of.
        num_corrected: Those of them that are corrected.
        num_far: Those of these whose x is far outside the range of calibration.
        contexts: How many of their contexts are of each kind.
        hint: A context that calibration has in another spelling, in words; or nothing.
        warned: What was warned of, by the kind of warning: the first of each.
        unread: Cells that could not be read, by column.
    """

    num_rows: int
    num_corrected: int
    num_far: int
    contexts: dict[str, int]
    hint: str
    warned: dict[str, str]
    unread: tuple[Unread, ...] = ()


class Finished(NamedTuple):
    """A block that was corrected.

    Attributes:
        content: The block as it is written.
        told: What there is to say of it.
    """

    content: bytes
    told: Told


class _Rows(NamedTuple):
    """The rows of a block that can be corrected.

    Attributes:
        num_all: How many rows the block has.
        place: Where they are among these, shape ``(n,)``.
        x: Observations, shape ``(n, dim_x)``.
        entries: Contexts.
        names: Of the columns of x.
    """

    num_all: int
    place: np.ndarray
    x: np.ndarray
    entries: Entries
    names: list[str]

    def corrections(self, corrector: Any) -> Iterator[tuple[np.ndarray, Corrections]]:
        """Correct few rows at a time; yield their places with each."""
        for some in few_rows(*self.x.shape):
            entries = self.entries.iloc[some].reset_index(drop=True)
            yield self.place[some], corrector.corrections(self.x[some], entries)

    def named(self, prefix: str, values: np.ndarray) -> Block:
        """Name columns of values after those of x."""
        return {f"{prefix}_{name}": values[:, i] for i, name in enumerate(self.names)}


# The last model that was loaded, by its content.
_loaded: dict[bytes, Kept] = {}


def load_model(content: bytes, path: Path | None = None) -> Kept:
    """Load a corrector, with its posterior if it has one, once in a process.

    Args:
        content: Of its file.
        path: The file, if it is on this machine: errors name it.
    """
    kept = _loaded.get(content)
    if kept is None:
        with tempfile.TemporaryDirectory() as folder:
            if path is None:
                path = Path(folder) / "model"
                path.write_bytes(content)
            kind = kind_of(path)
            kept = load_kept(path, kind if kind == CORRECTED else CORRECTOR)
        _loaded.clear()
        _loaded[content] = kept
    return kept


# The last posterior, by its content and whether it may be a pickle.
_loaded_posterior: dict[tuple[bytes, bool], Any] = {}


def load_drawn(content: bytes, path: Path | None = None, *, allow_pickle: bool) -> Any:
    """Load a posterior, once in a process.

    Args:
        content: Of its file.
        path: The file, if it is on this machine: errors and warnings name it.
        allow_pickle: Whether it may be a pickle.
    """
    key = (content, allow_pickle)
    if key not in _loaded_posterior:
        with tempfile.TemporaryDirectory() as folder, local_filters():
            if path is None:
                path = Path(folder) / "posterior"
                path.write_bytes(content)
                # The user was warned where the file is.
                warnings.simplefilter("ignore", PickledPosterior)
            posterior = load_posterior(path, allow_pickle=allow_pickle)
        _loaded_posterior.clear()
        _loaded_posterior[key] = posterior
    return _loaded_posterior[key]


def correct_block(job: Job, number: int, first: int, block: Block) -> Finished:
    """Correct the rows of one block.

    Other threads wait meanwhile, as what is warned of is recorded: run several processes,
    of one thread each.

    Args:
        job: What to do.
        number: Of the block, which decides its random numbers.
        first: Number of its first row in the table.
        block: Columns of the table.
    """
    kept = load_model(job.model)
    x, x_is_there, unread_x = _x_of(block, job.columns, first)
    known = kept.corrector.examples().known
    entries, is_readable, unread_context = _context_of(block, job.columns, known, first)
    said = np.full(len(x), NOT_CORRECTED, dtype=object)
    hint = ""
    x_is = np.where(x_is_there, "near", "not a number").astype(object)
    place = np.flatnonzero(x_is_there & is_readable)
    some = entries.iloc[place].reset_index(drop=True)
    names = _x_names(job.columns, x.shape[1])
    rows = _Rows(len(x), place, x[place], some, names)
    with (
        recorded_warnings() as caught,
        untold("unseen"),  # it is said of each row
        embedded_once(),
        torch.no_grad(),
    ):
        if len(place):
            said[place], hint = _kinds(kept.corrector, some)
            far = place[kept.corrector.far_outside(rows.x).cpu().numpy()]
            x_is[far] = FAR
        lines = None
        if job.what == "mean":
            added = _mean(kept.corrector, rows)
        elif job.what == "candidates":
            added, lines = _candidates(kept.corrector, rows)
        else:
            seed = derive(job.seed, f"block {number}")
            added, lines = _draws(_corrected(job, kept), rows, job.draws, seed, kept)
    if job.suffix in TYPED and len(names) == len(job.columns.x_obs):
        # Cells of a csv are texts; those of x are numbers where a format has such.
        texts = [i for i, name in enumerate(names) if _are_objects(block[name])]
        block = block | {names[i]: x[:, i] for i in texts}
    marks = {X_IS: x_is, CONTEXT_IS: said}
    if lines is not None:
        added, lines = _with_bad_rows(added, lines, rows)
        block, marks = (
            {name: _take(one, lines) for name, one in part.items()}
            for part in (block, marks)
        )
        added = {"row": first + lines, **added}
    table = {**block, **added, **marks}
    content = format_of(Path(f"block{job.suffix}")).pack(table)
    warned: dict[str, str] = {}
    for one in caught:
        if issubclass(one.category, UserWarning):
            warned.setdefault(one.category.__name__, shorten(one.message, 1_000))
    num_far = int((x_is == FAR).sum())
    kinds = Counter(said.tolist())
    unread = (*unread_x, *unread_context)
    told = Told(len(x), len(place), num_far, kinds, hint, warned, unread)
    return Finished(content, told)


def check_new(job: Job, names: tuple[str, ...]) -> None:
    """Check that no column of a table has the name of one that is added to it.

    Raises:
        ValueError: If one has.
    """
    x = _x_names(job.columns, len(job.columns.x_obs))
    corrected = [f"corrected_{name}" for name in x]
    new = {
        "mean": [*corrected, *(f"spread_{name}" for name in x), "largest_weight"],
        "candidates": ["row", "candidate", "weight", *corrected],
        "draws": ["row", "draw"],
    }[job.what]
    for name in names:
        is_theta = job.what == "draws" and re.fullmatch(r"theta_\d+", name)
        if name in (*new, X_IS, CONTEXT_IS) or is_theta:
            raise ValueError(
                f"the table has a column {name!r} already, which would be written: "
                "rename it"
            )


def _mean(corrector: Any, rows: _Rows) -> Block:
    """Give every row the mean of its candidates, their spread, and the largest weight."""
    mean, spread = (np.full((rows.num_all, rows.x.shape[1]), np.nan) for _ in range(2))
    largest = np.full(rows.num_all, np.nan)
    for place, found in rows.corrections(corrector):
        weight = found.log_weight.double().exp()[..., None]
        centre = (weight * found.x.double()).sum(dim=0)
        variance = (weight * (found.x.double() - centre).square()).sum(dim=0)
        mean[place], spread[place] = centre.numpy(), variance.sqrt().numpy()
        largest[place] = weight.amax(dim=0)[:, 0].numpy()
    added = rows.named("corrected", mean) | rows.named("spread", spread)
    return added | {"largest_weight": largest}


def _candidates(corrector: Any, rows: _Rows) -> tuple[Block, np.ndarray]:
    """Give every candidate that has a weight a line; return the row of each, too."""
    lines, numbers = [np.empty(0, dtype=int)], [np.empty(0, dtype=int)]
    weights, values = [np.empty(0)], [np.empty((0, rows.x.shape[1]))]
    for place, found in rows.corrections(corrector):
        weight = found.log_weight.T.double().exp()
        row, candidate = weight.nonzero(as_tuple=True)
        lines.append(place[row.numpy()])
        numbers.append(((weight > 0).cumsum(dim=1) - 1)[row, candidate].numpy())
        weights.append(weight[row, candidate].numpy())
        values.append(found.x.transpose(0, 1)[row, candidate].double().numpy())
    added = {"candidate": np.concatenate(numbers), "weight": np.concatenate(weights)}
    added |= rows.named("corrected", np.concatenate(values))
    return added, np.concatenate(lines)


def _draws(
    corrected: CorrectedPosterior, rows: _Rows, num_draws: int, seed: int | None, kept: Kept
) -> tuple[Block, np.ndarray]:
    """Give every draw from the corrected posterior a line; return the row of each, too."""
    if len(rows.place):
        theta = corrected.sample(num_draws, rows.x, rows.entries, seed=seed)
    else:
        # A block without rows has the same columns: one draw tells how many.
        example = corrected.sample(1, kept.shown.x[:1], kept.shown.context.iloc[:1], seed=0)
        theta = example[:, :0]
    drawn = theta.transpose(0, 1).flatten(0, 1).double().cpu().numpy()
    added = {"draw": np.tile(np.arange(num_draws), len(rows.place))}
    added |= {f"theta_{i}": drawn[:, i] for i in range(drawn.shape[1])}
    return added, np.repeat(rows.place, num_draws)


def _with_bad_rows(
    added: Block, lines: np.ndarray, rows: _Rows
) -> tuple[Block, np.ndarray]:
    """Give each row that is not corrected a line, in its place, with nothing added.

    Args:
        added: Columns of the lines.
        lines: The row of each line.
        rows: Those that are corrected.
    """
    bad = np.setdiff1d(np.arange(rows.num_all), rows.place)
    order = np.argsort(np.concatenate([lines, bad]), kind="stable")
    filled: Block = {}
    for name, one in added.items():
        nothing = np.ma.masked_all if one.dtype.kind == "i" else _nan
        join = np.ma.concatenate if one.dtype.kind == "i" else np.concatenate
        filled[name] = join([one, nothing(len(bad), one.dtype)])[order]
    return filled, np.concatenate([lines, bad])[order]


def _nan(num: int, dtype: np.dtype) -> np.ndarray:
    return np.full(num, np.nan, dtype)


def _corrected(job: Job, kept: Kept) -> CorrectedPosterior:
    posterior = kept.posterior
    if job.posterior is not None:
        posterior = load_drawn(job.posterior, allow_pickle=job.allow_pickle)
    return CorrectedPosterior(posterior, kept.corrector)


def _x_of(
    block: Block, columns: TableColumns, first: int
) -> tuple[np.ndarray, np.ndarray, list[Unread]]:
    """Return observations, which rows have only finite numbers, and what is none."""
    parts: list[np.ndarray] = []
    good: list[np.ndarray] = []
    unread: list[Unread] = []
    for name in columns.x_obs:
        cells, numbers = read_x(_as_numpy(block[name]), name)
        parts.append(numbers)
        good.append(np.isfinite(numbers) & (np.abs(numbers) < np.finfo(np.float32).max))
        unread += find_unread(cells, good[-1], name, first, "number")
    return np.hstack(parts), np.logical_and.reduce(np.hstack(good), axis=1), unread


def _context_of(
    block: Block, columns: TableColumns, known: Entries, first: int
) -> tuple[Entries, np.ndarray, list[Unread]]:
    """Return contexts as calibration had them, which rows are read, and what is not."""
    table, read, good, unread = pd.DataFrame(known), [], [], []
    for place, name in enumerate(columns.context):
        cells, like = pd.Series(_as_numpy(block[name])), table.iloc[:, place]
        how = read_as(like)
        read.append(read_like(cells, like, how))
        good.append(is_missing(cells) | ~is_missing(read[-1]))
        unread += find_unread(cells, good[-1], name, first, how)
    if isinstance(known, pd.Series):
        return read[0], good[0], unread
    entries = pd.concat(read, axis=1)
    entries.columns = table.columns  # new tables may have other names
    return entries, np.logical_and.reduce(good), unread


def _kinds(corrector: Any, entries: Entries) -> tuple[np.ndarray, str]:
    """Say of each context what it is to calibration, and what is written differently."""
    said = np.full(len(entries), KNOWN, dtype=object)
    if not hasattr(corrector, "unseen"):
        return np.full(len(entries), "not read", dtype=object), ""
    found = corrector.unseen(entries)
    for name, words in reversed(KINDS.items()):
        said[getattr(found, name)] = words
    gone = is_missing(entries).reshape(len(entries), -1).all(axis=1)
    said[gone] = "missing"
    return said, found.examples.get("written", "")


def _x_names(columns: TableColumns, dim_x: int) -> list[str]:
    if len(columns.x_obs) == dim_x:
        return list(columns.x_obs)
    return [f"{'_'.join(columns.x_obs)}_{place}" for place in range(dim_x)]


def _as_numpy(column: Any) -> np.ndarray:
    return from_arrow(column) if hasattr(column, "to_pandas") else np.asarray(column)


def _are_objects(column: Any) -> bool:
    return isinstance(column, np.ndarray) and column.dtype == object


def _take(column: Any, lines: np.ndarray) -> Any:
    return column.take(lines) if hasattr(column, "to_pylist") else column[lines]
