"""Contexts that calibration has not seen: how many rows have one, and what is odd of them.

Every corrector remembers the contexts that it was fitted to, and says once per call how
many rows of it have others.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from pandas.api.types import infer_dtype, is_numeric_dtype
from torch import Tensor

from ma_sbi.context import (
    OBJECT,
    Entries,
    distinct,
    in_days,
    in_form_of,
    is_missing,
    spelling,
)
from ma_sbi.correctors.assignment import AT_ONCE, MOST_COMPARED, prediction_limit
from ma_sbi.correctors.encoding import encode
from ma_sbi.correctors.observed_range import ObservedRange
from ma_sbi.correctors.opposites import may_oppose
from ma_sbi.one_at_a_time import local_filters
from ma_sbi.protocols import Encoder
from ma_sbi.reading import read_context
from ma_sbi.storing.forms import stored
from ma_sbi.telling import levels_to_caller, tell

__all__ = ["Examples", "SeenContexts", "Unseen", "UnrelatedContext", "UnseenContext"]

log = logging.getLogger(__name__)
# Calibration rows that are kept, to show later that a corrector does as it did.
MOST_SHOWN = 8
# Share of the calibrated range by which a number may lie outside it.
REACH = 0.5


class UnseenContext(UserWarning):
    """A context that calibration has not seen."""


class UnrelatedContext(UnseenContext):
    """A context that is unlike all that calibration has seen, or a number beyond them."""


@dataclass(frozen=True)
class Unseen:
    """What of the contexts of a call calibration has not seen, row by row.

    Attributes:
        new: Rows whose context was not seen word for word, shape ``(n,)``. Numbers on a
            scale do not count.
        far: Those of them that are far from every context that was seen.
        refused: Those of these that the encoder does not read.
        opposed: Those of them that may say the opposite of the nearest that was seen.
        outside: Rows with a number outside the calibrated range, shape ``(n,)``.
        examples: A context of each kind that occurs, in words; ``written`` is one that
            calibration has in another spelling.
    """

    new: np.ndarray
    far: np.ndarray
    refused: np.ndarray
    opposed: np.ndarray
    outside: np.ndarray
    examples: dict[str, str]

    @classmethod
    def joined(cls, parts: Sequence[Unseen]) -> Unseen:
        """Join blocks of rows."""
        examples: dict[str, str] = {}
        for part in reversed(parts):  # the first that has one decides
            examples |= part.examples
        by_row = [one.name for one in fields(cls) if one.name != "examples"]
        joined = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in by_row
        }
        return cls(**joined, examples=examples)

    def __str__(self) -> str:
        """Count the rows of each kind."""
        said = []
        if self.new.any():
            said.append(
                f"{self.new.sum()} of {len(self.new)} rows have a context that calibration "
                f"has not seen word for word (first: {self.examples['new']})"
            )
        unlike = self.far & ~self.refused
        if unlike.any():
            said.append(f"{unlike.sum()} of them are far from all that it has seen")
        if self.refused.any():
            said.append(f"{self.refused.sum()} of them are unknown to the encoder")
        if self.opposed.any():
            said.append(
                f"{self.opposed.sum()} of them may say the opposite of what it has seen "
                f"({self.examples['opposed']})"
            )
        if self.outside.any():
            said.append(
                f"{self.outside.sum()} of {len(self.outside)} rows have a number outside "
                f"the calibrated range ({self.examples['outside']})"
            )
        return "; ".join(said) or "calibration has seen every context"


class Examples(NamedTuple):
    """A few calibration rows.

    Attributes:
        x: Observations, shape ``(n, dim_x)``.
        context: Their contexts.
        known: All different contexts, of these and of other rows.
    """

    x: Tensor
    context: Entries
    known: Entries


@stored(encoding="known dim_z?", shown="n dim_x", low="s?", high="s?", limit="?")
@dataclass(frozen=True, eq=False)
class SeenContexts:
    """The contexts that a corrector was fitted to, and the range of its observations.

    Attributes:
        known: The distinct contexts.
        encoder: The fitted encoder; None if contexts are compared and not read.
        encoding: Its vectors of the distinct contexts, shape ``(num_distinct, dim_z)``.
        shown: Observations of the first of them, shape ``(n, dim_x)``.
        x_range: Between which numbers all observations lie.
        scales: Places of columns that are numbers on a scale.
        names: Places of all others.
        low: Least number of each scale, shape ``(num_scales,)``.
        high: Largest.
        repeat: Whether most contexts occur several times. Where they do, every new one is
            worth a warning; where they do not, as in free text, only an odd one is.
        limit: How far a context may be from the nearest one without being unrelated.
    """

    known: Entries
    encoder: Encoder | None
    encoding: Tensor
    shown: Tensor
    x_range: ObservedRange
    scales: tuple[int, ...]
    names: tuple[int, ...]
    low: np.ndarray
    high: np.ndarray
    repeat: bool
    limit: float = torch.inf

    def __post_init__(self) -> None:
        width = getattr(self.encoder, "dim_", self.encoding.shape[1])
        if width != self.encoding.shape[1]:
            raise ValueError(
                f"the encoder gives vectors of {width} columns, and calibration contexts "
                f"have {self.encoding.shape[1]}"
            )

    @classmethod
    def of(
        cls,
        entries: Entries,
        x_obs: Tensor,
        encoder: Any = None,
        encoding: Tensor | None = None,
    ) -> SeenContexts:
        """Remember calibration rows.

        Args:
            entries: One context per calibration row.
            x_obs: Observations of these rows, shape ``(n, dim_x)``.
            encoder: The fitted encoder; None if contexts are compared and not read.
            encoding: Its vectors of the distinct contexts; encoded here if None.
        """
        known, codes = distinct(entries)
        if encoding is None:
            encoding = _encode(encoder, known, 1)
        # Numbers that stand for contexts are no scale.
        compared = encoder is None or getattr(encoder, "by_number", False)
        is_scale = [
            kind == "numbers" and not compared for kind in read_context(entries).kinds
        ]
        scales = tuple(place for place, scale in enumerate(is_scale) if scale)
        names = tuple(place for place, scale in enumerate(is_scale) if not scale)
        numbers = _numbers(known, scales)
        with local_filters():
            warnings.simplefilter("ignore", RuntimeWarning)  # a column without numbers
            low, high = (f(numbers, axis=0) for f in (np.nanmin, np.nanmax))
        first = np.unique(codes, return_index=True)[1][:MOST_SHOWN]
        seen = cls(
            known,
            encoder,
            encoding,
            x_obs[torch.from_numpy(first).to(x_obs.device)],
            ObservedRange.of(x_obs),
            scales,
            names,
            low,
            high,
            # Contexts that differ in a number on a scale alone are the same here.
            repeat=len(set(_words(known, names))) <= len(entries) / 2,
        )
        limited = bool(names) and not compared
        return replace(seen, limit=seen._limit()) if limited else seen

    @property
    def stand_in(self) -> bool:
        """Whether contexts are numbers of others."""
        return getattr(self.encoder, "by_number", False)

    @cached_property
    def words(self) -> list[tuple[Any, ...]]:
        """What of each known context is compared word for word."""
        return _words(self.known, self.names)

    @cached_property
    def different(self) -> set[tuple[Any, ...]]:
        """The same, each once."""
        return set(self.words)

    @cached_property
    def by_spelling(self) -> dict[tuple[str, ...], tuple[Any, ...]]:
        """The same by their spelling, the first of each."""
        return {tuple(map(spelling, one)): one for one in reversed(self.words)}

    def examples(self) -> Examples:
        """Return a few calibration rows."""
        return Examples(self.shown, self.known.iloc[: len(self.shown)], self.known)

    def conform(self, entries: Entries) -> Entries:
        """Bring contexts into the form of those that were seen, columns by their names.

        Raises:
            ValueError: If they have other columns.
        """
        if (
            self.encoder is None
            or self.stand_in
            or getattr(self.encoder, "any_form", False)
        ):
            return entries
        return self._with_numbers(in_form_of(self.known, entries))

    def _with_numbers(self, entries: Entries) -> Entries:
        """Make numbers of texts that are, in columns of numbers on a scale."""
        table, known = pd.DataFrame(entries), pd.DataFrame(self.known)
        for place in self.scales:
            column = table.iloc[:, place]
            if is_numeric_dtype(column) or not _is_numbers(known.iloc[:, place]):
                continue
            numbers = pd.to_numeric(column, errors="coerce")
            table.isetitem(place, column.astype(OBJECT).mask(numbers.notna(), numbers))
        return table if isinstance(entries, pd.DataFrame) else table.iloc[:, 0]

    def in_reach(self, entries: Entries) -> Entries:
        """Make numbers missing that are outside the calibrated range by half of it.

        A fit says nothing there: what it would give depends on how it was made. In tables
        only our own encoder reads gaps.
        """
        is_column = isinstance(entries, pd.Series)
        if not (self.scales and (is_column or getattr(self.encoder, "reads_gaps", False))):
            return entries
        numbers = _numbers(entries, self.scales)
        reach = REACH * (self.high - self.low)
        far = (numbers < self.low - reach) | (numbers > self.high + reach)
        if not far.any():
            return entries
        if isinstance(entries, pd.Series):
            return entries.mask(far[:, 0])
        kept = entries.copy()
        for place, rows in zip(self.scales, far.T, strict=True):
            kept.isetitem(place, entries.iloc[:, place].mask(rows))
        return kept

    def read(
        self,
        entries: Entries,
        encoding: Tensor | None = None,
        unlike: Callable[[Tensor], Tensor] | None = None,
    ) -> Unseen:
        """Compare contexts with those that were seen.

        Args:
            entries: One context per row.
            encoding: Vectors of the distinct ones, numbers in reach, if they are known.
            unlike: Tells from vectors ``(n, dim_z)`` which are unlike all that were seen;
                by default, those whose nearest one is further away than they are from
                each other.
        """
        uniques, codes = distinct(entries)
        examples: dict[str, str] = {}
        outside = self._outside(uniques, examples)
        uniques = self.in_reach(uniques)
        words = _words(uniques, self.names)
        new = np.array([one not in self.different for one in words], dtype=bool)
        new &= ~self._missing(uniques, encoding)
        far, refused, opposed = (np.zeros_like(new) for _ in range(3))
        if new.any():
            rows = np.flatnonzero(new)
            examples["new"] = _show(words[rows[0]]) + self._written(words[rows[0]])
            respelled = next((row for row in rows if self._written(words[row])), None)
            if respelled is not None:
                one = words[respelled]
                examples["written"] = _show(one) + self._written(one)
            vectors = (
                self._encode(uniques.iloc[rows]) if encoding is None else encoding[new]
            )
            apart, nearest = self._nearest(vectors)
            beyond = apart > self.limit if unlike is None else unlike(vectors)
            refused[rows] = ~apart.isfinite().cpu().numpy()
            far[rows] = beyond.cpu().numpy() | refused[rows]
            pairs = [
                (words[row], self.words[place])
                for row, place in zip(rows, nearest.tolist(), strict=True)
            ]
            opposed[rows] = [_oppose(*pair) for pair in pairs] & ~far[rows]
            if opposed.any():
                one, other = pairs[int(opposed[rows].argmax())]
                examples["opposed"] = f"{_show(one)} for {_show(other)}"
        kinds = {"new": new, "far": far, "refused": refused, "opposed": opposed}
        by_row = {name: which[codes] for name, which in kinds.items()}
        return Unseen(**by_row, outside=outside[codes], examples=examples)

    def forget(self, entries: Entries, rows: np.ndarray) -> Entries:
        """Make the contexts of some rows missing; numbers on a scale stay.

        Args:
            entries: One context per row.
            rows: Which rows, shape ``(n,)``.
        """
        if not rows.any() or self.stand_in:
            return entries
        if isinstance(entries, pd.Series):
            return entries.mask(rows)
        kept = entries.copy()
        for place in self.names:
            kept.isetitem(place, entries.iloc[:, place].mask(rows))
        return kept

    def _outside(self, uniques: Entries, examples: dict[str, str]) -> np.ndarray:
        numbers = _numbers(uniques, self.scales)
        outside = (numbers < self.low) | (numbers > self.high)
        if outside.any():
            row, column = np.argwhere(outside)[0]
            examples["outside"] = (
                f"first: {numbers[row, column]:g}, calibrated from {self.low[column]:g} to "
                f"{self.high[column]:g}"
            )
        return np.asarray(outside.any(axis=1))

    def _written(self, words: tuple[Any, ...]) -> str:
        """Tell that calibration has the same context in another spelling."""
        known = self.by_spelling.get(tuple(map(spelling, words)))
        if known is None:
            return ""
        return f", which calibration has as {_show(known)}: write it the same way"

    def _missing(self, uniques: Entries, encoding: Tensor | None) -> np.ndarray:
        """Tell where nothing is given that could be compared."""
        if self.stand_in and encoding is not None:
            return encoding.isnan().any(dim=1).cpu().numpy()
        gaps = [is_missing(column) for column in _columns(uniques, self.names)]
        return np.logical_and.reduce(gaps) if gaps else np.ones(len(uniques), dtype=bool)

    def warn(self, found: Unseen, about: str = "") -> None:
        """Say what was found, once: as a warning where it is odd, else in the log.

        Args:
            found: What :meth:`read` found.
            about: What becomes of such rows.
        """
        tell(
            "unseen",
            (id(self), about),
            found,
            lambda parts: self._say(Unseen.joined(parts), about),
        )

    def _say(self, found: Unseen, about: str) -> None:
        odd = found.far.any() or found.outside.any()
        if not (odd or found.new.any()):
            return
        said = f"{found}; {about}" if about else str(found)
        if odd or found.opposed.any() or self.repeat:
            category = UnrelatedContext if odd else UnseenContext
            warnings.warn(said, category, stacklevel=levels_to_caller())
        else:
            log.info(said)

    def _limit(self) -> float:
        """Find how far a context may be from the nearest one without being unrelated."""
        own = float(getattr(self.encoder, "unrelated_from", torch.inf))
        there = self.encoding[~self.encoding.isnan().any(dim=1)][:MOST_COMPARED]
        if len(there) < 2:
            return own
        apart = torch.cdist(there, there).fill_diagonal_(torch.inf).amin(dim=1)
        return min(own, prediction_limit(apart))

    def _nearest(self, encoding: Tensor) -> tuple[Tensor, Tensor]:
        """Find how far the nearest context that was seen is, and which it is."""
        nearest = [
            torch.cdist(part, self.encoding).nan_to_num(nan=torch.inf).min(dim=1)
            for part in encoding.to(self.encoding).split(AT_ONCE)
        ]
        distance, place = zip(*nearest, strict=True)
        return torch.cat(distance), torch.cat(place)

    def _encode(self, entries: Entries) -> Tensor:
        return _encode(self.encoder, entries, self.encoding.shape[1])


def _encode(encoder: Any, entries: Entries, width: int) -> Tensor:
    """Encode contexts; what is not read becomes rows of NaN."""
    nothing = torch.full((len(entries), width), torch.nan, dtype=torch.float64)
    if encoder is None:
        return nothing
    try:
        return encode(encoder, entries.reset_index(drop=True))
    except ValueError:  # an encoder may refuse what it does not know
        return nothing


def _columns(entries: Entries, places: Sequence[int]) -> list[pd.Series]:
    table = pd.DataFrame(entries)
    return [in_days(table.iloc[:, place]) for place in places if place < table.shape[1]]


def _is_numbers(column: pd.Series) -> bool:
    """Tell numbers from dates and spans of time, which are on a scale, too."""
    return infer_dtype(column, skipna=True) in (
        "integer",
        "floating",
        "mixed-integer-float",
    )


def _numbers(entries: Entries, places: Sequence[int]) -> np.ndarray:
    columns = [
        pd.to_numeric(column, errors="coerce") for column in _columns(entries, places)
    ]
    if not columns:
        return np.empty((len(entries), 0))
    return np.stack([column.to_numpy(np.float64) for column in columns], axis=1)


def _words(entries: Entries, places: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return what of each context is compared word for word."""
    columns = [
        column.astype(OBJECT).where(~is_missing(column), None)
        for column in _columns(entries, places)
    ]
    return list(zip(*columns, strict=True)) if columns else [()] * len(entries)


def _oppose(words: tuple[Any, ...], known: tuple[Any, ...]) -> bool:
    return any(
        isinstance(one, str) and isinstance(two, str) and may_oppose(one, two)
        for one, two in zip(words, known, strict=True)
    )


def _show(words: tuple[Any, ...]) -> str:
    shown = repr(words[0] if len(words) == 1 else words)
    return shown if len(shown) <= 60 else shown[:57] + "..."
