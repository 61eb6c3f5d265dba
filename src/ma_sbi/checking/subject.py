"""What a check is given: rows that match, refused in a sentence if they do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from pandas.api.types import is_datetime64_any_dtype
from torch import Tensor

from ma_sbi.context import Entries, as_entries, distinct, is_missing
from ma_sbi.protocols import Context, Encoder
from ma_sbi.randomness import derive, generator
from ma_sbi.validation import as_matrix, as_pairs

__all__ = ["Subject", "check_width", "limit", "validate"]

FEWEST_ROWS = 20
# More rows change no verdict, and texts that do not repeat take a while to read.
MOST_ROWS = 20_000
MOST_TEXTS = 1_000
# Share of a column's deviation that rounding may take.
ROUNDING = 0.01


@dataclass(frozen=True)
class Subject:
    """What is checked: rows that match, already validated.

    Attributes:
        x_obs: Observations, shape ``(n, dim_x)``, float64.
        entries: The context, one entry per row.
        encoder: Context to vectors.
        x_sim: Simulations at the same inputs, or None.
        theta: True parameters, or None.
        groups: A code per row, or None.
        posterior: The trained posterior, or None.
        corrector: The user's own corrector, fitted or not, or None.
        simulator: theta to x, or None.
        seed: Seed of everything.
    """

    x_obs: Tensor
    entries: Any
    encoder: Encoder
    x_sim: Tensor | None = None
    theta: Tensor | None = None
    groups: np.ndarray | None = None
    posterior: Any = None
    corrector: Any = None
    simulator: Callable[..., Any] | None = None
    seed: int | None = None

    def rows(self, chosen: np.ndarray) -> Subject:
        """Keep some rows."""

        def pick(values: Any) -> Any:
            return None if values is None else values[chosen]

        return Subject(
            self.x_obs[chosen],
            self.entries.iloc[chosen].reset_index(drop=True),
            self.encoder,
            pick(self.x_sim),
            pick(self.theta),
            pick(self.groups),
            self.posterior,
            self.corrector,
            self.simulator,
            self.seed,
        )


def validate(x_obs: Any, context: Context, x_sim: Any, theta: Any, groups: Any) -> Subject:
    """Check everything that can be checked before any work is done."""
    observed = _double(x_obs, "x_obs")
    n = len(observed)
    simulated = None
    if x_sim is not None:
        observed, simulated = (side.cpu() for side in as_pairs(x_obs, x_sim))
    _check_precision(observed)
    truth = None if theta is None else _double(theta, "theta")
    if truth is not None and len(truth) != n:
        raise ValueError(
            f"theta must have one row per observation: expected {n}, got {len(truth)}"
        )
    entries = _tidy(as_entries(context, num_rows=n))
    if n < FEWEST_ROWS:
        raise ValueError(
            f"a check needs at least {FEWEST_ROWS} rows, got {n}: so few can show neither "
            "what a context tells nor that it tells nothing it must not"
        )
    _check_context(entries)
    return Subject(observed, entries, None, simulated, truth, _groups(groups, n))  # type: ignore[arg-type]


def _double(values: Any, name: str) -> Tensor:
    return as_matrix(values, name, dtype=torch.float64, device="cpu", column=True)


def _tidy(entries: Entries) -> Entries:
    """Count dates in days, and leave out columns that say the same in every row."""
    if isinstance(entries, pd.Series):
        if is_datetime64_any_dtype(entries):
            return (entries - entries.min()).dt.total_seconds() / 86_400
        return entries
    columns = [_tidy(entries.iloc[:, place]) for place in range(entries.shape[1])]
    telling = [column for column in columns if len(distinct(column)[0]) > 1]
    if len(telling) <= 1:
        return (telling or columns)[0]
    return pd.concat(telling, axis=1)


def _check_precision(x: Tensor) -> None:
    """Refuse columns whose variation single precision, that of posteriors, would lose."""
    spread, size = x.std(dim=0), x.abs().amax(dim=0)
    lost = (spread > 0) & (torch.finfo(torch.float32).eps * size > ROUNDING * spread)
    if lost.any():
        column = int(lost.int().argmax())
        raise ValueError(
            f"x_obs[{column}] varies by {spread[column]:.2g} about values of "
            f"{size[column]:.2g}, which single precision cannot hold; subtract a constant "
            "from that column of x_obs and x_sim"
        )


def _check_context(entries: Entries) -> None:
    if is_missing(entries).all():
        raise ValueError("the context is missing in every row: there is nothing to read")
    uniques, _ = distinct(entries)
    if len(uniques) == 1:
        entry = uniques.iloc[0]
        said = repr(entry if not isinstance(entry, pd.Series) else tuple(entry))
        raise ValueError(
            f"the context says the same in every row ({said[:60]}), so it cannot tell one "
            "departure from another; a departure common to all rows needs no context"
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
            "groups names only two groups; to hold one out takes three or more"
        )
    return codes


def check_width(subject: Subject, posterior: Any) -> None:
    """Check that the posterior reads these x and gives these theta."""
    dim_x = getattr(posterior, "dim_x", None)
    if dim_x is not None and dim_x != subject.x_obs.shape[1]:
        raise ValueError(
            f"the posterior reads x of {dim_x} columns, x_obs has {subject.x_obs.shape[1]}"
        )
    prior = getattr(posterior, "prior", None)
    if subject.theta is not None and prior is not None:
        dim_theta = prior.event_shape[0] if prior.event_shape else 1
        if dim_theta != subject.theta.shape[1]:
            raise ValueError(
                f"the posterior gives theta of {dim_theta} columns, theta has "
                f"{subject.theta.shape[1]}"
            )


def limit(subject: Subject) -> tuple[Subject, list[str]]:
    """Choose rows at random where there are more than a verdict needs."""
    n = len(subject.x_obs)
    columns = pd.DataFrame(subject.entries)
    texts = max(
        (
            len(distinct(columns.iloc[:, place])[0])
            for place in range(columns.shape[1])
            if any(isinstance(entry, str) for entry in columns.iloc[:100, place])
        ),
        default=0,
    )
    most = MOST_TEXTS if 2 * texts > n and texts > MOST_TEXTS else MOST_ROWS
    if n <= most:
        return subject, []
    rows = torch.randperm(n, generator=generator(derive(subject.seed, "limit")))[:most]
    note = f"Of {n} rows, {most} were chosen at random: enough for a verdict."
    return subject.rows(rows.sort().values.numpy()), [note]
