"""Which side is which: what tells observations from simulations, if they are pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from scipy import stats
from torch import Tensor

from ma_sbi.choosing.features import basis_of
from ma_sbi.choosing.independence import (
    dependence_p_value,
    means_of,
    normal_scores,
    share_above,
)
from ma_sbi.choosing.reference import (
    AnyReference,
    DensityReference,
    LogDensity,
    Reference,
    whitener_of,
)
from ma_sbi.scaling import column_scale

__all__ = ["FAR", "LIKE", "TOLD", "Unlike", "mean_departs", "tell_sides", "tell_unlike"]

# Permutations of a test, and rows that it compares: the cost is quadratic.
NUM_PERMUTATIONS, MOST_ROWS = 499, 400
# Sides are taken for swapped if one test is as clear as this and the other is not at all.
CLEAR, UNCLEAR = 0.005, 0.05
# Log odds of swapped sides from which they are told.
TOLD = 2.0
# Level at which a departure of means or spreads must be seen for it to tell the sides.
DEPARTS = 0.001
# Share of the deviation of the other side that a side of simulations may have by chance in
# the simulations that it is compared with.
HARDLY = 0.1
# Share of a departure, beyond that of the context, from which it depends on x.
DEPENDS = 0.3
# Deviations beyond which a row counts no more.
MOST_DEVIATIONS = 4.0
# Standard errors by which one side must explain more of x_obs - x_sim than the other.
CLEARLY_MORE = 2.0
# Rows that tell spreads.
FEWEST_FOR_SPREADS = 20
# And for each number that describes the context: few rows of one leave like residuals.
FEWEST_PER_SPREAD = 10
# Deviation of squares below which they hardly vary, as in two far clusters.
LEAST_SPREAD = 0.1
# Level at which x_sim is unlike other simulations, and above which x_obs may be one.
UNLIKE, LIKE = 0.001, 0.01
# Standard errors by which x_sim must be farther from them than x_obs of the same rows.
CLEARLY_FARTHER = 3.0
# Deviations from other simulations at which no population of parameters is.
FAR = 5.0
# Share of the variance of other simulations that x_sim lacks, if it is without noise.
LACKS = 0.8
# Nats at which a log density is cut off, so that sums stay finite.
MOST_NATS = 1e6
# Share of the largest variance of a direction below which another hardly varies.
HARDLY_VARIES = 1e-6
# Spread of a moment below which it is the same in all rows, and tells nothing.
SAME = 1e-6


def tell_sides(
    x_obs: Tensor,
    x_sim: Tensor,
    codes: Tensor,
    features: Tensor,
    groups: Tensor | None,
    reference: AnyReference | None,
    rng: torch.Generator | None,
    *,
    averaged: bool = False,
) -> tuple[bool | None, float | None]:
    """Compare the sides: simulations are like others, whatever their context.

    Args:
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations of the same rows.
        codes: Number of the context of each row, shape ``(n,)``.
        features: Of the context, shape ``(n, num_features)``.
        groups: Group of each row, which counts once; None if all rows count.
        reference: What other simulations are like.
        rng: Of permutations.
        averaged: Whether x_sim is the mean of several simulations.

    Returns:
        Whether sides are swapped, if that is told, and the log odds of it where means or
        spreads depart.
    """
    # A mean of several simulations is no draw of their density.
    averaged = averaged or groups is not None
    log_density = None if averaged or reference is None else reference.log_density
    if averaged and isinstance(reference, DensityReference):
        reference = None
    if groups is not None:
        # Rows of a group may share theta: each group counts once.
        cells = torch.stack([groups.cpu(), codes], dim=1)
        place = cells.unique(dim=0, return_inverse=True)[1]
        x_obs, x_sim, features = (means_of(x, place) for x in (x_obs, x_sim, features))
    log_odds, p_value = _by_moments(x_obs, x_sim, features, reference, log_density)
    if log_odds is not None and log_odds > 0 and p_value <= DEPARTS:
        # Both sides depart, as where the context depends on theta.
        log_odds = None
    if log_odds is not None:
        # What is left of the rows would not show the departure.
        clear = abs(log_odds) > TOLD and (log_odds < 0 or p_value > UNCLEAR)
        return (log_odds > 0 if clear else None), log_odds
    some = torch.randperm(len(x_obs), generator=rng)[:MOST_ROWS]
    return _by_departure(x_obs[some], x_sim[some], rng), None


def _by_moments(
    x_obs: Tensor,
    x_sim: Tensor,
    features: Tensor,
    reference: AnyReference | None,
    log_density: LogDensity | None,
) -> tuple[float | None, float]:
    """Tell the sides by means and spreads: those of simulations do not depend on contexts.

    Nor do means differ from those of other simulations, where these are known. By the
    likelihood of Gaussians, or the density of simulations where that is known: pairs share
    what varies besides, so that few rows tell it.

    Returns:
        The log odds of swapped sides, None if neither means nor spreads are seen to depart;
        and the p-value of x_obs, as it was given, being simulations.
    """
    sides, rotation = _standardised(x_obs, x_sim, reference)
    basis = basis_of(features, constant=reference is not None)
    means = _of_means(sides, basis)
    by_context, spreads = basis_of(features, constant=False), None
    if means is not None and log_density is not None:
        # The density knows of spreads, too.
        means = means._replace(log_odds=_by_density(x_obs, x_sim, basis, log_density))
    elif not _both_depend(sides, by_context):
        # Else simulations depend on the context, and so may their spreads.
        spreads = _of_spreads([side @ rotation for side in sides], by_context)
    told = [one for one in (means, spreads) if one is not None]
    if not told:
        return None, 1.0
    p_value = len(told) * min(one.p_value for one in told)
    return sum(one.log_odds for one in told), min(1.0, p_value)


class _Told(NamedTuple):
    """What moments tell of the sides.

    Attributes:
        log_odds: Of swapped sides.
        p_value: Of x_obs, as it was given, being simulations.
    """

    log_odds: float
    p_value: float


def _of_means(sides: tuple[Tensor, Tensor], basis: Tensor) -> _Told | None:
    """Compare means of both sides; None if they hardly depart."""
    delta = sides[0] - sides[1]
    if basis.shape[1] == 0 or len(basis) < basis.shape[1] + 2:
        return None
    if delta.square().mean() < 1e-12 or mean_departs(delta, basis) > DEPARTS:
        return None
    # As much noise on both sides, each its own, is not explained by their mean.
    if _explained(delta, (sides[0] + sides[1]) / 2, basis) > DEPENDS:
        return None
    return _compare(sides, basis)


def _both_depend(sides: tuple[Tensor, Tensor], basis: Tensor) -> bool:
    """Tell whether means of both sides depend on the basis, as if theta did."""
    num = basis.shape[1] * sides[0].shape[1]
    sizes = ((basis.T @ side).square().sum().item() for side in sides)
    return num > 0 and all(stats.chi2.sf(size, num) <= DEPARTS for size in sizes)


def _of_spreads(sides: Sequence[Tensor], basis: Tensor) -> _Told | None:
    """Compare spreads between contexts, by squares; None if they hardly depart.

    How they compare with those of other simulations does not tell the sides: x_sim that is
    an expected value varies less than they do.
    """
    num, rank = len(basis), basis.shape[1]
    if rank == 0 or num < max(FEWEST_FOR_SPREADS, FEWEST_PER_SPREAD * rank):
        return None
    inner = [one - one.mean(dim=0) for one in sides]
    squares = [
        (one - basis @ (basis.T @ one)).square() * num / (num - rank) for one in inner
    ]
    # Of logarithms a gain shifts all rows and columns alike, so that few rows show it.
    p_values = []
    for values in (squares, [one.mean(dim=1, keepdim=True) for one in squares]):
        # A gain of all rows alike is none of the context.
        relative = [one / one.mean(dim=0).clamp(min=1e-300) for one in values]
        logs = [one.add(HARDLY).log() for one in relative]
        delta = logs[0] - logs[1]
        if delta.square().mean() < 1e-12:
            return None
        p_values.append(mean_departs(delta, basis))
    if 2 * min(p_values) > DEPARTS:
        return None
    both = [one - basis @ (basis.T @ one) for one in squares]
    spread = torch.cat(both).std(dim=0).clamp(min=LEAST_SPREAD)
    return _compare((squares[0] / spread, squares[1] / spread), basis)


def _compare(sides: Sequence[Tensor], basis: Tensor) -> _Told:
    """Compare means of columns with a variance of one, which are zero in simulations."""
    observed, simulated = ((basis.T @ side).square().sum().item() for side in sides)
    p_value = stats.chi2.sf(observed, basis.shape[1] * sides[0].shape[1])
    # The mean of other simulations is known up to chance, too.
    p_value = 1.0 if observed < HARDLY * simulated else float(p_value)
    return _Told((simulated - observed) / 2, p_value)


def _by_density(
    x_obs: Tensor, x_sim: Tensor, basis: Tensor, log_density: LogDensity
) -> float:
    """Return the log odds of swapped sides by the likelihood ratio of the pairs.

    Of a shift, and of a linear departure, which spreads x about the means of contexts by
    other factors: a gain below one leads all observations where simulations are dense.
    Where the two disagree, nothing is told.
    """
    at_obs, at_sim = (
        log_density(x.float()).cpu().double().nan_to_num(nan=-MOST_NATS)
        for x in (x_obs, x_sim)
    )
    ratio = at_obs.clamp(-MOST_NATS, MOST_NATS) - at_sim.clamp(-MOST_NATS, MOST_NATS)
    shift = ratio.sum().item()
    residuals = [x - x.mean(dim=0) for x in (x_obs, x_sim)]
    residuals = [x - basis @ (basis.T @ x) for x in residuals]
    both = torch.cat(residuals)
    scale = column_scale(both)
    values, vectors = torch.linalg.eigh((both / scale).T @ (both / scale))
    # A constant column, or the total of others, has no volume of its own.
    axes = vectors[:, values > HARDLY_VARIES * values[-1]] / scale[:, None]
    if len(x_obs) - basis.shape[1] - 1 <= axes.shape[1]:
        return 0.0
    volumes = [((x @ axes).T @ (x @ axes)).logdet().item() for x in residuals]
    linear = shift + len(x_obs) * (volumes[0] - volumes[1]) / 2
    return 0.0 if shift * linear < 0 else min(shift, linear, key=abs)


def mean_departs(delta: Tensor, basis: Tensor) -> float:
    """Test whether the mean of delta depends on the basis: return the larger p-value.

    In some column, and in all of them together (Hotelling and Lawley): a spread that
    depends on the context, as that of a gain, looks like a mean to one of them.
    """
    num, columns = delta.shape
    rank = basis.shape[1]
    freedom = num - rank - 1
    means = basis.T @ delta
    left = delta - basis @ means
    # What all rows have in common depends on nothing.
    left = left - left.mean(dim=0)
    least = 1e-9 * delta.square().mean().item()
    each = left.var(dim=0, correction=0) * num / freedom
    ratio = means.square().sum(dim=0) / rank / each.clamp(min=least)
    in_one = columns * stats.f.sf(ratio.numpy(), rank, freedom).min()
    if freedom <= columns + 1:
        return float(in_one)
    trace = (means @ whitener_of(left, freedom)).square().sum().item()
    rest = freedom - columns - 1
    together = trace / (rank * columns) * rest / freedom
    return float(max(in_one, stats.f.sf(together, rank * columns, rest)))


def _explained(delta: Tensor, x: Tensor, basis: Tensor) -> float:
    """Return the share of delta, less what the context explains, that x explains.

    A departure that depends on x, such as a delay, moves means as x does by chance.
    """
    delta, x = (part - part.mean(dim=0) for part in (delta, x))
    delta, x = (part - basis @ (basis.T @ part) for part in (delta, x))
    total = delta.square().sum().item()
    unit, size, _ = torch.linalg.svd(x, full_matrices=False)
    unit = unit[:, size > 1e-6 * size.max()]
    freedom = len(x) - basis.shape[1] - 1
    if total < 1e-12 or freedom <= unit.shape[1]:
        return 0.0
    left = 1 - (unit.T @ delta).square().sum().item() / total
    return 1 - left * freedom / (freedom - unit.shape[1])


class Unlike(NamedTuple):
    """How x_sim is unlike other simulations, where x_obs is like them, or nearer.

    Attributes:
        x_sim: P-value of x_sim being simulations as others are.
        x_obs: The same of x_obs.
        away: Deviations by which the mean of x_sim is away, in the farthest column.
    """

    x_sim: float
    x_obs: float
    away: float


def tell_unlike(
    x_obs: Tensor,
    x_sim: Tensor,
    features: Tensor,
    groups: Tensor | None,
    reference: AnyReference | None,
) -> Unlike | None:
    """Tell whether x_sim is unlike other simulations although x_obs is like them.

    Or so far away as no parameters would be. Both means and squares are compared: an
    offset moves means, and squares of an expected value lack the simulator's noise. A
    population of its own moves both sides alike, unless the departure leads back. Spreads
    about the means of contexts do not show shifts: there x_obs may depart, too.

    Args:
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: One simulation of each.
        features: Of the context, shape ``(n, num_features)``.
        groups: Group of each row, which counts once; None if all rows count.
        reference: What other simulations are like.
    """
    if reference is None:
        return None
    simulated, observed = (reference.moments(x) for x in (x_sim, x_obs))
    if simulated is None or observed is None:
        return None
    if groups is not None:
        simulated, observed = (means_of(part, groups) for part in (simulated, observed))
    # A constant column, or the total of others, has directions without any spread.
    varies = (simulated.std(dim=0) > SAME) | (observed.std(dim=0) > SAME)
    simulated, observed = simulated[:, varies], observed[:, varies]
    if not varies.any():
        return None
    away = reference.away(x_sim, x_obs)
    (p_sim, column), (p_obs, _) = (_zero(x, reference.num) for x in (simulated, observed))
    found = Unlike(p_sim, p_obs, away)
    if p_sim > UNLIKE:
        return None
    if away > FAR:
        return found
    first, second = simulated[:, column], observed[:, column]
    sign = 1 if first.mean() > 0 else -1
    nearer = sign * first - second * (1 if second.mean() > 0 else -1)
    error = nearer.std() / len(nearer) ** 0.5
    if p_obs > LIKE and nearer.mean() > CLEARLY_FARTHER * error:
        return found
    if not isinstance(reference, Reference) or groups is not None:
        return None
    return _lacks_spread(x_obs, x_sim, features, reference, away)


def _lacks_spread(
    x_obs: Tensor, x_sim: Tensor, features: Tensor, reference: Reference, away: float
) -> Unlike | None:
    """Tell whether x_sim varies less than simulations do, about the means of contexts.

    In some direction in which x_obs does not.
    """
    basis = basis_of(features, constant=True)
    freedom = len(x_obs) - basis.shape[1]
    if freedom < 2:
        return None
    squares = []
    for x in (x_sim, x_obs):
        inner = x - basis @ (basis.T @ x)
        moments = reference.moments(inner + reference.centre.cpu().double())
        assert moments is not None  # noqa: S101 (its scale is known)
        # Of moments every second part is of squares less one.
        parts = moments.split(x.shape[1], dim=1)[1::2]
        squares.append((torch.cat(parts, dim=1) + 1) * len(x) / freedom - 1)
    # A constant column, or the total of others, has directions without any spread.
    varies = (squares[0].std(dim=0) > SAME) | (squares[1].std(dim=0) > SAME)
    if not varies.any():
        return None
    squares = [one[:, varies] for one in squares]
    chance = (1 / len(x_obs) + 1 / reference.num) ** 0.5
    error = [one.std(dim=0).clamp(min=1e-300) * chance for one in squares]
    ratios = [one.mean(dim=0) / each for one, each in zip(squares, error, strict=True)]
    least = int(ratios[0].argmin())
    p_sim, p_obs = (float(stats.t.cdf(one[least].item(), freedom)) for one in ratios)
    p_sim = min(1.0, p_sim * len(ratios[0]))
    more = (squares[1] - squares[0])[:, least]
    clear = more.mean() > CLEARLY_FARTHER * more.std() / len(more) ** 0.5
    lacks = squares[0].mean(dim=0)[least] < -LACKS
    told = lacks and p_sim <= UNLIKE and p_obs > LIKE and clear
    return Unlike(p_sim, p_obs, away) if told else None


def _zero(values: Tensor, num: float) -> tuple[float, int]:
    """Test whether all columns have a mean of zero; return the p-value, and the farthest.

    Zero is the mean of so many others, which varies by chance, too (Bonferroni). Student's
    t is approximate where x is skewed and rows are few.
    """
    freedom = len(values) - 1
    error = values.std(dim=0) * (1 / len(values) + 1 / num) ** 0.5
    ratio = values.mean(dim=0).abs() / error.clamp(min=1e-300)
    farthest = int(ratio.argmax())
    p_value = 2 * stats.t.sf(ratio[farthest].item(), freedom)
    return min(1.0, values.shape[1] * float(p_value)), farthest


def _standardised(
    x_obs: Tensor, x_sim: Tensor, reference: AnyReference | None
) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Return both sides in units of the simulations; a row counts for a few at most.

    And a rotation after which columns are as near to those of x as can be.
    """
    both, whitener = torch.cat([x_obs, x_sim]), None
    if reference is None:
        both = normal_scores(both)
        both = both - both.mean(dim=0)
    else:
        both, whitener = reference.deviations(both)
    if whitener is None:
        halves = both.split(len(x_obs))
        whitener = whitener_of(torch.cat([one - one.mean(dim=0) for one in halves]))
    whitener = whitener.cpu().double()
    unit = (both @ whitener).clamp(-MOST_DEVIATIONS, MOST_DEVIATIONS)
    left, _, right = torch.linalg.svd(column_scale(both)[:, None] * whitener)
    first, second = unit.split(len(x_obs))
    return (first, second), (left @ right).T


def _by_departure(x_obs: Tensor, x_sim: Tensor, rng: torch.Generator | None) -> bool | None:
    """Tell the sides by what is added to one: it is independent of that side before.

    If ``x_obs = x_sim + delta``, delta is independent of x_sim, and x_obs tells something
    of it; if the sides are swapped, the reverse. Noise of its own on both sides, and
    departures that depend on x, leave delta dependent on both: then nothing is told.
    """
    delta = (x_obs - x_sim) / column_scale(x_sim).maximum(column_scale(x_obs))
    delta = delta - delta.mean(dim=0)
    if delta.square().mean() < 1e-8:
        return None
    # Along the direction in which delta varies most.
    along = delta @ torch.linalg.svd(delta, full_matrices=False)[2][0]
    orders = torch.rand(NUM_PERMUTATIONS, len(along), generator=rng).argsort(dim=1)
    p_values, missed = [], []
    for x in (x_obs, x_sim):
        basis = torch.linalg.qr(_scaled(x))[0]
        explained = (along @ basis).square().sum()
        by_chance = (along[orders] @ basis).square().sum(dim=1)
        p_values.append(share_above(by_chance, explained))
        missed.append((along - basis @ (along @ basis)).square())
    swapped = _only_second(p_values)
    apart = missed[0] - missed[1]
    clearly = apart.mean().abs() > CLEARLY_MORE * apart.std() / len(apart) ** 0.5
    if swapped is None or not clearly:
        return None
    side = normal_scores(x_obs if swapped else x_sim)
    one = torch.zeros(len(delta), dtype=torch.long)
    p_value = dependence_p_value(side, normal_scores(delta), one, orders)
    return swapped if p_value > UNCLEAR else None


def _scaled(x: Tensor) -> Tensor:
    return (x - x.mean(dim=0)) / column_scale(x)


def _only_second(p_values: list[float]) -> bool | None:
    first, second = p_values
    if first > UNCLEAR and second <= CLEAR:
        return True
    return False if first <= CLEAR and second > UNCLEAR else None
