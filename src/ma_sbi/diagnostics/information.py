r"""Mutual information between the departure and the context: the I of the theorems.

Nearest neighbours do the counting (Kraskov, Stögbauer & Grassberger 2004, estimator 1;
Ross 2014 where one side is discrete; both read ties as atoms, after Gao et al. 2017). In
several dimensions the first is far too low (20 % at five), so it is calibrated on a
*Gaussian twin*: data of the same size with exactly the same canonical correlations, whose
information is known,

.. math:: \hat I = KSG(\text{data}) + w\, [I_G(\hat\rho) - KSG(\text{twin})]

For Gaussians w is one and this is unbiased. The less the data look like a Gaussian, the
smaller the weight w, down to none: in clusters KSG loses little, and correlations overstate
the information. What is then left is KSG, in several dimensions a lower bound rather than
an estimate.

The sum over canonical pairs would also be right for Gaussians, but counts twice what two
uncorrelated coordinates share, and misses what correlation does not show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats
from scipy.spatial.distance import cdist
from scipy.special import digamma

from ma_sbi.diagnostics.columns import (
    SMALLEST_VARIANCE,
    as_columns,
    departures,
    normal_scores,
    whitened,
)
from ma_sbi.diagnostics.diagnostic import Diagnostic, Findings, Picture
from ma_sbi.diagnostics.estimators import (
    ksg,
    ksg_from_distances,
    largest_entropy,
    plug_in,
    ross,
)
from ma_sbi.diagnostics.thresholds import THRESHOLDS
from ma_sbi.display.progress import steps
from ma_sbi.labels import match_rows
from ma_sbi.protocols import ArrayLike, Context, Encoder
from ma_sbi.randomness import derive
from ma_sbi.reading import merge_rare, read_context
from ma_sbi.validation import as_count

if TYPE_CHECKING:
    from ma_sbi.diagnostics.subject import Subject

__all__ = ["DIAGNOSTIC", "Information", "mutual_information"]

# Coordinates that neighbours are sought in, on either side; linear information uses all.
MOST_NEIGHBOUR_DIMS = 5
# Principal components that are kept of a wide matrix, and rows for each.
MOST_COMPONENTS = 20
ROWS_PER_COMPONENT = 20
# Rows for neighbours in several dimensions, where counting is slow.
MOST_ROWS = 2_000
MOST_ROWS_NULL = 1_000
NUM_TWINS = 2
# Kolmogorov distance to the Gaussian law beyond which calibration fades.
FARTHEST_FROM_GAUSSIAN = 0.03
# Rows for halves against labels; the error of all follows by the square root of n.
MOST_ROWS_HALVES = 4_000
# Rows for the null in one dimension, where counting is fast.
MOST_ROWS_LINE = 5_000
FEWEST_NEIGHBOURS = 5
# Between two numbers, where more neighbours lower the error and add no bias. Beyond the
# most, those of ten thousand rows, they lower it little, and time grows with both.
ROWS_PER_NEIGHBOUR = 250
MOST_NEIGHBOURS = 40
# Splits into halves; their spread gives the standard error.
NUM_SPLITS = 8
# A side with so many rows per value is discrete.
ROWS_PER_VALUE = 10


@dataclass(frozen=True)
class Information:
    """Mutual information between departure and context, in nats.

    Attributes:
        value: Estimate in nats, at least zero, and so a little too high near zero.
        low: Lower end of the 95 % interval.
        high: Upper end.
        upper_bound: What it cannot exceed: the entropy of the context, or of the
            departure, where one is discrete; infinite otherwise.
        p_value: Share of permutations with at least the statistic of the data, with the
            rule of one added; NaN without permutations.
        statistic: What the permutations are compared by, in nats, from at most 1000 rows
            (5000 in one dimension): the estimate for labels; otherwise the linear
            information of all rows plus KSG, uncalibrated.
        null_quantile: 95 % quantile of the statistic over permutations; with missing
            entries among vectors, the sum of both parts', which is a little high.
        estimator: ``"plug-in"``, ``"ross"`` or ``"ksg"``; with missing entries among
            vectors, one for who is missing and one for the rest.
        num_rows: Number of rows.
        num_rare: Rows whose context was too rare to stand alone; merged, so the value is
            a lower bound.
    """

    value: float
    low: float
    high: float
    upper_bound: float
    p_value: float
    statistic: float
    null_quantile: float
    estimator: str
    num_rows: int
    num_rare: int = 0

    @property
    def share(self) -> float:
        """Share of the upper bound; NaN if that is infinite or zero."""
        bounded = 0 < self.upper_bound < float("inf")
        return self.value / self.upper_bound if bounded else float("nan")

    def __str__(self) -> str:
        most = (
            f" of at most {self.upper_bound:.3f}" if np.isfinite(self.upper_bound) else ""
        )
        above = "more" if self.p_value <= THRESHOLDS.dependence else "not shown to be more"
        return (
            f"{self.value:.3f} nats{most} [{self.low:.3f}, {self.high:.3f}], {above} than "
            f"chance (p = {self.p_value:.2g}, {self.estimator}, n = {self.num_rows})"
        )


def mutual_information(
    delta: ArrayLike,
    context: Context,
    *,
    encoder: Encoder | None = None,
    num_neighbours: int | None = None,
    num_permutations: int = 200,
    seed: int | None = None,
    show_progress: bool | None = None,
) -> Information:
    r"""Estimate the information between departures and context, in nats.

    The estimator follows the data: labels or repeated texts against numbers, Ross; both
    discrete, the plug-in with Miller and Madow's correction; numbers or encoded texts,
    KSG calibrated on a Gaussian twin. A departure that is constant within each regime
    gives about the entropy of the regime. Missing entries are a label; among vectors,

    .. math:: I(\delta; z) = I(\delta; m) + P(m = 0)\, I(\delta; z \mid m = 0)

    with m = 1 where the entry is missing.

    The interval comes from random halves: half the difference of two complementary
    halves has the variance of the estimate on all rows. (A bootstrap would repeat rows,
    which neighbours take for infinite density.) It does not include the bias.

    Wide matrices are reduced to at most 20 principal components and neighbours see five
    canonical coordinates of each side: what is beyond counts by its correlation only.
    A departure that is a function of a continuous context has infinite information; the
    estimate is then only large, and its interval has no meaning.

    Args:
        delta: Departures, shape ``(n, dim_x)``; see
            :func:`~ma_sbi.diagnostics.departures`.
        context: One entry per departure: texts, labels, numbers or a table.
        encoder: What turns entries that do not repeat into vectors.
        num_neighbours: Neighbours of the estimators. If None, 5, and between two numbers
            one for every 250 rows if that is more, up to 40: in one dimension they cost no
            bias.
        num_permutations: Permutations of the null; none if 0.
        seed: Seed of twins, halves and permutations.
        show_progress: Whether to show progress, on standard error; if None, to a person:
            on a terminal or in a notebook.

    Raises:
        ValueError: If there are fewer than 20 rows, lengths differ, or the context does
            not repeat and nothing encodes it.

    Example:
        >>> regime = np.arange(400) % 4
        >>> found = mutual_information(regime[:, None] * 0.5, regime, seed=0)
        >>> round(found.value, 2), round(found.upper_bound, 2)
        (1.39, 1.39)
    """
    if num_neighbours is not None:
        num_neighbours = as_count(num_neighbours, "num_neighbours")
    if num_permutations != 0:
        num_permutations = as_count(num_permutations, "num_permutations")
    delta, context = match_rows(delta=delta, context=context)
    columns = as_columns(delta, "delta")
    n = len(columns)
    reading = read_context(context, n, encoder)
    rng = np.random.default_rng(seed)
    options = _Options(num_neighbours, num_permutations, rng, show_progress)
    if columns.shape[1] == 0 or reading.is_constant:
        return _nothing(n)
    if reading.labels is not None:
        found = _with_labels(columns, reading.labels, options)
        return replace(found, num_rare=reading.num_rare)
    known = ~reading.missing
    if known.all():
        return _with_vectors(columns, reading.values, options)
    return _with_gaps(columns, reading.values, known, options)


@dataclass(frozen=True)
class _Options:
    num_neighbours: int | None
    num_permutations: int
    rng: np.random.Generator
    show_progress: bool | None


def _nothing(n: int) -> Information:
    """Return zero for a side that never changes."""
    return Information(0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, "constant", n)


def _with_labels(columns: np.ndarray, labels: np.ndarray, options: _Options) -> Information:
    """Estimate against labels, by plug-in where departures repeat as well."""
    values = np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)
    n, k = len(labels), options.num_neighbours or FEWEST_NEIGHBOURS
    if (values.max() + 1) * ROWS_PER_VALUE <= n:
        bound = min(largest_entropy(labels), largest_entropy(values))

        def table(rows: np.ndarray, shuffled: np.ndarray) -> float:
            return plug_in(values[rows], labels[shuffled])

        return _conclude(table, n, n, bound, "plug-in", options)
    scores = _principal(normal_scores(columns))

    def neighbours(rows: np.ndarray, shuffled: np.ndarray) -> float:
        return ross(_discriminants(scores[rows], labels[shuffled]), labels[shuffled], k)

    slow = scores.shape[1] > 1
    rows_null = min(n, MOST_ROWS_NULL if slow else MOST_ROWS_LINE)
    return _conclude(neighbours, n, rows_null, largest_entropy(labels), "ross", options)


def _with_vectors(
    columns: np.ndarray, values: np.ndarray, options: _Options
) -> Information:
    """Estimate against numbers; a discrete departure plays the part of the labels."""
    values = values[:, np.ptp(values, axis=0) > 0]
    if values.shape[1] == 0:
        return _nothing(len(columns))
    codes = np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)
    if (codes.max() + 1) * ROWS_PER_VALUE <= len(columns):
        labels, _ = merge_rare(codes)
        if labels is not None:
            return _with_labels(values, labels, options)
    a, b = (_principal(normal_scores(side)) for side in (columns, values))
    n = len(a)
    slow = a.shape[1] + b.shape[1] > 2

    def neighbours(rows: int) -> int:
        more = 0 if slow else min(rows // ROWS_PER_NEIGHBOUR, MOST_NEIGHBOURS)
        return options.num_neighbours or max(FEWEST_NEIGHBOURS, more)

    k = neighbours(n)

    def calibrated(rows: np.ndarray, shuffled: np.ndarray) -> float:
        most = MOST_ROWS * len(rows) // n if slow else len(rows)
        return _calibrated(a[rows], b[shuffled], k, most, options.rng)

    rows_null = min(n, MOST_ROWS_NULL if slow else MOST_ROWS_LINE)
    # The order of the rows may carry meaning, and the test uses the first only.
    mixed = options.rng.permutation(n)
    test = _statistic(a[mixed], b[mixed], neighbours(rows_null), rows_null)
    return _conclude(calibrated, n, rows_null, float("inf"), "ksg", options, test)


def _with_gaps(
    columns: np.ndarray, values: np.ndarray, known: np.ndarray, options: _Options
) -> Information:
    """Add the information of an entry to that of its being there."""
    gap = _with_labels(columns, known.astype(int), options)
    share = float(known.mean())
    if known.sum() < ROWS_PER_COMPONENT:
        return replace(gap, estimator=f"{gap.estimator} (missing or not)")
    inner = columns[known]
    inner = inner[:, np.ptp(inner, axis=0) > 0]
    if inner.shape[1] == 0:
        rest = _nothing(int(known.sum()))
    else:
        rest = _with_vectors(inner, values[known], options)
    value = gap.value + share * rest.value
    spread = np.hypot(gap.high - gap.low, share * (rest.high - rest.low)) / 2
    return Information(
        value,
        max(0.0, value - spread),
        value + spread,
        gap.upper_bound + share * rest.upper_bound,
        # Two tests of the same question; NaN stays NaN.
        float(np.clip(2 * np.minimum(gap.p_value, rest.p_value), 0.0, 1.0)),
        gap.statistic + share * rest.statistic,
        gap.null_quantile + share * rest.null_quantile,
        f"{gap.estimator} + {rest.estimator}",
        len(known),
    )


def _conclude(
    estimate: Callable[[np.ndarray, np.ndarray], float],
    n: int,
    rows_null: int,
    bound: float,
    name: str,
    options: _Options,
    test: Callable[[np.ndarray], float] | None = None,
) -> Information:
    """Estimate, add the interval from halves and the null from permutations."""
    rng = options.rng
    everything = np.arange(n)
    value = estimate(everything, everything)
    most = min(n, MOST_ROWS_HALVES) if name == "ross" else n
    error = _error_from_halves(lambda rows: estimate(rows, rows), n, most, rng)
    if test is None:
        some = np.sort(rng.permutation(n)[:rows_null])

        def test(order: np.ndarray) -> float:
            # The permutation of all rows, seen on some.
            return estimate(some, some[np.argsort(order[some])])

    statistic = test(everything)
    null = [
        test(rng.permutation(n))
        for _ in steps(
            range(options.num_permutations),
            "Permuting",
            show_progress=options.show_progress,
        )
    ]
    exceeding = sum(one >= statistic - 1e-12 for one in null)
    width = stats.t.ppf(0.975, NUM_SPLITS) * error
    value = float(np.clip(value, 0.0, bound))
    return Information(
        value,
        float(np.clip(value - width, 0.0, bound)),
        float(np.clip(value + width, 0.0, bound)),
        bound,
        (1 + exceeding) / (1 + len(null)) if null else float("nan"),
        float(statistic),
        float(np.quantile(null, 0.95)) if null else float("nan"),
        name,
        n,
    )


def _error_from_halves(
    estimate: Callable[[np.ndarray], float], n: int, most: int, rng: np.random.Generator
) -> float:
    """Estimate the standard error on n rows from complementary halves of some."""
    differences = []
    for _ in range(NUM_SPLITS):
        order = rng.permutation(n)[:most]
        first, second = np.array_split(order, 2)
        differences.append((estimate(first) - estimate(second)) / 2)
    return float(np.sqrt(np.mean(np.square(differences)) * most / n))


def _calibrated(
    a: np.ndarray, b: np.ndarray, k: int, most: int, rng: np.random.Generator
) -> float:
    """Add to the estimate by neighbours what it misses in the twin."""
    a, b, rho = _canonical(a, b)
    p, q = a.shape[1], b.shape[1]
    linear = -0.5 * np.log1p(-(rho**2)).sum() - _excess(len(a), p, q)
    p, q = min(p, MOST_NEIGHBOUR_DIMS), min(q, MOST_NEIGHBOUR_DIMS)
    # Rows are in no order: the order of the data may mean something.
    rows = np.sort(rng.permutation(len(a))[:most])
    seen = ksg(a[rows][:, :p], b[rows][:, :q], k)
    known = rho[: min(p, q)]
    twins = [ksg(*_twin(len(rows), p, q, known, rng), k) for _ in range(NUM_TWINS)]
    weight = _likeness_to_gaussian(np.hstack([a[:, :p], b[:, :q]]))
    return float(seen + weight * (linear - np.mean(twins)))


def _likeness_to_gaussian(joint: np.ndarray) -> float:
    """Compare squared lengths of whitened rows with their law; one if it is right."""
    white = whitened(joint)
    lengths = np.square(white).sum(axis=1)
    distance = stats.kstest(lengths, stats.chi2(white.shape[1]).cdf).statistic
    excess = max(0.0, distance - 1 / np.sqrt(len(joint)))
    return float(np.exp(-((excess / FARTHEST_FROM_GAUSSIAN) ** 2)))


def _statistic(
    a: np.ndarray, b: np.ndarray, k: int, rows: int
) -> Callable[[np.ndarray], float]:
    """Prepare the test: linear information of all rows plus neighbours of some.

    The first ``rows`` are permuted among themselves, and so are the others: a group of
    permutations like any other, but distances need to be known only once.
    """
    a, b = whitened(a), whitened(b)
    some, others = np.arange(rows), np.arange(rows, len(a))
    if a.shape[1] + b.shape[1] > 2:
        left, right = (
            cdist(
                side[:rows, :MOST_NEIGHBOUR_DIMS],
                side[:rows, :MOST_NEIGHBOUR_DIMS],
                "chebyshev",
            )
            for side in (a, b)
        )

    def test(order: np.ndarray) -> float:
        order = np.concatenate([order[some].argsort(), rows + order[others].argsort()])
        rho = np.linalg.svd(a.T @ b[order] / len(a), compute_uv=False)
        linear = -0.5 * np.log1p(-(np.clip(rho, 0, 1 - 1e-9) ** 2)).sum()
        if a.shape[1] + b.shape[1] == 2:
            return float(linear + ksg(a[:rows], b[order[:rows]], k))
        permuted = right[np.ix_(order[:rows], order[:rows])]
        return float(linear + ksg_from_distances(left, permuted, k))

    return test


def _principal(columns: np.ndarray) -> np.ndarray:
    """Keep the leading principal components of a wide matrix."""
    most = max(1, min(MOST_COMPONENTS, len(columns) // ROWS_PER_COMPONENT))
    centred = columns - columns.mean(axis=0)
    _, scale, axes = np.linalg.svd(centred.T @ centred)
    most = min(most, int((scale > SMALLEST_VARIANCE * scale[0]).sum()))
    if most == columns.shape[1]:
        return columns
    return np.round(centred @ axes[:most].T, 9)


def _canonical(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rotate two sides to canonical coordinates; returns them and the correlations."""
    a, b = whitened(a), whitened(b)
    left, rho, right = np.linalg.svd(a.T @ b / len(a))
    a, b = np.round(a @ left, 9), np.round(b @ right.T, 9)
    return a, b, np.clip(rho, 0.0, 1 - 1e-9)


def _discriminants(columns: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Keep the coordinates in which labels differ most, if there are many."""
    if columns.shape[1] <= MOST_NEIGHBOUR_DIMS:
        return columns
    one_hot = np.eye(labels.max() + 1)[labels]
    one_hot = one_hot[:, np.ptp(one_hot, axis=0) > 0][:, 1:]
    if one_hot.shape[1] == 0:
        return columns[:, :MOST_NEIGHBOUR_DIMS]
    return _canonical(columns, one_hot)[0][:, :MOST_NEIGHBOUR_DIMS]


def _twin(
    n: int, p: int, q: int, rho: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw Gaussians whose sample has exactly these canonical correlations."""
    noise = whitened(rng.standard_normal((n, p + q)))
    a, b = noise[:, :p], noise[:, p:].copy()
    b[:, : len(rho)] = rho * a[:, : len(rho)] + np.sqrt(1 - rho**2) * b[:, : len(rho)]
    return a, b


def _excess(n: int, p: int, q: int) -> float:
    """Return what the linear information of a Gaussian sample is too high by, exactly.

    The log determinant of a Wishart matrix has a bias that does not depend on the
    covariance: a sum of digamma functions.
    """

    def log_det(dim: int) -> float:
        return float(digamma((n - np.arange(1, dim + 1)) / 2).sum())

    return 0.5 * (log_det(p) + log_det(q) - log_det(p + q))


def _run(subject: Subject) -> Information:
    assert subject.x_sim is not None
    context, blind = subject.entries, subject.blind
    encoder: Encoder | None = subject.encoder
    delta = departures(subject.x_obs, subject.x_sim)
    if subject.regimes is not None and blind is not None and blind.context is not None:
        # Regimes of rows whose departures had a part in them would overstate it.
        delta, context, encoder = delta[blind.rows], blind.context, None
    return mutual_information(
        delta,
        context,
        encoder=encoder,
        seed=derive(subject.seed, "information"),
    )


def _draw(check: Findings) -> Picture | None:
    """Draw the information with its interval, and what is tested beside its null."""
    from ma_sbi.display.drawing import AFTER, BEFORE, INK, side_by_side

    found = check.found("information")
    if found is None:
        return None
    figure, (ax,) = side_by_side(1.9)
    ax.barh(0, found.value, 0.5, color=AFTER, alpha=0.85)
    error = np.abs(np.array([[found.low], [found.high]]) - found.value)
    ax.errorbar(found.value, 0, xerr=error, fmt="none", ecolor=INK, capsize=4, lw=1)
    # The statistic need not be the estimate: only it may be compared with its quantile.
    ax.plot(found.statistic, 0, "D", color=BEFORE, ms=6, label="what is tested")
    ax.axvline(
        found.null_quantile, color=BEFORE, lw=1.6, ls="--", label="its 95 % by chance"
    )
    right = max(found.high, found.null_quantile, found.statistic)
    if np.isfinite(found.upper_bound) and found.upper_bound > 0:
        right = max(right, found.upper_bound)
        ax.axvline(found.upper_bound, color=INK, lw=1, label="largest possible")
    ax.set(xlim=(0, 1.08 * right if right > 0 else 1), ylim=(-0.5, 0.5), yticks=[])
    ax.set_xlabel("nats")
    figure.legend(loc="outside upper center", ncols=3)
    return Picture(
        "Information of the context on the departure",
        "Mutual information with its 95 % interval. The diamond is the statistic that is "
        f"tested, the dashed line what it exceeds in 5 % of permutations "
        f"(p = {found.p_value:.2g}).",
        figure,
    )


DIAGNOSTIC = Diagnostic(
    "information",
    "How much information does the context have on the departure?",
    _run,
    needs=("x_sim",),
    draw=_draw,
)
