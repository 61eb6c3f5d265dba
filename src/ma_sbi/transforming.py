"""Any scikit-learn transformer as an encoder: checked, fitted, and asked in one way.

Few transformers know missing entries. Here none has to: rows in which nothing is known are
kept from it, and a gap beside other columns is a blank text where it takes no other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from sklearn.base import clone

from ma_sbi.context import OBJECT, Entries, is_missing
from ma_sbi.display.text import shorten
from ma_sbi.protocols import Encoder

__all__ = ["check_encoder", "fit_encoder", "transform"]

T = TypeVar("T")
EXAMPLES = (
    "CategoryEncoder() for labels, NumberEncoder() for numbers, HashEncoder() or "
    "SentenceEncoder() for texts"
)


def check_encoder(encoder: Any) -> None:
    """Refuse what is no encoder.

    Raises:
        ValueError: If it is a class, a name, or lacks a method of a transformer.
    """
    if isinstance(encoder, type):
        raise ValueError(
            f"encoder must be an object and not a class: write {encoder.__name__}()"
        )
    methods = ("fit", "transform", "get_params")
    if not all(callable(getattr(encoder, name, None)) for name in methods):
        raise ValueError(
            f"encoder must be a scikit-learn transformer, got {shorten(repr(encoder))}: "
            f"pass {EXAMPLES}"
        )


def fit_encoder(encoder: Encoder, entries: Entries) -> Encoder:
    """Fit a copy of an encoder to contexts, leaving out those that are missing.

    Raises:
        ValueError: If it is no encoder, or cannot read these contexts.
    """
    check_encoder(encoder)
    fitted: Encoder = clone(encoder)
    missing = _missing(entries)
    known = entries if _knows_missing(encoder) or missing.all() else entries[~missing]
    return _ask(fitted, fitted.fit, known.reset_index(drop=True))


def transform(encoder: Encoder, entries: Entries) -> np.ndarray:
    """Encode contexts, one row of float64 each; NaN where the context is missing.

    Args:
        encoder: A fitted encoder.
        entries: The contexts.

    Raises:
        ValueError: If the encoder cannot read them, or gives NaN or infinity.

    Example:
        >>> from sklearn.feature_extraction.text import CountVectorizer
        >>> notes = pd.Series(["high", None], dtype=object)
        >>> transform(fit_encoder(CountVectorizer(), notes), notes).tolist()
        [[1.0], [nan]]
    """
    missing = _missing(entries)
    asked = ~missing
    tells_width = hasattr(encoder, "get_feature_names_out")
    if _knows_missing(encoder) or not (asked.any() or tells_width):
        asked = np.ones_like(missing)
    if asked.any():
        known = entries[asked].reset_index(drop=True)
        encoding: Any = _ask(encoder, encoder.transform, known)
        dense = encoding.toarray() if hasattr(encoding, "toarray") else encoding
        vectors = np.asarray(dense, dtype=np.float64).reshape(asked.sum(), -1)
    else:
        width = len(encoder.get_feature_names_out())  # type: ignore[attr-defined]
        vectors = np.empty((0, width))
    values = np.full((len(entries), vectors.shape[1]), np.nan)
    values[asked] = vectors
    if getattr(encoder, "zero_is_missing", False):
        missing = missing | (values == 0).all(axis=1)
    # Numbers that stand for contexts have their vectors, of which some were missing.
    if not getattr(encoder, "by_number", False):
        _check_finite(values, missing, entries)
    values[missing] = np.nan
    return values


def _check_finite(values: np.ndarray, missing: np.ndarray, entries: Entries) -> None:
    failed = ~missing & ~np.isfinite(values).all(axis=1)
    if failed.any():
        shown = shorten(repr(entries.iloc[int(failed.argmax())]))
        raise ValueError(
            "the encoder must give finite numbers for what is not missing; it does not for "
            f"{failed.sum()} of {len(failed)} different contexts (first: {shown})"
        )


def _missing(entries: Entries) -> np.ndarray:
    """Tell in which rows nothing is known, shape ``(n,)``."""
    gaps = is_missing(entries).reshape(len(entries), -1)
    return np.array(gaps.all(axis=1), dtype=bool)


def _knows_missing(encoder: Encoder) -> bool:
    return bool(getattr(encoder, "zero_is_missing", False))


def _ask(encoder: Encoder, method: Callable[[Any], T], entries: Entries) -> T:
    """Show contexts to an encoder; texts that are missing as blanks if it refuses them."""
    if _knows_missing(encoder):
        return method(entries)
    try:
        return method(entries)
    except (AttributeError, TypeError, ValueError) as refusal:
        blank = _blank(entries)
        if blank is not None:
            return _ask(encoder, method, blank)
        raise ValueError(
            f"{type(encoder).__name__} cannot read the context: {shorten(refusal, 160)}; "
            f"{_form(entries)}"
        ) from refusal


def _blank(entries: Entries) -> Entries | None:
    """Put blank texts where texts are missing; None if none are."""
    if isinstance(entries, pd.Series):
        return None
    filled = entries.copy()
    for place in range(entries.shape[1]):
        column = entries.iloc[:, place]
        gaps = pd.isna(column)
        there = column[~gaps]
        if gaps.any() and len(there) and all(isinstance(one, str) for one in there):
            filled.isetitem(place, column.astype(OBJECT).where(~gaps, ""))
    return None if filled.equals(entries) else filled


def _form(entries: Entries) -> str:
    if isinstance(entries, pd.Series):
        return (
            "it is shown a Series of entries: if it reads tables, pass the context as a "
            "DataFrame with one column"
        )
    names = ", ".join(shorten(name) for name in entries.columns[:8])
    return (
        f"it is shown a DataFrame with columns {names}: pass what it reads, or a "
        "sklearn.compose.ColumnTransformer that gives each part its columns"
    )
