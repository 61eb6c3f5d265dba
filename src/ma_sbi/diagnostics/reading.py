"""How a diagnostic reads its inputs: departures, and contexts as labels or vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import stats
from sklearn.base import clone
from torch import Tensor

from ma_sbi.context import Entries, as_entries, distinct, is_missing
from ma_sbi.protocols import Context, Encoder
from ma_sbi.validation import as_matrix, as_pairs

__all__ = [
    "Reading",
    "as_columns",
    "as_labels",
    "as_rows",
    "departures",
    "normal_scores",
    "read_context",
    "whitened",
]

# Fewer rows tell nothing about a regime's law.
FEWEST_ROWS = 20
FEWEST_PER_LABEL = 5
# About a hundred units in the last place of float32, and how much of a spread that is more
# than such dust, of a few units, may be lost by rounding.
RESOLUTION = 2.0**-17
MOST_LOST = 0.1
# Directions with less of the largest variance are rounding errors.
SMALLEST_VARIANCE = 1e-5


@dataclass(frozen=True)
class Reading:
    """A context as one kind of thing: labels that repeat, or vectors.

    Attributes:
        labels: A code per row, shape ``(n,)``, if entries repeat; None otherwise.
        values: Vectors, shape ``(n, dim)``, if they do not; rows of NaN where missing.
        missing: Which entries are missing, shape ``(n,)``. Among labels they are one.
        num_distinct: Number of different entries.
        num_rare: Rows whose entries are too rare to be labels of their own; they share
            one.
    """

    labels: np.ndarray | None
    values: np.ndarray | None
    missing: np.ndarray
    num_distinct: int
    num_rare: int = 0

    def __len__(self) -> int:
        return len(self.missing)

    def one_hot(self, most: int) -> np.ndarray:
        """Mark each row's label, the most frequent first; beyond ``most``, together."""
        assert self.labels is not None
        counts = np.bincount(self.labels)
        place = np.argsort(np.argsort(-counts, kind="stable"), kind="stable")
        codes = np.minimum(place[self.labels], most - 1)
        return np.eye(codes.max() + 1)[codes]

    def changes_within(self, groups: np.ndarray) -> bool:
        """Whether entries differ within any group, of codes from zero on."""
        seen = self.values if self.labels is None else self.labels[:, None]
        assert seen is not None
        first = seen[np.unique(groups, return_index=True)[1]][groups]
        return not np.array_equal(seen, first, equal_nan=True)

    @property
    def is_constant(self) -> bool:
        """Whether the context says the same in every row."""
        if self.labels is not None:
            return len(np.unique(self.labels)) < 2
        return self.num_distinct < 2


def departures(x_obs: Any, x_sim: Any) -> Tensor:
    """Subtract simulations from observations, without the dust of float32.

    A constant shift of float32 data comes back with rounding errors, and what should be
    one value per regime would look continuous. Differences are rounded to about a hundred
    units in the last place of the largest entry of their column; not in a column whose
    differences are so small beside its largest entry that rounding would change them.

    Args:
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations at the same inputs, shape ``(n, dim_x)``.

    Returns:
        ``x_obs - x_sim``, float64, shape ``(n, dim_x)``.

    Example:
        >>> x = torch.tensor([[0.1], [123.4]])
        >>> departures(x + 0.5, x).unique().numel()
        1
    """
    observed, simulated = as_pairs(x_obs, x_sim)
    delta = observed - simulated
    largest = torch.maximum(observed.abs(), simulated.abs()).amax(dim=0)
    step = torch.where(largest > 0, largest * RESOLUTION, torch.ones_like(largest))
    rounded = (delta / step).round() * step
    spread = delta.std(dim=0, correction=0)
    lost = (delta - rounded).std(dim=0, correction=0) > MOST_LOST * spread
    return torch.where(lost & (spread > step / 32), delta, rounded)


def as_rows(values: Any, name: str) -> np.ndarray:
    """Check a matrix with one row per observation, of which there must be some."""
    matrix = as_matrix(values, name, dtype=torch.float64, device="cpu", column=True).numpy()
    if len(matrix) < FEWEST_ROWS:
        raise ValueError(f"{name} must have at least {FEWEST_ROWS} rows, got {len(matrix)}")
    return matrix


def as_columns(values: Any, name: str) -> np.ndarray:
    """Check a matrix with one row per observation, and drop its constant columns."""
    matrix = as_rows(values, name)
    return matrix[:, np.ptp(matrix, axis=0) > 0]


def normal_scores(columns: np.ndarray) -> np.ndarray:
    """Give every column a normal law by its ranks; ties stay ties."""
    ranks = stats.rankdata(columns, axis=0)
    return stats.norm.ppf((ranks - 0.5) / len(columns))


def whitened(columns: np.ndarray) -> np.ndarray:
    """Rotate to uncorrelated columns of unit variance, the widest first."""
    centred = columns - columns.mean(axis=0)
    scale, axes = np.linalg.eigh(centred.T @ centred / len(columns))
    order = np.flatnonzero(scale > SMALLEST_VARIANCE * scale[-1])[::-1]
    # Equal rows must stay equal to the last bit.
    return np.round(centred @ (axes[:, order] / np.sqrt(scale[order])), 9)


def read_context(
    context: Context, num_rows: int, encoder: Encoder | None = None
) -> Reading:
    """Read a context as labels where most entries repeat, else as vectors.

    Args:
        context: One entry per row: texts, labels, numbers, or a table.
        num_rows: Number of rows.
        encoder: What turns entries that do not repeat into vectors; numbers need none.

    Raises:
        ValueError: If entries neither repeat nor are numbers, and there is no encoder.
    """
    entries = as_entries(context, num_rows=num_rows)
    gaps = is_missing(entries).reshape(num_rows, -1)
    missing = np.array(gaps.all(axis=1))
    _, codes = distinct(entries)
    codes = np.where(missing, -1, codes)
    labels, num_rare = as_labels(codes)
    num_distinct = len(np.unique(codes))
    if labels is not None:
        return Reading(labels, None, missing, num_distinct, num_rare)
    values = _vectors(entries, missing, gaps, num_distinct, encoder)
    missing = np.array(np.isnan(values).any(axis=1))
    return Reading(None, values, missing, num_distinct)


def as_labels(codes: np.ndarray) -> tuple[np.ndarray | None, int]:
    """Merge rare codes into one; None if most rows hold rare ones.

    To merge is to forget which of them it was: information can only get smaller.

    Returns:
        Codes from zero on, or None, and the number of rows that were merged.
    """
    _, codes, counts = np.unique(codes, return_inverse=True, return_counts=True)
    codes = codes.reshape(-1)
    rare = counts[codes] < FEWEST_PER_LABEL
    if rare.sum() * 2 > len(codes):
        return None, 0
    # A single rare code needs no merging, but too few rows are too few.
    merged = np.where(rare, len(counts), codes)
    if 0 < rare.sum() < FEWEST_PER_LABEL:
        # Too few even together: they join the most frequent.
        merged = np.where(rare, counts.argmax(), codes)
    return np.unique(merged, return_inverse=True)[1].reshape(-1), int(rare.sum())


def _vectors(
    entries: Entries,
    missing: np.ndarray,
    gaps: np.ndarray,
    num_distinct: int,
    encoder: Encoder | None,
) -> np.ndarray:
    values = np.full((len(missing), 1), np.nan)
    if missing.all():
        return values
    if encoder is not None:
        encoding = clone(encoder).fit(entries).transform(entries)
        dense = encoding.toarray() if hasattr(encoding, "toarray") else encoding
        values = np.array(dense, dtype=np.float64).reshape(len(missing), -1)
        values[missing] = np.nan
        if np.isnan(values[~missing]).any():
            raise ValueError("the encoder must give finite numbers for what is not missing")
        return values
    numbers = _numbers(entries, gaps)
    if numbers is None:
        raise ValueError(
            f"context has {num_distinct} different entries in {len(missing)} rows and most "
            "of them do not repeat: pass encoder=, for example SentenceEncoder() or "
            "HashEncoder() for texts, a ColumnTransformer for mixed columns"
        )
    # A number that is missing beside others stands at the mean of its column.
    means = np.nanmean(numbers[~missing], axis=0)
    numbers = np.where(np.isnan(numbers), means, numbers)
    numbers[missing] = np.nan
    return numbers


def _numbers(entries: Entries, gaps: np.ndarray) -> np.ndarray | None:
    table = pd.DataFrame(entries)
    known = table.to_numpy(dtype=object)[~gaps].tolist()
    if not all(isinstance(value, (int, float, np.number, np.bool_)) for value in known):
        return None
    numbers = table.where(~gaps, np.nan).to_numpy(dtype=np.float64)
    if np.isinf(numbers).any():
        raise ValueError("context must be finite, got infinite numbers")
    return numbers[:, ~np.isnan(numbers).all(axis=0)]
