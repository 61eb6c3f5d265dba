r"""Whether simulations, parameters or observations depend on the context in any way.

Regression sees only what moves a mean; it does not see that a context depends on the sign
of a parameter, or on the size of a scale. This test looks for any dependence, with HSIC
(Gretton et al. 2008),

.. math:: HSIC = \| \tfrac1n \Phi_a^\top H \Phi_b \|_F^2

where the features :math:`\Phi` of a are of several kinds: low-order cosines of the rank
of each coordinate and of each principal axis, which see level, spread and tails, and
random Fourier features of Gaussian kernels of three lengths, which see what coordinates do
together. Features are finite, so that a permutation costs one product of matrices.

No kind is best for every leak. The smallest of their p-values is the statistic, and the
same permutations show how small it gets by chance (Westfall & Young 1993): the level is
exact, whatever the number of kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from ma_sbi.context import as_codes
from ma_sbi.diagnostics.columns import as_columns, normal_scores, whitened
from ma_sbi.diagnostics.diagnostic import Diagnostic
from ma_sbi.diagnostics.thresholds import THRESHOLDS
from ma_sbi.diagnostics.wordings import Blind
from ma_sbi.display.progress import steps
from ma_sbi.labels import match_rows
from ma_sbi.protocols import ArrayLike, Context, Encoder
from ma_sbi.randomness import derive
from ma_sbi.reading import ContextReading, read_context
from ma_sbi.validation import as_count

if TYPE_CHECKING:
    from ma_sbi.diagnostics.subject import Subject

__all__ = ["DIAGNOSTIC", "Dependence", "dependence_test"]

NUM_COSINES = 4
NUM_FOURIER = 64
LENGTHS = (0.5, 1.0, 2.0)
# Features of the context: each costs as much as a label.
MOST_CONTEXT_FEATURES = 16
MOST_LABELS = 32
# Columns beyond these are seen through their principal axes only.
MOST_COLUMNS = 64
MOST_AXES = 16
PAIRS_FOR_MEDIAN = 1_000
PERMUTATIONS_AT_ONCE = 16


@dataclass(frozen=True)
class Dependence:
    """Outcome of a permutation test of independence.

    Attributes:
        p_value: Share of permutations at least as extreme, with the rule of one added.
        statistic: How many standard deviations of the permutations the strongest kind of
            feature lies above their mean.
        strongest: That kind.
        num_rows: Number of rows.
        num_permutations: Number of permutations.
    """

    p_value: float
    statistic: float
    strongest: str
    num_rows: int
    num_permutations: int

    def __str__(self) -> str:
        return (
            f"p = {self.p_value:.2g} ({self.strongest}: "
            f"{self.statistic:+.1f} deviations, n = {self.num_rows})"
        )


def dependence_test(
    a: ArrayLike,
    b: Context,
    *,
    encoder: Encoder | None = None,
    num_permutations: int = 500,
    groups: ArrayLike | Sequence[Any] | None = None,
    blind: Blind | None = None,
    seed: int | None = None,
    show_progress: bool | None = None,
) -> Dependence:
    """Test whether numbers are independent of a context, by permuting the context.

    A small p-value shows dependence; a large one shows little where rows are few. The
    level holds if rows are exchangeable: for repeated measures of the same people or
    places pass ``groups``, and the context is permuted within each only.

    Args:
        a: Simulations or parameters, shape ``(n, dim)``.
        b: One entry per row: labels or texts that repeat, numbers, or a table.
        encoder: What turns entries that do not repeat into vectors.
        num_permutations: Number of permutations.
        groups: One label per row; permutations stay within.
        blind: Some rows with regimes in place of texts, which are tested as well; the
            smaller p-value is then doubled.
        seed: Seed of features and permutations.
        show_progress: Whether to show progress, on standard error; if None, to a person:
            on a terminal or in a notebook.

    Raises:
        ValueError: If there are fewer than 20 rows, lengths differ, or the context does
            not repeat and nothing encodes it.

    Example:
        >>> theta = np.random.default_rng(0).uniform(-3, 3, (500, 5))
        >>> leak = np.where(np.abs(theta[:, 2]) > 1.5, "hot", "cold")
        >>> dependence_test(theta, leak, seed=0).p_value < 0.01
        True
    """
    num_permutations = as_count(num_permutations, "num_permutations")
    a, b, groups = match_rows(a=a, b=b, groups=groups)
    if blind is not None:
        return _test_twice(
            a,
            b,
            blind,
            groups,
            encoder=encoder,
            num_permutations=num_permutations,
            seed=seed,
            show_progress=show_progress,
        )
    columns = as_columns(a, "a")
    n = len(columns)
    reading = read_context(b, n, encoder)
    strata = np.zeros(n, int) if groups is None else as_codes(groups, "groups", n)
    rng = np.random.default_rng(seed)
    if columns.shape[1] == 0 or reading.is_constant:
        # What never changes depends on nothing.
        return Dependence(1.0, 0.0, "constant", n, num_permutations)
    context = _context_features(reading, rng)
    blocks = _blocks(columns, rng)
    statistics = _hsic(blocks, context, strata, num_permutations, rng, show_progress)
    return _conclude(statistics, n)


def _test_twice(
    a: Any, b: Context, blind: Blind, groups: Any, *, encoder: Any, **options: Any
) -> Dependence:
    """Test all rows against the context as it is, and some against regimes."""
    found = [dependence_test(a, b, encoder=encoder, groups=groups, **options)]
    if blind.context is not None:
        some = None if groups is None else np.asarray(groups)[blind.rows]
        rows = np.asarray(a)[blind.rows]
        found.append(dependence_test(rows, blind.context, groups=some, **options))
    best = min(found, key=lambda one: one.p_value)
    return replace(best, p_value=min(1.0, 2 * best.p_value), num_rows=found[0].num_rows)


def _conclude(statistics: dict[str, np.ndarray], n: int) -> Dependence:
    """Combine kinds of features by their smallest p-value, itself calibrated.

    Args:
        statistics: For each kind of feature, that of the data and of the permutations,
            shape ``(1 + num_permutations,)``.
        n: Number of rows.
    """
    table = np.stack(list(statistics.values()))
    spread = table.std(axis=1)
    # Rounding must not rank ties.
    table = np.round(
        (table - table.mean(axis=1, keepdims=True)) / np.maximum(spread, 1e-30)[:, None], 9
    )
    # Share at least as large, each time counting the value itself.
    p_values = stats.rankdata(-table, method="max", axis=1) / table.shape[1]
    smallest = p_values.min(axis=0)
    # Ties among smallest p-values are broken by how far out they lie.
    farthest = table.max(axis=0)
    extreme = (smallest < smallest[0]) | (
        (smallest == smallest[0]) & (farthest >= farthest[0])
    )
    strongest = int(np.lexsort((-table[:, 0], p_values[:, 0]))[0])
    null = table[strongest, 1:]
    statistic = (table[strongest, 0] - null.mean()) / max(null.std(), 1e-12)
    return Dependence(
        float(extreme.mean()),
        float(statistic),
        list(statistics)[strongest],
        n,
        table.shape[1] - 1,
    )


def _hsic(
    blocks: dict[str, list[np.ndarray]],
    context: np.ndarray,
    strata: np.ndarray,
    num_permutations: int,
    rng: np.random.Generator,
    show_progress: bool | None,  # noqa: FBT001
) -> dict[str, np.ndarray]:
    """Compute every block's statistics for the data and for permutations of the context."""
    parts = [part for block in blocks.values() for part in block]
    features = np.hstack(parts).astype(np.float32)
    features -= features.mean(axis=0)
    edges = np.cumsum([0, *(part.shape[1] for part in parts)])
    context = context.astype(np.float32)
    norms = []
    batches = range(0, 1 + num_permutations, PERMUTATIONS_AT_ONCE)
    for start in steps(batches, "Permuting", show_progress=show_progress):
        numbers = range(start, min(start + PERMUTATIONS_AT_ONCE, 1 + num_permutations))
        batch = [
            _permutation(strata, rng) if number else np.arange(len(context))
            for number in numbers
        ]
        permuted = context[np.stack(batch, axis=1)].reshape(len(context), -1)
        cross = (features.T @ permuted).reshape(len(features.T), len(batch), -1)
        squares = np.square(cross / len(context)).sum(axis=2, dtype=np.float64)
        norms.append(np.add.reduceat(squares, edges[:-1], axis=0))
    each = np.hstack(norms)
    found: dict[str, np.ndarray] = {}
    first = 0
    for name, block in blocks.items():
        rows = each[first : first + len(block)]
        found[name] = rows.sum(axis=0)
        if len(block) > 1:
            # Coordinates have unlike numbers of ties, so unlike scales.
            scaled = rows / np.maximum(rows.mean(axis=1, keepdims=True), 1e-30)
            found[f"one of the {name}"] = scaled.max(axis=0)
        first += len(block)
    return found


def _permutation(strata: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Permute rows within their strata."""
    shuffled = rng.permutation(len(strata))
    if strata.max() == 0:
        return shuffled
    order = np.empty_like(shuffled)
    order[np.argsort(strata, kind="stable")] = shuffled[
        np.argsort(strata[shuffled], kind="stable")
    ]
    return order


def _blocks(columns: np.ndarray, rng: np.random.Generator) -> dict[str, list[np.ndarray]]:
    """Make the features of a: each kind a list of parts that are summed or maximised."""
    scores = normal_scores(columns)
    axes = _principal_axes(columns)
    blocks = {}
    if columns.shape[1] <= MOST_COLUMNS:
        blocks["coordinates"] = [_cosines(column) for column in columns.T]
    if columns.shape[1] > 1:
        blocks["principal axes"] = [_cosines(axis) for axis in axes.T]
        joint = axes if scores.shape[1] > MOST_COLUMNS else scores
        # Whitened, contrasts between correlated coordinates count as much as their sum.
        for length in LENGTHS:
            name = f"kernel of length {length:g}"
            blocks[name] = [_fourier(joint, length, NUM_FOURIER, rng)]
        blocks["whitened kernel"] = [_fourier(normal_scores(axes), 1.0, NUM_FOURIER, rng)]
    return blocks


def _context_features(reading: ContextReading, rng: np.random.Generator) -> np.ndarray:
    """Make the features of the context, orthonormal, shape ``(n, at most 32)``."""
    if reading.labels is not None:
        one_hot = reading.one_hot(MOST_LABELS)
        return one_hot / np.sqrt(one_hot.mean(axis=0))
    known = ~reading.missing
    features = np.zeros((len(reading), 0))
    values = reading.values[known]
    values = values[:, np.ptp(values, axis=0) > 0] if known.any() else values[:, :0]
    if values.shape[1]:
        axes = values if values.shape[1] == 1 else _principal_axes(values)
        each = [_cosines(axis) for axis in axes.T]
        if axes.shape[1] > 1:
            each.append(_fourier(normal_scores(axes), 1.0, NUM_FOURIER, rng))
        inside = whitened(np.hstack(each))[:, :MOST_CONTEXT_FEATURES]
        features = np.zeros((len(reading), inside.shape[1]))
        features[known] = inside
    if not known.all():
        features = np.hstack([features, known[:, None] / known.std()])
    return features


def _cosines(column: np.ndarray) -> np.ndarray:
    """Evaluate low-order cosines of the rank: level, spread, and finer."""
    level = (stats.rankdata(column) - 0.5) / len(column)
    return np.cos(np.pi * level[:, None] * np.arange(1, NUM_COSINES + 1))


def _fourier(
    points: np.ndarray, length: float, num: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw random features of a Gaussian kernel, in units of the median distance."""
    some = points[rng.integers(len(points), size=(2, PAIRS_FOR_MEDIAN))]
    median = np.median(np.linalg.norm(some[0] - some[1], axis=1))
    frequency = rng.standard_normal((points.shape[1], num)) / (length * max(median, 1e-12))
    phase = rng.uniform(0, 2 * np.pi, num)
    return np.cos(points @ frequency + phase) * np.sqrt(2 / num)


def _principal_axes(columns: np.ndarray) -> np.ndarray:
    """Rotate standardised columns to their principal axes, the widest first."""
    centred = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    _, scale, axes = np.linalg.svd(centred.T @ centred)
    keep = min(MOST_AXES, int((scale > 1e-9 * scale[0]).sum()))
    return np.round(centred @ axes[:keep].T, 9)


def _run(subject: Subject) -> Dependence:
    rows = subject.permutable
    return dependence_test(
        rows.x_obs,
        rows.entries,
        encoder=rows.encoder,
        groups=rows.groups,
        blind=rows.blind,
        seed=derive(rows.seed, "observations"),
    )


def _answer(found: Dependence) -> str:
    depends = "Yes" if found.p_value <= THRESHOLDS.dependence else "No sign of it"
    return f"{depends}: p = {found.p_value:.2g}"


DIAGNOSTIC = Diagnostic(
    "observations", "Do the observations vary with the context?", _run, answer=_answer
)
