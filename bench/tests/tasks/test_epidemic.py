"""The SIR solver against an adaptive one, and against what is known in closed form."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from ma_sbi_bench.tasks import epidemic
from ma_sbi_bench.tasks.epidemic import FIRST_INFECTED, solve_sir

DAYS = 154
SAMPLE = 1000


def prior_quantiles(deviations):
    """Rates that many standard deviations from sbibm's medians, one row each."""
    deviations = torch.tensor(deviations, dtype=torch.float64)
    log_median = torch.tensor([0.4, 0.125], dtype=torch.float64).log()
    return (log_median + deviations * torch.tensor([0.5, 0.2])).exp()


def adaptive(beta, gamma):
    """Infected at the beginning of each day and newly infected during it."""

    def slope(_, state):
        log_infected, log_susceptible = state
        return [beta * math.exp(log_susceptible) - gamma, -beta * math.exp(log_infected)]

    start = [math.log(FIRST_INFECTED), math.log1p(-FIRST_INFECTED)]
    solution = solve_ivp(
        slope,
        (0, DAYS),
        start,
        method="DOP853",
        t_eval=np.arange(DAYS + 1),
        rtol=1e-10,
        atol=1e-12,
    )
    infected, susceptible = torch.from_numpy(np.exp(solution.y))
    return infected, -susceptible.diff()


@pytest.mark.parametrize(
    ("deviations", "tolerance"),
    [
        ([0.0, 0.0], 5e-4),
        ([1.5, -1.5], 5e-4),
        ([-2.0, 2.0], 5e-4),
        ([2.5, 2.5], 2e-3),
        ([-4.0, 4.0], 5e-4),
        ([4.0, -4.0], 2e-2),
    ],
    ids=str,
)
def test_the_error_is_far_below_the_noise(deviations, tolerance):
    theta = prior_quantiles([deviations])
    infected, new = adaptive(*theta[0].tolist())
    found = solve_sir(theta, DAYS)
    for share, right in ((found.infected[0], infected), (found.new[0], new)):
        # Standard deviation of a share estimated from a sample, one case at least.
        noise = (right.clamp(min=1 / SAMPLE) / SAMPLE).sqrt()
        assert ((share - right).abs() / noise).max() < tolerance


def test_all_who_are_ever_infected_obey_the_final_size_relation():
    theta = prior_quantiles([[0.0, 0.0], [1.0, -1.0], [-0.5, 1.0]])
    never = 1 - FIRST_INFECTED - solve_sir(theta, 500).new.sum(dim=1)
    reproduction = theta[:, 0] / theta[:, 1]
    # d(log s) = -R0 d(recovered), and at the end all others have recovered.
    right = torch.exp(-reproduction * (1 - never)) * (1 - FIRST_INFECTED)
    torch.testing.assert_close(never, right, rtol=1e-6, atol=0)


def test_growth_is_exponential_while_few_are_infected():
    theta = prior_quantiles([[0.0, 0.0], [2.0, 0.0], [-3.0, 3.0]])
    infected = solve_sir(theta, 3).infected
    days = torch.arange(4, dtype=torch.float64)
    right = FIRST_INFECTED * torch.exp((theta[:, :1] - theta[:, 1:]) * days)
    # It slows down by the share of those who were infected before, below 1e-3 here.
    torch.testing.assert_close(infected, right, rtol=1e-3, atol=0)


@pytest.mark.parametrize("deviations", [[8.0, -8.0], [8.0, 8.0], [-8.0, 8.0]], ids=str)
def test_shares_are_positive_however_extreme_the_rates(deviations):
    outbreak = solve_sir(prior_quantiles([deviations]), DAYS)
    for shares in outbreak:
        assert ((shares > 0) & (shares < 1)).all()


def test_many_rows_are_as_one_by_one(monkeypatch):
    theta = prior_quantiles([[0.1 * k, -0.2 * k] for k in range(-5, 6)])
    together = solve_sir(theta, 60)
    monkeypatch.setattr(epidemic, "ROWS_AT_ONCE", 3)
    for some, all_at_once in zip(solve_sir(theta, 60), together, strict=True):
        # Vectorised and scalar exponentials may differ in the last digit.
        torch.testing.assert_close(some, all_at_once, rtol=1e-12, atol=0)
