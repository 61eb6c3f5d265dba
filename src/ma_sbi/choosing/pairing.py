"""Whether rows of observations and simulations belong together, and which is which."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from ma_sbi.choosing.features import frequent
from ma_sbi.choosing.independence import (
    centre,
    dependence_p_value,
    means_of,
    normal_scores,
    permuted_within,
)
from ma_sbi.choosing.reference import AnyReference
from ma_sbi.choosing.sides import FAR, LIKE, TOLD, Unlike, tell_sides, tell_unlike
from ma_sbi.randomness import derive, generator
from ma_sbi.scaling import UNITS, column_scale, other_units, spreads_apart

__all__ = ["NotPaired", "Pairing", "examine_pairs"]

# Rows that are compared: the cost is quadratic.
MOST_ROWS = 400
NUM_PERMUTATIONS = 499
# Rows at which a density is asked what simulations are like: it may be slow.
MOST_ASKED = 5_000
# Above this p-value rows are not shown to belong together.
PAIRED = 0.01
# Factor between the spreads of a column beyond which units differ where
# x_obs and x_sim are otherwise copies, whose ranks agree so well.
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
        log_odds: Of swapped sides, as far as means and spreads tell it; None if they do
            not.
        order: For each column of x_obs the column of x_sim that it goes with, where that
            is clearly another one.
        units: Columns whose spreads differ by more than reality explains.
        factor: By more than this factor.
        apart: Column in which x_obs is farthest from x_sim, and by how many standard
            deviations, if that is more than a departure has and nothing else tells where
            simulations are.
        constant: Whether x_sim is the same in every row.
        unlike: How x_sim is unlike other simulations, where x_obs is like them; None if
            that is not so.
    """

    p_value: float
    only_noise: bool = False
    swapped: bool | None = None
    log_odds: float | None = None
    order: tuple[int, ...] | None = None
    units: tuple[int, ...] = ()
    factor: float = UNITS
    apart: tuple[int, float] | None = None
    constant: bool = False
    unlike: Unlike | None = None

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
        """What is wrong with rows that no other use of them would mend.

        Rows that are no pairs may still be used as pools, if that is all.
        """
        alone = not self.are_pairs and len(self.problems) == 1
        return () if alone else self.problems

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
        if self.swapped and self.unlike is None:
            odds = ""
            if self.log_odds is not None and self.log_odds > TOLD:
                odds = f" (log odds {self.log_odds:.1f})"
            found.append(
                "x_obs and x_sim seem to be swapped: x_sim behaves as observations do, "
                f"and x_obs as simulations{odds}. If they are in place, theta depends on "
                "the context, or comes from another population than the simulations."
            )
        if self.order is not None:
            found.append(
                "Columns of x_obs and x_sim seem to be in different orders: those of x_obs "
                f"go with columns {', '.join(map(str, self.order))} of x_sim."
            )
        if self.units:
            found.append(other_units(self.units, self.factor))
        elif self.apart is not None and self.order is None:
            column, away = self.apart
            found.append(
                f"x_obs is {away:.0f} standard deviations away from x_sim in column "
                f"{column}: they seem to be in different units. If they are not, "
                "simulations= from the prior shows that x_sim is where it should be."
            )
        if self.unlike is not None and not self.units:
            found.append(_about_unlike(self.unlike))
        return tuple(found)


def examine_pairs(
    x_obs: Tensor,
    x_sim: Tensor,
    codes: Tensor,
    *,
    features: Tensor | None = None,
    groups: Tensor | None = None,
    noise: Tensor | None = None,
    reference: AnyReference | None = None,
    one_run: Tensor | None = None,
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
        one_run: One simulation of each row, where x_sim is the mean of several.
        seed: Of the permutations.
    """
    rng = generator(0 if seed is None else derive(seed, "pairs"))
    units, factor = tuple(spreads_apart(x_obs, x_sim, UNITS)), UNITS
    apart = spreads_apart(x_obs, x_sim, UNITS_OF_COPIES)
    x_obs, x_sim, codes = x_obs.double().cpu(), x_sim.double().cpu(), codes.cpu()
    groups = None if groups is None else groups.cpu()
    features = frequent(codes) if features is None else features
    some = torch.randperm(len(x_obs), generator=rng)[:MOST_ROWS]
    few = codes[some].unique(return_inverse=True)[1]
    if (few.bincount() > 1).sum() * 2 < few.max() + 1:
        # Contexts hardly repeat: all rows are compared.
        few = torch.zeros_like(few)
    observed, simulated = (centre(normal_scores(x[some]), few) for x in (x_obs, x_sim))
    if not units:
        alike = (observed * simulated).mean(dim=0) / (
            column_scale(observed) * column_scale(simulated)
        )
        units = tuple(column for column in apart if alike[column] > COPIES)
        factor = UNITS_OF_COPIES
    own = None if groups is None else groups[some]
    p_value = _pairs_p_value(observed, simulated, few, own, rng)
    averaged = one_run is not None
    one_run = x_sim if one_run is None else one_run
    asked: slice | Tensor = slice(None)
    asks = reference is not None and reference.log_density is not None
    if asks and len(x_obs) > MOST_ASKED:
        asked = torch.randperm(len(x_obs), generator=rng)[:MOST_ASKED]
    among = None if groups is None else groups[asked]
    sides = x_obs[asked], x_sim[asked]
    swapped, log_odds = tell_sides(
        *sides, codes[asked], features[asked], among, reference, rng, averaged=averaged
    )
    return Pairing(
        p_value,
        noise is not None and _is_noise(x_sim[some], few, noise.cpu()),
        swapped,
        log_odds,
        _other_order(observed, simulated),
        units,
        factor,
        _far_apart(x_obs, one_run) if reference is None else None,
        bool((x_sim == x_sim[0]).all()),
        tell_unlike(x_obs[asked], one_run[asked], features[asked], among, reference),
    )


def _far_apart(x_obs: Tensor, x_sim: Tensor) -> tuple[int, float] | None:
    """Find the column whose median difference is many deviations of the smaller spread."""
    spread = torch.minimum(x_obs.std(dim=0), x_sim.std(dim=0))
    away = (x_obs - x_sim).median(dim=0).values.abs() / spread
    # Equal numbers do not spread, whatever rounding makes of them.
    varies = [one.amax(dim=0) > one.amin(dim=0) for one in (x_obs, x_sim)]
    away = away.where(varies[0] & varies[1], 0.0)
    column = int(away.argmax())
    return (column, away[column].item()) if away[column] > FAR else None


def _about_unlike(unlike: Unlike) -> str:
    """Say how x_sim is unlike other simulations, and what that may come from."""
    if unlike.x_obs > LIKE:
        than = f"although x_obs is not seen to be (p = {unlike.x_obs:.2g})"
    else:
        than = f"by {unlike.away:.0f} standard deviations in a column"
    return (
        f"x_sim is unlike the simulations that are known (p = {unlike.x_sim:.2g}), {than}. "
        "It may be in different units, or an expected value or a mean of several runs, "
        "without the simulator's noise; or x_obs and x_sim are swapped; or its parameters "
        "come from another population, which the departure hides in x_obs."
    )


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
        return dependence_p_value(
            observed, simulated, codes, permuted_within(codes, NUM_PERMUTATIONS, rng)
        )
    groups = groups.unique(return_inverse=True)[1]
    first, second = (means_of(part, groups) for part in (observed, simulated))
    alike = torch.zeros(len(first), dtype=torch.long)
    shuffles = permuted_within(alike, NUM_PERMUTATIONS, rng)
    among = dependence_p_value(first, second, alike, shuffles)
    # Of a group with several contexts, the rows of each, unless these hardly repeat.
    cells, place = torch.stack([groups, codes], dim=1).unique(dim=0, return_inverse=True)
    if (place.bincount() > 1).sum() * 2 < len(cells):
        place = groups
    if (place.bincount() > 1).sum() * 2 < place.max() + 1:
        return among
    first, second = (centre(part, place) for part in (observed, simulated))
    shuffles = permuted_within(place, NUM_PERMUTATIONS, rng)
    within = dependence_p_value(first, second, place, shuffles)
    return min(1.0, 2 * min(among, within))


def _is_noise(x_sim: Tensor, codes: Tensor, noise: Tensor) -> bool:
    """Tell whether x_sim varies by no more than its noise, as far as chance tells it.

    Parameters drawn at x_sim explain up to half of the noise at one setting: hence twice.
    """
    spread = centre(x_sim, codes).square().mean(dim=0)
    most = 2 * (1 + 2 * (2 / len(x_sim)) ** 0.5)
    return bool((spread <= most * noise.clamp(min=1e-300)).all())


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
