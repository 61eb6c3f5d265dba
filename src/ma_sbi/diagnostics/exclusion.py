"""Whether the context may be used at all: it must not depend on theta.

The paper's Exclusion Test asks how much of the variance of the simulations a regression on
the context explains. A leak that does not move a mean passes it: a context that depends on
the size of a parameter that only sets the spread of x explains nothing. So there is a test
of any dependence as well, and both must be passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import RidgeCV

from ma_sbi.context import as_codes
from ma_sbi.diagnostics.columns import as_rows, departures
from ma_sbi.diagnostics.dependence import Dependence, dependence_test
from ma_sbi.diagnostics.diagnostic import CannotRun, Diagnostic
from ma_sbi.diagnostics.thresholds import THRESHOLDS
from ma_sbi.diagnostics.wordings import Blind
from ma_sbi.labels import match_rows
from ma_sbi.protocols import ArrayLike, Context, Encoder
from ma_sbi.randomness import derive
from ma_sbi.reading import ContextReading, read_context
from ma_sbi.validation import as_pairs

if TYPE_CHECKING:
    from ma_sbi.diagnostics.subject import Subject

__all__ = [
    "DIAGNOSTIC",
    "Exclusion",
    "exclusion_test",
    "held_out_r2",
    "held_out_r2_error",
]

FOLDS = 5
PENALTIES = tuple(10.0**power for power in range(-4, 5))
MOST_LABELS = 256
# In a check: enough for a p-value of 0.1 % after the adjustment for two tests, and for as
# many more where regimes are tested besides texts.
NUM_PERMUTATIONS = 1_999
NUM_PERMUTATIONS_BLIND = 3_999


@dataclass(frozen=True)
class Exclusion:
    """Outcome of the exclusion test.

    Attributes:
        r2_sim: Held-out share of the simulations' variance that the context explains; NaN
            if they were not given. A share below zero is worse than the mean.
        r2_obs: The same of the observations.
        r2_delta: The same of the departures; NaN if they are all equal.
        x_sim: Test of dependence between simulations and context, or None.
        theta: Test of dependence between parameters and context, or None.
        p_value: Smallest p-value of these tests, adjusted for their number (Holm); NaN if
            there are none.
        threshold: Largest share of the simulations' variance that passes.
        level: Level of the tests, all together.
        passed: Whether both the threshold and the tests are passed; None if no test could
            be made: neither simulations nor parameters were given, or the context never
            changes within groups.
        reasons: Why, in words.
        num_rows: Number of rows.
    """

    r2_sim: float
    r2_obs: float
    r2_delta: float
    x_sim: Dependence | None
    theta: Dependence | None
    p_value: float
    threshold: float
    level: float
    passed: bool | None
    reasons: tuple[str, ...]
    num_rows: int

    @property
    def verdict(self) -> str:
        """The outcome in a word: passed, failed or not tested."""
        return {True: "passed", False: "failed", None: "not tested"}[self.passed]

    def __str__(self) -> str:
        return f"{self.verdict}: " + " ".join(self.reasons)


def exclusion_test(
    context: Context,
    x_sim: ArrayLike | None = None,
    x_obs: ArrayLike | None = None,
    theta: ArrayLike | None = None,
    *,
    encoder: Encoder | None = None,
    threshold: float = 0.10,
    level: float = 0.05,
    num_permutations: int = 500,
    groups: ArrayLike | Sequence[Any] | None = None,
    blind: Blind | None = None,
    seed: int | None = None,
    show_progress: bool | None = None,
) -> Exclusion:
    r"""Test that simulations and parameters do not depend on the context.

    The paper's criterion is :math:`R^2(x_{sim} \mid z) < 0.10`. This asks in addition
    that no dependence is found by a permutation test of x_sim, and of theta where known,
    at ``level`` for both together. A clean context fails in a share ``level`` of all
    cases; with many rows even a leak too small to matter is found: read ``r2_sim`` and
    the statistic beside the verdict.

    x_sim must be what the simulator gives at the true parameters, drawn without regard to
    the context. Simulations at parameters that were inferred from x_obs contain the
    departure, and fail rightly or wrongly.

    Args:
        context: One entry per row.
        x_sim: Simulations, shape ``(n, dim_x)``.
        x_obs: Observations; paired with the simulations row by row if both are given.
        theta: Parameters, shape ``(n, dim_theta)``, if known.
        encoder: What turns entries that do not repeat into vectors.
        threshold: Largest share of the simulations' variance that passes.
        level: Level of the dependence tests together.
        num_permutations: Permutations of each test.
        groups: One label per row for rows that are not exchangeable; permutations stay
            within groups, and a group is held out as a whole.
        blind: Some rows with regimes in place of texts, which are tested as well.
        seed: Seed of folds, features and permutations.
        show_progress: Whether to show progress, on standard error; if None, to a person:
            on a terminal or in a notebook.

    Raises:
        ValueError: If nothing but the context is given, there are fewer than 20 rows, or
            the rows do not match.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> theta = rng.normal(size=(500, 2))
        >>> x_sim = theta + rng.normal(size=(500, 2))
        >>> exclusion_test(["calm", "storm"] * 250, x_sim, seed=0).passed
        True
        >>> exclusion_test(theta[:, 0] > 0, x_sim, seed=0).passed
        False
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    if not 0 < threshold < 1:
        raise ValueError(f"threshold must lie between 0 and 1, got {threshold!r}")
    x_sim, x_obs, theta, context, groups = match_rows(
        x_sim=x_sim, x_obs=x_obs, theta=theta, context=context, groups=groups
    )
    given = _check(x_sim, x_obs, theta)
    n = len(next(iter(given.values())))
    reading = read_context(context, n, encoder)
    folds = _folds(n, groups, seed)
    unchanging = (
        groups is not None
        and not reading.is_constant
        and not reading.changes_within(as_codes(groups, "groups", n)).any()
    )
    shares = {
        name: _share(values, reading, folds)
        for name, values in given.items()
        if name != "theta"
    }
    if blind is not None and blind.context is not None and "x_sim" in given:
        # Texts hide what their regimes explain: the larger share counts.
        regimes, some = read_context(blind.context), blind.rows
        by_regime = _share(given["x_sim"][some], regimes, folds[some])
        shares["x_sim"] = max(shares["x_sim"], by_regime)
    if "x_sim" in given and "x_obs" in given:
        delta = departures(given["x_obs"], given["x_sim"]).numpy()
        shares["delta"] = _share(delta, reading, folds)
    tests: dict[str, Dependence] = {
        name: dependence_test(
            given[name],
            context,
            encoder=encoder,
            num_permutations=num_permutations,
            groups=groups,
            blind=blind,
            seed=derive(seed, name),
            show_progress=show_progress,
        )
        for name in ("x_sim", "theta")
        if name in given and not unchanging
    }
    nan = float("nan")
    r2_sim = shares.get("x_sim", nan)
    # The smallest of Holm's adjusted p-values is Bonferroni's.
    p_value = nan
    if tests:
        p_value = min(1.0, len(tests) * min(one.p_value for one in tests.values()))
    # A comparison with NaN is false: what was not tested does not fail.
    refused = r2_sim >= threshold or p_value <= level
    passed = False if refused else True if tests else None
    return Exclusion(
        r2_sim,
        shares.get("x_obs", nan),
        shares.get("delta", nan),
        tests.get("x_sim"),
        tests.get("theta"),
        p_value,
        threshold,
        level,
        passed,
        tuple(_reasons(r2_sim, tests, threshold, level, reading, unchanging=unchanging)),
        n,
    )


def held_out_r2(
    values: ArrayLike,
    context: Context,
    *,
    encoder: Encoder | None = None,
    groups: ArrayLike | Sequence[Any] | None = None,
    seed: int | None = None,
) -> float:
    r"""Measure how much of the variance of values the context explains, held out.

    .. math:: R^2 = 1 - \sum_{ij} (v_{ij} - \hat v_{ij})^2 /
        \sum_{ij} (v_{ij} - \bar v_j)^2

    over rows i and columns j, so that columns count by their variance. Each prediction
    comes from the other four of five folds, by ridge regression on labels, numbers or
    encodings, and :math:`\bar v_j` from the same rows.

    Args:
        values: Shape ``(n, dim)``.
        context: One entry per row.
        encoder: What turns entries that do not repeat into vectors.
        groups: One label per row; rows that share one are held out together.
        seed: Seed of the folds.

    Returns:
        The share; NaN if the values never change.
    """
    values, context, groups = match_rows(values=values, context=context, groups=groups)
    matrix = as_rows(values, "values")
    reading = read_context(context, len(matrix), encoder)
    return _share(matrix, reading, _folds(len(matrix), groups, seed))


def held_out_r2_error(
    values: ArrayLike,
    context: Context,
    *,
    encoder: Encoder | None = None,
    groups: ArrayLike | Sequence[Any] | None = None,
    seed: int | None = None,
) -> float:
    """Return the standard error of :func:`held_out_r2`, from the spread over rows.

    It is that of a ratio of means over rows, or over groups if there are any. It does not
    include what another split or another fit would change.

    Args:
        values: Shape ``(n, dim)``.
        context: One entry per row.
        encoder: What turns entries that do not repeat into vectors.
        groups: One label per row; rows that share one are held out together.
        seed: Seed of the folds.

    Returns:
        The error; NaN if the values never change.
    """
    values, context, groups = match_rows(values=values, context=context, groups=groups)
    matrix = as_rows(values, "values")
    n = len(matrix)
    reading = read_context(context, n, encoder)
    left, whole = _errors(matrix, reading, _folds(n, groups, seed))
    if not whole.sum() > 0:
        return float("nan")
    unit = np.arange(n) if groups is None else as_codes(groups, "groups", n)
    surplus = np.bincount(unit, left - left.sum() / whole.sum() * whole)
    return float(np.sqrt(len(surplus)) * surplus.std(ddof=1) / whole.sum())


def _check(
    x_sim: ArrayLike | None, x_obs: ArrayLike | None, theta: ArrayLike | None
) -> dict[str, np.ndarray]:
    sides = {"x_sim": x_sim, "x_obs": x_obs, "theta": theta}
    given = {name: as_rows(side, name) for name, side in sides.items() if side is not None}
    if not given:
        raise ValueError("pass x_sim, x_obs or theta: the context alone cannot be tested")
    if x_sim is not None and x_obs is not None:
        as_pairs(x_obs, x_sim)
    rows = {name: len(matrix) for name, matrix in given.items()}
    if len(set(rows.values())) > 1:
        counts = ", ".join(f"{name} has {count}" for name, count in rows.items())
        raise ValueError(f"all must have one row per context entry, but {counts}")
    return given


def _folds(n: int, groups: Any, seed: int | None) -> np.ndarray:
    """Assign rows, or whole groups, to folds, shape ``(n,)``."""
    units = np.arange(n) if groups is None else as_codes(groups, "groups", n)
    num_units = int(units.max()) + 1
    if num_units < 2:
        raise ValueError("groups must name at least two groups")
    rng = np.random.default_rng(derive(seed, "folds"))
    fold = rng.permutation(num_units) % min(FOLDS, num_units)
    return fold[units]


def _share(values: np.ndarray, reading: ContextReading, folds: np.ndarray) -> float:
    left, whole = _errors(values, reading, folds)
    return float(1 - left.sum() / whole.sum()) if whole.sum() > 0 else float("nan")


def _errors(
    values: np.ndarray, reading: ContextReading, folds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return squared errors with and without the context, each of shape ``(n,)``."""
    left, whole = np.zeros(len(values)), np.zeros(len(values))
    if not np.ptp(values, axis=0).any():
        return left, whole
    features = _features(reading)
    for fold in np.unique(folds):
        learn, judge = folds != fold, folds == fold
        mean = values[learn].mean(axis=0)
        predicted = mean
        if features.shape[1]:
            predicted = _regress(features[learn], values[learn] - mean, features[judge])
            predicted = predicted + mean
        left[judge] = np.square(values[judge] - predicted).sum(axis=1)
        whole[judge] = np.square(values[judge] - mean).sum(axis=1)
    return left, whole


def _regress(known: np.ndarray, values: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Predict by ridge regression, its penalty chosen by leaving one out."""
    centre, scale = known.mean(axis=0), known.std(axis=0)
    use = scale > 1e-12
    if not use.any():
        return np.zeros((len(new), values.shape[1]))
    known, new = ((side[:, use] - centre[use]) / scale[use] for side in (known, new))
    # One penalty for all columns: the widest decide, as they do in the share.
    ridge = RidgeCV(np.array(PENALTIES) * len(known), fit_intercept=True)
    return ridge.fit(known, values).predict(new).reshape(len(new), -1)


def _features(reading: ContextReading) -> np.ndarray:
    """Turn a context into columns of a regression; being missing is a column of its own."""
    if reading.labels is not None:
        return reading.one_hot(MOST_LABELS)
    missing = reading.missing
    if missing.all():
        return np.zeros((len(missing), 0))
    values = np.where(missing[:, None], np.nanmean(reading.values, axis=0), reading.values)
    return np.hstack([values, missing[:, None]]) if missing.any() else values


def _reasons(
    r2_sim: float,
    tests: dict[str, Dependence],
    threshold: float,
    level: float,
    reading: ContextReading,
    *,
    unchanging: bool,
) -> list[str]:
    if not tests and not unchanging:
        return [
            "Neither simulations nor parameters were given: observations depend on the "
            "context through the departure as well as through theta."
        ]
    reasons = []
    if reading.is_constant:
        reasons.append("The context is the same in every row, so nothing depends on it.")
    if not np.isnan(r2_sim):
        below = "below" if r2_sim < threshold else "not below"
        reasons.append(
            f"The context explains {max(r2_sim, 0):.1%} of the variance of the "
            f"simulations, {below} the threshold of {threshold:.0%}."
        )
    if unchanging:
        reasons.append(
            "The context never changes within a group, so permuting it there tests "
            "nothing: pass one row per group, for example their means."
        )
    names = {"x_sim": "simulations", "theta": "parameters"}
    cut = level / max(len(tests), 1)
    for name, test in tests.items():
        leaks = test.p_value <= cut
        reasons.append(
            f"{'A' if leaks else 'No'} dependence of the {names[name]} on the context was "
            f"found (p = {test.p_value:.2g}, "
            + (f"strongest in {test.strongest}" if leaks else f"level {cut:g}")
            + ")."
        )
    return reasons


def _run(subject: Subject) -> Exclusion:
    if subject.x_sim is None and subject.theta is None:
        raise CannotRun(
            "It needs x_sim or theta: observations depend on the context through the "
            "departure as well as through theta."
        )
    rows = subject.permutable
    return exclusion_test(
        rows.entries,
        rows.x_sim,
        None if rows.x_sim is None else rows.x_obs,
        rows.theta,
        encoder=rows.encoder,
        threshold=THRESHOLDS.leak_that_matters,
        level=THRESHOLDS.leak_found,
        num_permutations=NUM_PERMUTATIONS if rows.blind is None else NUM_PERMUTATIONS_BLIND,
        groups=rows.groups,
        blind=rows.blind,
        seed=derive(subject.seed, "exclusion"),
    )


DIAGNOSTIC = Diagnostic("exclusion", "Is the context independent of theta?", _run)
