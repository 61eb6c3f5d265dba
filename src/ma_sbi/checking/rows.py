"""What rows tell of themselves: noise of x_sim, its population, and changed places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ma_sbi.choosing.exchange import Exchange, exchange_test
from ma_sbi.choosing.features import describe
from ma_sbi.choosing.plan import Plan
from ma_sbi.choosing.population import prior_p_value
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
    "is_noiseless",
    "repeated",
    "simulated",
]

# Share of the noise that x_sim may have of which corrected rows leave less, if it has none.
NO_NOISE = 0.01


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
