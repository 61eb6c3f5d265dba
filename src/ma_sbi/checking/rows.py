"""What rows tell of themselves: noise of x_sim, its population, and changed places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from ma_sbi.choosing.exchange import Exchange, exchange_test
from ma_sbi.choosing.features import basis_of, describe
from ma_sbi.choosing.plan import Plan
from ma_sbi.choosing.population import prior_p_value
from ma_sbi.choosing.sides import mean_departs
from ma_sbi.diagnostics.corrected_rows import CorrectedRows
from ma_sbi.diagnostics.subject import Subject
from ma_sbi.diagnostics.thresholds import THRESHOLDS
from ma_sbi.randomness import derive
from ma_sbi.scaling import column_scale

if TYPE_CHECKING:
    from ma_sbi.checking.judging import Judgement, Option

__all__ = [
    "elsewhere_p_value",
    "exchange_p_value",
    "exchanges",
    "is_noise_alone",
    "is_noiseless",
    "repeated",
    "simulated",
]

# Share of the noise that x_sim may have of which corrected rows leave less, if it has none.
NO_NOISE = 0.01
# Rows from which the noise between both sides is looked at.
FEWEST_OF_NOISE = 20
# Ratio to the variance of the simulator's noise, which is known roughly, up to which noise
# may be what x_sim lacks.
MOST_LACKED = 1.65
# What is added to relative squares, so that their logarithms stay bounded.
LEAST_SQUARE = 0.1


def repeated(subject: Subject) -> Tensor:
    """Return the simulations of each row, shape ``(n, num_simulations, dim_x)``."""
    if subject.repeats is not None:
        return subject.repeats
    assert subject.x_sim is not None  # noqa: S101 (there are pairs)
    return subject.x_sim[:, None]


def simulated(subject: Subject) -> Tensor:
    """Average the simulations of each row."""
    return repeated(subject).mean(dim=1)


def is_noiseless(subject: Subject, held: CorrectedRows) -> bool:
    """Tell whether corrected rows are so near to x_sim that it has no noise of its own.

    Of noise that x_obs and x_sim do not share, no correction could foresee the part in
    x_sim. The nearest quarter of the rows counts: in others the context may be wrong.
    """
    x_sim = simulated(subject)[held.rows]
    unit = column_scale(x_sim)
    departs = (subject.x_obs[held.rows] - x_sim) / unit
    weight = held.candidates.log_weight.exp()[..., None]
    left = ((weight * held.candidates.x).sum(dim=0) - x_sim) / unit
    nearest = left.square().mean(dim=1).quantile(0.25)
    # If all of it were noise, half would be of x_sim.
    noise = (departs - departs.mean(dim=0)).square().mean() / 2
    return bool(nearest < NO_NOISE * noise)


def is_noise_alone(plan: Plan) -> bool:
    """Tell whether nothing but noise, alike in all rows, is between x_obs and x_sim.

    That may be the noise which x_sim lacks if it is an expected value, and no departure.
    Its mean and its spread depend on nothing, and no direction is seen not to be normal, as
    one would be where departures are hidden. Nor is there clearly more of it than the
    simulator has, where that is known, or else than all that parameters do to x_sim.
    """
    data = plan.data
    if not data.paired or data.x_sim.shape[1] > 1 or data.noise.found:
        return False
    x_obs, x_sim = data.x_obs.double().cpu(), data.mean_x_sim.double().cpu()
    moves = (x_obs != x_sim).any(dim=0)
    if not moves.any():
        return False
    x_obs, x_sim = x_obs[:, moves], x_sim[:, moves]
    delta = (x_obs - x_sim) / column_scale(x_sim)
    unit = (x_sim - x_sim.mean(dim=0)) / column_scale(x_sim)
    about = torch.cat([describe(data.entries), unit, unit.square()], dim=1)
    basis = basis_of(about, constant=True)
    left = delta - basis @ (basis.T @ delta)
    if len(delta) < FEWEST_OF_NOISE + 2 * basis.shape[1] or not left.any(dim=0).all():
        return False
    ratio = left.square().sum(dim=0) / (len(left) - basis.shape[1])
    if data.simulator is not None:
        known = data.simulator.double().cpu()[moves] / column_scale(x_sim).square()
        ratio = ratio / (MOST_LACKED * known).clamp(min=1e-300)
    if ratio.mean() > 1:
        return False
    sizes = (left.square() / left.square().mean(dim=0) + LEAST_SQUARE).log()
    # Along principal axes, one of which a hidden departure would be near to.
    axes = torch.linalg.svd(left, full_matrices=False)[2]
    normal = stats.normaltest((left @ axes.T).numpy(), axis=0).pvalue.min() * len(axes)
    alike = mean_departs(sizes, basis_of(about, constant=False))
    return bool(min(mean_departs(delta, basis), alike, normal) > THRESHOLDS.unusual)


def exchange_p_value(plan: Plan) -> float:
    """Test whether observations may be further simulations of their rows.

    Several simulations may agree with each other, and not with the observation, although
    nothing departs: if their inputs are known roughly. An observation can then change
    places with one of them, as no departure of that size would allow.
    """
    data = plan.data
    features = describe(data.entries)
    p_value = exchange_test(data.x_obs, data.x_sim, features, plan.seed).p_value
    if data.x_sim.shape[1] == 1 or p_value > THRESHOLDS.exchange:
        return p_value
    with_one = exchange_test(data.x_obs, data.x_sim[:, :1], features, plan.seed).p_value
    return with_one if with_one > THRESHOLDS.exchange_with_one else p_value


def exchanges(judgement: Judgement, option: Option) -> tuple[Exchange, Exchange] | None:
    """Compare observations with simulations of their rows, before and after a correction.

    What only evens out noise of x_sim makes observations vary less than simulations do.

    Args:
        judgement: What options gain.
        option: The one to look at.

    Returns:
        Both; None if there are no pairs, or x_sim has no noise of its own.
    """
    plan = judgement.plan
    data = plan.data
    if not data.paired or (judgement.noise_told and not data.noise.found):
        return None
    kept = np.isin(option.held_out.rows, plan.kept)
    rows = np.searchsorted(plan.kept, option.held_out.rows[kept])
    x_sim, features = data.x_sim[rows], describe(data.entries)[rows]
    drawn = option.held_out.draw(derive(plan.seed, "exchange"))[torch.from_numpy(kept)]
    before, after = (
        exchange_test(x, x_sim, features, plan.seed)
        for x in (data.x_obs[rows], drawn.to(x_sim))
    )
    return before, after


def elsewhere_p_value(subject: Subject, theta: Tensor) -> float | None:
    """Test whether parameters ``(n, dim_theta)`` drawn at x_sim are unlike the prior."""
    prior = getattr(subject.posterior, "prior", None)
    if prior is None or subject.theta is not None:
        return None
    return prior_p_value(theta, prior, subject.groups, subject.seed)
