"""The one place that decides whether a context is regimes, free text or numbers.

A column is *regimes* if most of its entries repeat: at least half of the rows that are not
missing hold an entry that occurs five times or more. Numbers must also be few, under 20
different ones; more are *numbers*, of which near ones are alike. Texts that do not repeat
are free *text*.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
from sklearn.base import clone

from ma_sbi.context import (
    Entries,
    as_entries,
    distinct,
    in_days,
    is_missing,
    spelling,
)
from ma_sbi.display.text import shorten
from ma_sbi.encoders import CategoryEncoder, HashEncoder, NumberEncoder, TableEncoder
from ma_sbi.protocols import Context, Encoder
from ma_sbi.transforming import fit_encoder, transform

__all__ = [
    "ContextReading",
    "Kind",
    "about_context",
    "encoder_for",
    "merge_rare",
    "read_context",
]

Kind = Literal["regimes", "text", "numbers"]

# Fewer rows say too little about the distribution within a regime.
FEWEST_PER_LABEL = 5
# More different numbers than this are a scale, not codes of regimes.
MOST_CODES = 19
# Fewer rows may all differ by chance.
FEWEST_DIFFERENT = 10


@dataclass(frozen=True)
class ContextReading:
    """A context with the kind of each of its columns.

    Attributes:
        entries: One entry per row. Dates are counted in days since 1970.
        kinds: The kind of each column.
        missing: Rows in which nothing is known, shape ``(n,)``.
        encoder: The encoder that was given; None if there was none.
    """

    entries: Entries
    kinds: tuple[Kind, ...]
    missing: np.ndarray
    encoder: Encoder | None = None

    def __len__(self) -> int:
        return len(self.missing)

    @cached_property
    def codes(self) -> np.ndarray:
        """A code per row, shape ``(n,)``: equal entries have equal codes, missing -1."""
        return np.where(self.missing, -1, distinct(self.entries)[1])

    @cached_property
    def num_distinct(self) -> int:
        """Number of different entries."""
        return len(np.unique(self.codes))

    @property
    def is_constant(self) -> bool:
        """Whether the context is the same in every row."""
        if self.labels is not None:
            return len(np.unique(self.labels)) < 2
        return self.num_distinct < 2

    @cached_property
    def _merged(self) -> tuple[np.ndarray | None, int]:
        return merge_rare(self.codes) if set(self.kinds) == {"regimes"} else (None, 0)

    @property
    def labels(self) -> np.ndarray | None:
        """A label per row, shape ``(n,)``, with rare entries merged.

        None if some column is not regimes, or if rows of a table do not repeat.
        """
        return self._merged[0]

    @property
    def num_rare(self) -> int:
        """Number of rows whose entries are too rare to be labels of their own."""
        return self._merged[1]

    @cached_property
    def values(self) -> np.ndarray:
        """Vectors, shape ``(n, dim)``, with rows of NaN where all is missing.

        Raises:
            ValueError: If there is free text and no encoder was given.
        """
        if self.missing.all():
            return np.full((len(self), 1), np.nan)
        if self.encoder is None and set(self.kinds) == {"numbers"}:
            return self._numbers()
        if self.encoder is None and "text" in self.kinds:
            raise ValueError(
                f"context has {self.num_distinct} different entries in {len(self)} rows, "
                "and most of them do not repeat: pass encoder=, for example "
                "SentenceEncoder() or HashEncoder() for texts, a ColumnTransformer for "
                "mixed columns"
            )
        encoder = self.suitable_encoder() if self.encoder is None else self.encoder
        values = transform(fit_encoder(encoder, self.entries), self.entries)
        values[self.missing] = np.nan
        if np.isnan(values[~self.missing]).any():
            raise ValueError("the encoder must give finite numbers for what is not missing")
        return values

    @cached_property
    def num_wordings(self) -> int:
        """Number of different texts, in the column of texts that has most of them."""
        table = pd.DataFrame(self.entries)
        columns = [table.iloc[:, place] for place in range(table.shape[1])]
        counts = [
            column[~is_missing(column)].nunique() for column in columns if _is_text(column)
        ]
        return max(counts, default=0)

    def suitable_encoder(
        self, text: Encoder | None = None, *, repeated: bool = False
    ) -> Encoder:
        """Choose an encoder: one-hot for regimes, standardised numbers, hashed text.

        Args:
            text: Encoder of free text; ``HashEncoder``, which sees only spelling, if None.
            repeated: Whether texts that repeat are read as free text, too.

        Raises:
            ValueError: If the context is missing in every row.
        """
        if self.missing.all():
            raise ValueError(
                "the context is missing in every row: pass one text, label or number per "
                "observation"
            )
        chosen: dict[Kind, Encoder] = {
            "regimes": CategoryEncoder(unseen="zero"),
            "text": HashEncoder() if text is None else text,
            "numbers": NumberEncoder(),
        }
        kinds = self.kinds
        if repeated:
            table = pd.DataFrame(self.entries)
            kinds = tuple(
                "text" if _is_text(table.iloc[:, place]) else kind
                for place, kind in enumerate(kinds)
            )
        if len(kinds) == 1 or set(kinds) == {"numbers"}:
            return chosen[kinds[0]]
        return TableEncoder([clone(chosen[kind]) for kind in kinds])

    def one_hot(self, most: int) -> np.ndarray:
        """Mark each row's label, the most frequent first; beyond ``most``, together."""
        assert self.labels is not None
        counts = np.bincount(self.labels)
        place = np.argsort(np.argsort(-counts, kind="stable"), kind="stable")
        codes = np.minimum(place[self.labels], most - 1)
        return np.eye(codes.max() + 1)[codes]

    def changes_within(self, groups: np.ndarray) -> np.ndarray:
        """Tell which rows are of a group whose entries differ, shape ``(n,)``."""
        table = pd.DataFrame({"group": groups, "context": self.codes})
        return (table.groupby("group")["context"].transform("nunique") > 1).to_numpy()

    def _numbers(self) -> np.ndarray:
        table = pd.DataFrame(self.entries)
        gaps = is_missing(table)
        numbers = table.where(~gaps, np.nan).to_numpy(dtype=np.float64)
        if np.isinf(numbers).any():
            raise ValueError("context must be finite, got infinite numbers")
        numbers = numbers[:, ~np.isnan(numbers).all(axis=0)]
        # A number that is missing beside others is set to the mean of its column.
        means = np.nanmean(numbers[~self.missing], axis=0)
        numbers = np.where(np.isnan(numbers), means, numbers)
        numbers[self.missing] = np.nan
        return numbers


def read_context(
    context: Context, num_rows: int | None = None, encoder: Encoder | None = None
) -> ContextReading:
    """Decide for each column of a context whether it is regimes, free text or numbers.

    Args:
        context: One entry per row: texts, labels, numbers, dates, or a table.
        num_rows: Number of rows it must have.
        encoder: Context to vectors, for entries that do not repeat. The entries are then
            kept as they are, since the encoder was made for them.

    Example:
        >>> read_context(["calm", "storm"] * 10).kinds
        ('regimes',)
        >>> read_context([0.1 * i for i in range(40)]).kinds
        ('numbers',)
    """
    entries = as_entries(context, num_rows=num_rows)
    table = pd.DataFrame(entries)
    columns = [in_days(table.iloc[:, place]) for place in range(table.shape[1])]
    gaps = np.stack([is_missing(column) for column in columns], axis=1)
    kinds = tuple(_kind(column[~gap]) for column, gap in zip(columns, gaps.T, strict=True))
    if encoder is None:
        is_table = isinstance(entries, pd.DataFrame)
        entries = pd.concat(columns, axis=1) if is_table else columns[0]
    return ContextReading(entries, kinds, np.array(gaps.all(axis=1)), encoder)


def about_context(entries: Entries, encoder: Encoder | None = None) -> list[str]:
    """Say what is odd about the contexts of calibration, and what to do about it.

    Args:
        entries: One context per row.
        encoder: What reads them, if it is known.

    Example:
        >>> print(*about_context(pd.Series(["9", "9.0"] * 10)))
        '9' and '9.0' count as two contexts: write them alike if they are the same
    """
    reading = read_context(entries)
    by_number = getattr(encoder, "by_number", False)
    if reading.missing.all():
        return [
            "the context is missing in every row, so only the departure that all rows "
            "share can be learned: pass one text, label or number per observation"
        ]
    if reading.num_distinct == 1:
        entry = shorten(repr(pd.DataFrame(entries).iloc[0].tolist())[1:-1])
        same = "so only the average departure can be learned and the context has no effect"
        if by_number:
            return [f"every calibration row has the same context, {same}"]
        return [
            f"every calibration row has the same context ({entry}), {same}: pass one entry "
            "per observation"
        ]
    if by_number:
        return []
    table = pd.DataFrame(entries)
    columns = [table.iloc[:, place] for place in range(table.shape[1])]
    there = [column[~is_missing(column)] for column in columns]
    said = [_spelled_twice(one) for one in there]
    if len(columns) == 1:
        said.append(_never_repeat(there[0], encoder))
    return [sentence for sentence in said if sentence]


def _spelled_twice(there: pd.Series) -> str:
    """Tell of labels that differ only in how they are written."""
    if _kind(there) != "regimes":
        return ""
    seen: dict[str, object] = {}
    for entry in distinct(there)[0]:
        other = seen.setdefault(spelling(entry), entry)
        if other is not entry:
            return (
                f"{shorten(repr(other))} and {shorten(repr(entry))} count as two contexts: "
                "write them alike if they are the same"
            )
    return ""


def _never_repeat(there: pd.Series, encoder: Encoder | None) -> str:
    """Tell of names that no two rows share, such as ids."""
    num = len(there)
    if num < FEWEST_DIFFERENT or there.nunique() < num or not _is_text(there):
        return ""
    are_ids = all(len(one.split()) == 1 and any(map(str.isdigit, one)) for one in there)
    if not (are_ids or isinstance(encoder, CategoryEncoder)):
        return ""
    return (
        f"no two of {num} rows share a context (first: {shorten(repr(there.iloc[0]))}), so "
        "what is learned of one tells nothing of another: pass labels that repeat, or what "
        "was noted in place of an id"
    )


def encoder_for(context: Context) -> Encoder:
    """Choose an encoder for a context that comes without one.

    Free text is hashed, which sees only spelling: pass a ``SentenceEncoder`` where meaning
    counts.

    Raises:
        ValueError: If the context is missing in every row.

    Example:
        >>> encoder_for([0.1 * i for i in range(40)])
        NumberEncoder()
        >>> encoder_for(["calm", "storm"] * 10)
        CategoryEncoder(unseen='zero')
    """
    return read_context(context).suitable_encoder()


def merge_rare(codes: np.ndarray) -> tuple[np.ndarray | None, int]:
    """Merge codes of fewer than five rows into one; None if most rows hold such codes.

    Merging forgets which of them it was: information can only get smaller.

    Returns:
        Codes from zero on, or None, and the number of rows that were merged.
    """
    _, codes, counts = np.unique(codes, return_inverse=True, return_counts=True)
    codes = codes.reshape(-1)
    rare = counts[codes] < FEWEST_PER_LABEL
    if rare.sum() * 2 > len(codes):
        return None, 0
    merged = np.where(rare, len(counts), codes)
    if 0 < rare.sum() < FEWEST_PER_LABEL:
        # Too few even together: they join the most frequent.
        merged = np.where(rare, counts.argmax(), codes)
    return np.unique(merged, return_inverse=True)[1].reshape(-1), int(rare.sum())


def _is_text(column: pd.Series) -> bool:
    """Tell whether all entries that are not missing are strings."""
    there = column[~is_missing(column)]
    return len(there) > 0 and all(isinstance(entry, str) for entry in there.unique())


def _kind(there: pd.Series) -> Kind:
    """Decide on the entries of a column that are not missing."""
    uniques, codes = distinct(there)
    has_text = any(isinstance(entry, str) for entry in uniques)
    is_categorical = isinstance(there.dtype, pd.CategoricalDtype)
    few = has_text or is_categorical or len(uniques) <= MOST_CODES
    if few and (len(there) == 0 or merge_rare(codes)[0] is not None):
        return "regimes"
    return "text" if has_text else "numbers"
