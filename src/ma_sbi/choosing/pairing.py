"""Whether rows of observations and simulations belong together, and which is which."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from scipy import stats
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from ma_sbi.context import Entries, distinct, in_days, is_missing
from ma_sbi.randomness import derive, generator
from ma_sbi.scaling import column_scale, spreads_apart

__all__ = [
    "NotPaired",
    "Pairing",
    "Reference",
    "describe",
    "examine_pairs",
    "normal_scores",
]

# Rows that are compared: the cost is quadratic.
MOST_ROWS = 400
NUM_PERMUTATIONS = 499
# Above this p-value rows are not shown to belong together.
PAIRED = 0.01
# Sides are taken for swapped if one test is as clear as this and the other is not at all.
CLEAR, UNCLEAR = 0.005, 0.05
# Log odds of swapped sides from which they are told.
TOLD = 2.0
# Level at which a mean departure must be seen for it to tell the sides.
DEPARTS = 0.001
# Share of the deviation of the other side that a side of simulations may have by chance in
# the simulations that it is compared with.
HARDLY = 0.1
# Share of a departure, beyond that of the context, from which it depends on x.
DEPENDS = 0.3
# Deviations beyond which a row counts no more.
MOST_DEVIATIONS = 4.0
# Contexts that have a mean of their own, the most frequent ones, and their fewest rows.
MOST_MEANS, FEWEST_OF_MEAN = 20, 3
# Standard errors by which one side must explain more of x_obs - x_sim than the other.
CLEARLY_MORE = 2.0
# Rows of a context that tell its spread.
FEWEST_OF_CONTEXT = 5
# Factor between the spreads of a column beyond which units differ, not reality.
UNITS = 50.0
# The same where x_obs and x_sim are otherwise copies, whose ranks agree so well.
UNITS_OF_COPIES, COPIES = 5.0, 0.9
# Columns are taken for reordered if so much of their correlation is found elsewhere, or if
# so little is left of what their own columns leave.
REORDERED = 0.5


class NotPaired(UserWarning):
    """Rows of x_obs and x_sim that do not seem to belong together, or not in this way."""


@dataclass(frozen=True)
class Pairing:
    """What rows of observations and simulations tell of how they belong together.

    Attributes:
        p_value: Of the test that x_obs and x_sim are independent within contexts.
        only_noise: Whether x_sim varies by no more than its noise, as in a control run at
            one setting: then rows are pairs although nothing shows it.
        swapped: Whether x_obs and x_sim seem to have changed places; None if nothing
            tells it.
        log_odds: Of swapped sides, as far as means tell it; None if they do not.
        order: For each column of x_obs the column of x_sim that it goes with, where that
            is clearly another one.
        units: Columns whose spreads differ by more than reality explains.
        factor: By more than this factor.
    """

    p_value: float
    only_noise: bool = False
    swapped: bool | None = None
    log_odds: float | None = None
    order: tuple[int, ...] | None = None
    units: tuple[int, ...] = ()
    factor: float = UNITS

    @property
    def are_pairs(self) -> bool:
        """Whether a row of x_obs may be compared with the same row of x_sim."""
        return self.p_value <= PAIRED or self.only_noise

    @property
    def at_one_setting(self) -> bool:
        """Whether x_sim seems to be simulated at one setting, with noise of its own.

        It varies by no more than its noise, and x_obs does not depend on it: such rows say
        nothing of how a departure depends on x.
        """
        return self.only_noise and self.p_value > PAIRED

    @property
    def mistakes(self) -> tuple[str, ...]:
        """What is wrong with rows that no other use of them would mend."""
        return self.problems if self.are_pairs else self.problems[1:]

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, in sentences; none if all is well."""
        found = []
        if not self.are_pairs:
            found.append(
                "Rows of x_obs and x_sim do not seem to be pairs: within a context they "
                f"are not seen to depend on each other (p = {self.p_value:.2g}). A row of "
                "x_sim must be simulated at the inputs of the same row of x_obs."
            )
        if self.swapped:
            odds = ""
            if self.log_odds is not None and self.log_odds > TOLD:
                odds = f" (log odds {self.log_odds:.1f})"
            found.append(
                "x_obs and x_sim seem to be swapped: x_sim behaves as observations do, "
                f"and x_obs as simulations{odds}."
            )
        if self.order is not None:
            found.append(
                "Columns of x_obs and x_sim seem to be in different orders: those of x_obs "
                f"go with columns {', '.join(map(str, self.order))} of x_sim."
            )
        if self.units:
            found.append(
                "x_obs and x_sim seem to have different units: their spreads differ by "
                f"more than a factor of {self.factor:g} in column"
                f"{'s' if len(self.units) > 1 else ''} {', '.join(map(str, self.units))}."
            )
        return tuple(found)


def examine_pairs(
    x_obs: Tensor,
    x_sim: Tensor,
    codes: Tensor,
    *,
    features: Tensor | None = None,
    groups: Tensor | None = None,
    noise: Tensor | None = None,
    reference: Reference | None = None,
    seed: int | None = None,
) -> Pairing:
    """Look at how rows of observations and simulations belong together.

    Args:
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations of the same rows.
        codes: Number of the context of each row, shape ``(n,)``.
        features: Of the context, shape ``(n, num_features)``; by default the most frequent
            contexts.
        groups: Number of the group of each row, shape ``(n,)``; each its own if None.
        noise: Variance of the simulator's noise, shape ``(dim_x,)``, if it is known.
        reference: What simulations from the prior are like, if that is known.
        seed: Of the permutations.
    """
    rng = generator(0 if seed is None else derive(seed, "pairs"))
    units, factor = tuple(spreads_apart(x_obs, x_sim, UNITS)), UNITS
    apart = spreads_apart(x_obs, x_sim, UNITS_OF_COPIES)
    x_obs, x_sim, codes = x_obs.double().cpu(), x_sim.double().cpu(), codes.cpu()
    groups = None if groups is None else groups.cpu()
    features = _frequent(codes) if features is None else features
    some = torch.randperm(len(x_obs), generator=rng)[:MOST_ROWS]
    few = codes[some].unique(return_inverse=True)[1]
    if (few.bincount() > 1).sum() * 2 < few.max() + 1:
        # Contexts hardly repeat: all rows are compared.
        few = torch.zeros_like(few)
    observed, simulated = (_centre(normal_scores(x[some]), few) for x in (x_obs, x_sim))
    if not units:
        alike = (observed * simulated).mean(dim=0) / (
            column_scale(observed) * column_scale(simulated)
        )
        units = tuple(column for column in apart if alike[column] > COPIES)
        factor = UNITS_OF_COPIES
    own = None if groups is None else groups[some]
    p_value = _pairs_p_value(observed, simulated, few, own, rng)
    swapped, log_odds = _are_swapped(x_obs, x_sim, codes, features, groups, reference, rng)
    return Pairing(
        p_value,
        noise is not None and _is_noise(x_sim[some], few, noise.cpu()),
        swapped,
        log_odds,
        _other_order(observed, simulated),
        units,
        factor,
    )


def describe(entries: Entries) -> Tensor:
    """Describe contexts by features that means may depend on, shape ``(n, num)``.

    A column of many numbers is described by them and their squares, any other by which
    of its most frequent entries each is.
    """
    parts = []
    for _, column in pd.DataFrame(entries).items():
        uniques, codes = distinct(column.reset_index(drop=True))
        numbers = in_days(column).where(~is_missing(column), np.nan).infer_objects()
        if pd.api.types.is_numeric_dtype(numbers) and len(uniques) > MOST_MEANS:
            values = torch.from_numpy(numbers.to_numpy(np.float64, copy=True))
            values = values.nan_to_num(nan=values.nanmean().item())
            values = (values - values.mean()) / values.std().clamp(min=1e-300)
            parts.append(torch.stack([values, values.square()], dim=1))
        else:
            parts.append(_frequent(torch.from_numpy(codes)))
    return torch.cat(parts, dim=1)


def _frequent(codes: Tensor) -> Tensor:
    """Tell which of the most frequent contexts each is, one column for each of them."""
    count = codes.bincount()
    most = count.argsort(descending=True, stable=True)[:MOST_MEANS]
    most = most[count[most] >= FEWEST_OF_MEAN]
    return (codes[:, None] == most).double().cpu()


def _pairs_p_value(
    observed: Tensor,
    simulated: Tensor,
    codes: Tensor,
    groups: Tensor | None,
    rng: torch.Generator | None,
) -> float:
    """Test whether rows depend on each other within contexts.

    Rows of a group may share theta, and are not exchanged with those of others: they are
    permuted within it, and means of groups among groups. The smaller p-value counts,
    doubled for having chosen (Bonferroni).
    """
    if groups is None or len(groups.unique()) == len(groups):
        return _dependence_p_value(
            observed, simulated, codes, _within(codes, NUM_PERMUTATIONS, rng)
        )
    # Of a group with several contexts, the rows of each.
    both = torch.stack([groups, codes], dim=1)
    cells, place = both.unique(dim=0, return_inverse=True)
    parts = [_means(part, place) for part in (observed, simulated)]
    own = cells[:, 1].unique(return_inverse=True)[1]
    if (own.bincount() > 1).sum() * 2 < own.max() + 1:
        own = torch.zeros_like(own)
    parts = [_centre(part, own) for part in parts]
    among = _dependence_p_value(*parts, own, _within(own, NUM_PERMUTATIONS, rng))
    if (place.bincount() > 1).sum() * 2 < len(cells):
        return among
    parts = [part - _means(part, place)[place] for part in (observed, simulated)]
    within = _dependence_p_value(*parts, place, _within(place, NUM_PERMUTATIONS, rng))
    return min(1.0, 2 * min(among, within))


def _means(x: Tensor, codes: Tensor) -> Tensor:
    """Average rows of the same number, shape ``(num, dim)``."""
    count = codes.bincount()
    total = x.new_zeros(len(count), x.shape[1]).index_add_(0, codes, x)
    return total / count[:, None]


def normal_scores(x: Tensor) -> Tensor:
    """Replace each column by its normal scores, which no outlier dominates."""
    rank = x.argsort(dim=0).argsort(dim=0).double()
    # Equal values have equal ranks.
    for column in range(x.shape[1]):
        values, place = x[:, column].unique(return_inverse=True)
        if len(values) < len(x):
            total = torch.zeros(len(values), dtype=rank.dtype)
            total.index_add_(0, place, rank[:, column])
            rank[:, column] = (total / place.bincount())[place]
    return torch.special.ndtri((rank + 0.5) / len(x))


def _centre(x: Tensor, codes: Tensor) -> Tensor:
    """Subtract the mean of each context."""
    return x - _means(x, codes)[codes]


def _within(codes: Tensor, num: int, rng: torch.Generator | None) -> Tensor:
    """Draw permutations of rows within contexts, shape ``(num, n)``."""
    start = codes.argsort(stable=True)
    noise = torch.rand(num, len(codes), generator=rng)
    # Sorted by context first, at random within it.
    shuffled = (codes + noise).argsort(dim=1)
    result = torch.empty_like(shuffled)
    result[:, start] = shuffled
    return result


def _dependence_p_value(x: Tensor, y: Tensor, codes: Tensor, shuffles: Tensor) -> float:
    """Test independence by the distance covariance (Szekely, Rizzo & Bakirov 2007).

    Of all rows together, and of each context by itself: one may turn what another does
    not. The smaller p-value counts, doubled for having chosen (Bonferroni).
    """
    p_values = []
    for same in (torch.ones(len(codes), len(codes)), codes[:, None] == codes):
        first, second = (_centred(torch.cdist(z, z), same.to(z)) for z in (x, y))
        found = (first * second).sum()
        by_chance = torch.stack([(first * second[p][:, p]).sum() for p in shuffles])
        p_values.append(_share_above(by_chance, found))
    return min(1.0, 2 * min(p_values))


def _share_above(by_chance: Tensor, found: Tensor) -> float:
    """Return the p-value of a permutation test."""
    return ((by_chance >= found).sum().item() + 1) / (len(by_chance) + 1)


def _centred(distance: Tensor, same: Tensor) -> Tensor:
    """Centre distances twice, within blocks of rows that count as the same."""
    share = same / same.sum(dim=1)
    mean = share @ (distance * same)
    return same * (distance - mean - mean.T + mean @ share)


def _is_noise(x_sim: Tensor, codes: Tensor, noise: Tensor) -> bool:
    """Tell whether x_sim varies by no more than its noise, as far as chance tells it.

    Parameters drawn at x_sim explain up to half of the noise at one setting: hence twice.
    """
    spread = _centre(x_sim, codes).square().mean(dim=0)
    most = 2 * (1 + 2 * (2 / len(x_sim)) ** 0.5)
    return bool((spread <= most * noise.clamp(min=1e-300)).all())


@dataclass(frozen=True)
class Reference:
    """What simulations from the prior are like.

    Attributes:
        centre: Their mean, shape ``(dim_x,)``.
        whitener: Matrix that makes their covariance the identity, ``(dim_x, dim_x)``;
            None if correlations are not known.
    """

    centre: Tensor
    whitener: Tensor | None = None

    @classmethod
    def of(cls, x: Tensor) -> Reference:
        """Describe simulations x, shape ``(n, dim_x)``."""
        x = x.double().cpu()
        return cls(x.mean(dim=0), _whitener(x - x.mean(dim=0)))


def _whitener(centred: Tensor) -> Tensor:
    values, vectors = torch.linalg.eigh(centred.T @ centred / len(centred))
    return vectors / values.clamp(min=max(1e-6 * values[-1].item(), 1e-300)).sqrt()


def _are_swapped(
    x_obs: Tensor,
    x_sim: Tensor,
    codes: Tensor,
    features: Tensor,
    groups: Tensor | None,
    reference: Reference | None,
    rng: torch.Generator | None,
) -> tuple[bool | None, float | None]:
    """Compare the sides: simulations are like others, whatever their context.

    Returns:
        Whether sides are swapped, if that is told, and the log odds of it by their means.
    """
    if groups is not None:
        # Rows of a group may share theta: each group counts once.
        cells = torch.stack([groups.cpu(), codes], dim=1).unique(dim=0, return_inverse=True)
        x_obs, x_sim, features = (_means(x, cells[1]) for x in (x_obs, x_sim, features))
        codes = cells[0][:, 1]
    log_odds, p_value = _by_means(x_obs, x_sim, features, reference)
    if log_odds is not None and log_odds > 0 and p_value <= DEPARTS:
        # Both sides depart, as where the context depends on theta.
        log_odds = None
    if (
        log_odds is not None
        and abs(log_odds) > TOLD
        and (log_odds < 0 or p_value > UNCLEAR)
    ):
        return log_odds > 0, log_odds
    if 0 < codes.max() < len(codes) / 2 and _is_more_even(x_obs, x_sim, codes):
        return True, log_odds
    return _by_departure(x_obs, x_sim, rng), log_odds


def _by_means(
    x_obs: Tensor, x_sim: Tensor, features: Tensor, reference: Reference | None
) -> tuple[float | None, float]:
    """Tell the sides by means: those of simulations do not depend on the context.

    Nor do they differ from the mean of other simulations, where that is known. By the
    likelihood of Gaussians: pairs share what varies besides, so that few rows tell it.

    Returns:
        The log odds of swapped sides, None if means hardly depart; and the p-value of
        x_obs, as it was given, being simulations.
    """
    num, columns = x_obs.shape
    sides = _standardised(x_obs, x_sim, reference)
    centred = features - features.mean(dim=0)
    design = centred
    if reference is not None:
        design = torch.cat([torch.ones(num, 1, dtype=torch.float64), centred], dim=1)
    basis, size, _ = torch.linalg.svd(design, full_matrices=False)
    basis = basis[:, size > 1e-6 * num**0.5]
    rank = basis.shape[1]
    freedom = num - rank - 1
    delta = sides[0] - sides[1]
    if rank == 0 or freedom < 1 or delta.square().mean() < 1e-12:
        return None, 1.0
    explained = (basis.T @ delta).square().sum(dim=0)
    left = (delta - basis @ (basis.T @ delta)).var(dim=0, correction=0) * num / freedom
    left = left.clamp(min=1e-9 * delta.square().mean().item())
    departs = stats.f.sf((explained / rank / left).numpy(), rank, freedom).min()
    if columns * departs > DEPARTS:
        return None, 1.0
    if _explained(delta, sides[0], basis) > DEPENDS:
        return None, 1.0
    observed, simulated = ((basis.T @ side).square().sum().item() for side in sides)
    p_value = stats.chi2.sf(observed, rank * columns)
    # The mean of other simulations is known up to chance, too.
    p_value = 1.0 if observed < HARDLY * simulated else float(p_value)
    return (simulated - observed) / 2, p_value


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


def _standardised(
    x_obs: Tensor, x_sim: Tensor, reference: Reference | None
) -> tuple[Tensor, Tensor]:
    """Return both sides in units of the simulations; a row counts for a few at most."""
    both = torch.cat([x_obs, x_sim])
    if reference is None:
        both = normal_scores(both)
    halves = both.split(len(x_obs))
    centre = both.mean(dim=0) if reference is None else reference.centre.double().cpu()
    whitener = None if reference is None else reference.whitener
    if whitener is None:
        whitener = _whitener(torch.cat([one - one.mean(dim=0) for one in halves]))
    unit = (both - centre) @ whitener.double().cpu()
    first, second = unit.clamp(-MOST_DEVIATIONS, MOST_DEVIATIONS).split(len(x_obs))
    return first, second


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
        p_values.append(_share_above(by_chance, explained))
        missed.append((along - basis @ (along @ basis)).square())
    swapped = _only_second(p_values)
    apart = missed[0] - missed[1]
    clearly = apart.mean().abs() > CLEARLY_MORE * apart.std() / len(apart) ** 0.5
    if swapped is None or not clearly:
        return None
    side = normal_scores(x_obs if swapped else x_sim)
    one = torch.zeros(len(delta), dtype=torch.long)
    p_value = _dependence_p_value(side, normal_scores(delta), one, orders)
    return swapped if p_value > UNCLEAR else None


def _scaled(x: Tensor) -> Tensor:
    return (x - x.mean(dim=0)) / column_scale(x)


def _is_more_even(x_obs: Tensor, x_sim: Tensor, codes: Tensor) -> bool:
    """Tell whether contexts differ clearly in x_sim, and by no more than chance in x_obs.

    In means and spreads, by the likelihood of Gaussians with and without contexts. Pairs
    share what varies besides, so that the difference is seen in few rows.
    """
    kept = codes.bincount()[codes] >= FEWEST_OF_CONTEXT
    codes = codes[kept].unique(return_inverse=True)[1]
    if len(codes) == 0 or codes.max() == 0:
        return False
    count = codes.bincount().double()

    def evidence(x: Tensor) -> float:
        """Return what contexts add to the log likelihood."""
        x = normal_scores(x[kept])
        member = torch.nn.functional.one_hot(codes).double()
        mean = member.T @ x / count[:, None]
        within = member.T @ (x - mean[codes]).square() / count[:, None]
        whole = x.var(dim=0, correction=0)
        ratio = whole.clamp(min=1e-12).log() - within.clamp(min=1e-12).log()
        return (count[:, None] * ratio).sum().item() / 2

    # By chance each is half of a chi-squared variable.
    freedom = 2 * x_obs.shape[1] * int(codes.max())
    observed, simulated = evidence(x_obs), evidence(x_sim)
    chance = freedom / 2 + 2 * (freedom / 2) ** 0.5
    return observed < chance and simulated - observed > 2 + 2 * freedom**0.5


def _only_second(p_values: list[float]) -> bool | None:
    first, second = p_values
    if first > UNCLEAR and second <= CLEAR:
        return True
    return False if first <= CLEAR and second > UNCLEAR else None


def _other_order(x: Tensor, y: Tensor) -> tuple[int, ...] | None:
    """Match columns by what each leaves of the other; None if each goes with its own.

    Columns that change places among themselves form a cycle, and each cycle is judged by
    its own columns: by ``1 - r ** 2``, which tells a copy from a column that is only
    correlated. Every column must gain: where one theta or a delay ties columns together,
    some find a better partner, and not all of them.
    """
    if x.shape[1] == 1:
        return None
    unit = [part / column_scale(part) for part in (x, y)]
    correlation = (unit[0].T @ unit[1] / len(x)).abs().clamp(max=1.0)
    # Copies need not be told from copies that are better still.
    left = (1 - correlation.square()).clamp(min=1e-3)
    place = torch.from_numpy(linear_sum_assignment(left.log().numpy())[1])
    every = torch.arange(len(place))
    order = every.clone()
    for cycle in _cycles(place.tolist()):
        own, found = (correlation[cycle, at[cycle]] for at in (every, place))
        less = left[cycle, place[cycle]] < REORDERED * left[cycle, cycle]
        more = found.sum() * (1 - REORDERED) > own.sum() and found.mean() > REORDERED
        # By more than chance, two standard errors of a correlation.
        gains = found - own > 2 / len(x) ** 0.5
        if less.all() or (more and gains.all()):
            order[cycle] = place[cycle]
    return None if bool((order == every).all()) else tuple(order.tolist())


def _cycles(place: list[int]) -> list[list[int]]:
    """List the cycles of a permutation that move something."""
    found, seen = [], set()
    for start in range(len(place)):
        cycle, at = [], start
        while at not in seen:
            seen.add(at)
            cycle.append(at)
            at = place[at]
        if len(cycle) > 1:
            found.append(cycle)
    return found
