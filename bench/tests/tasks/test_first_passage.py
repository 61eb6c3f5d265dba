"""Exits of a diffusion against their closed forms."""

import math

import pytest
import torch
from scipy.integrate import quad
from scipy.stats import kstest

from ma_sbi_bench.tasks.first_passage import (
    CROSSOVER,
    first_passage_log_density,
    sample_exit_time,
    sample_first_passage,
)

PARAMETERS = [(0.0, 1.0), (0.3, 0.5), (-1.0, 1.5), (3.0, 2.0), (12.0, 2.0)]
every_parameter = pytest.mark.parametrize(("v", "a"), PARAMETERS, ids=str)


def probability_upper(v, a):
    return 1 / (1 + math.exp(-v * a))


def mean(v, a):
    return a**2 / 4 if v == 0 else a / (2 * v) * math.tanh(v * a / 2)


def variance(v, a):
    k = abs(v) * a
    if k == 0:
        return a**4 / 24
    decay = math.exp(-k)
    return a**4 / (2 * k**3) * (1 - 2 * k * decay - decay**2) / (1 + decay) ** 2


def survival(time, v, a, terms=400):
    """Probability of not having left: the eigenfunction series of the textbooks."""
    odd = 2 * torch.arange(terms, dtype=torch.float64) + 1
    rate = (odd**2 * math.pi**2 / a**2 + v**2) / 2
    weight = 2 * math.pi * odd * (-1) ** torch.arange(terms) / (a**2 * rate)
    decay = torch.exp(-rate * torch.as_tensor(time)[..., None])
    return math.cosh(v * a / 2) * (weight * decay).sum(dim=-1)


def density(time, upper, v, a):
    return first_passage_log_density(time, upper, v, a).exp().item()


def draw(v, a, n=40_000):
    source = torch.Generator().manual_seed(5)
    return sample_first_passage(torch.full((n,), v), a, source=source)


@every_parameter
def test_the_mean_time_and_its_spread_are_the_closed_forms(v, a):
    time = draw(v, a).time
    spread = variance(v, a)
    error = (spread / len(time)) ** 0.5
    assert time.mean().item() == pytest.approx(mean(v, a), abs=4 * error)
    kurtosis = ((time - mean(v, a)) ** 4).mean().item() / spread**2
    error = spread * ((kurtosis - 1) / len(time)) ** 0.5
    assert time.var().item() == pytest.approx(spread, abs=4 * error)


@every_parameter
def test_the_share_of_upper_exits_is_the_closed_form(v, a):
    upper = draw(v, a).upper.double()
    expected = probability_upper(v, a)
    error = (expected * (1 - expected) / len(upper)) ** 0.5
    assert upper.mean().item() == pytest.approx(expected, abs=4 * error)


@every_parameter
def test_times_follow_the_series_of_the_textbooks(v, a):
    time = draw(v, a, n=10_000).time
    # A probability integral transform: uniform if the law is right.
    assert kstest(survival(time, v, a).numpy(), "uniform").pvalue > 1e-3


def test_times_at_the_two_boundaries_follow_one_law():
    time, upper = draw(1.0, 1.0)
    assert kstest(time[upper].numpy(), time[~upper].numpy()).pvalue > 1e-3


def test_a_strong_drift_arrives_on_time():
    # Hundreds of standard deviations from the boundary behind: half the way over v.
    time = sample_exit_time(torch.full((1000,), 1e8), 1.0)
    torch.testing.assert_close(time, torch.full_like(time, 0.5e-8), rtol=1e-3, atol=0)


def test_parameters_broadcast():
    time = sample_exit_time(torch.ones(3, 1), torch.ones(4))
    assert time.shape == (3, 4)
    assert time.dtype == torch.float64


@every_parameter
@pytest.mark.parametrize("upper", [True, False])
def test_the_density_integrates_to_the_probability_of_the_boundary(v, a, upper):
    split = CROSSOVER * a**2
    mass = sum(
        quad(lambda t: density(t, upper, v, a), *limits, epsabs=1e-11, epsrel=1e-9)[0]
        for limits in ((0, split / 8), (split / 8, split), (split, math.inf))
    )
    assert mass == pytest.approx(probability_upper(v if upper else -v, a), abs=1e-9)


@every_parameter
def test_the_density_is_the_slope_of_the_textbook_series(v, a):
    time = a**2 * torch.tensor([0.02, 0.1, CROSSOVER, 0.5, 2.0], dtype=torch.float64)
    time.requires_grad_()
    slope = -torch.autograd.grad(survival(time, v, a).sum(), time)[0]
    total = sum(first_passage_log_density(time, side, v, a).exp() for side in (True, False))
    torch.testing.assert_close(total.detach(), slope, rtol=1e-9, atol=1e-12)


def test_the_density_does_not_jump_where_the_expansions_meet():
    around = CROSSOVER * (1 + 1e-15 * torch.tensor([-2.0, 2.0], dtype=torch.float64))
    below, above = first_passage_log_density(around, True, 1.0, 1.0)
    torch.testing.assert_close(below, above, rtol=0, atol=1e-13)


def test_the_density_is_finite_at_extreme_times_and_zero_outside():
    time = torch.tensor([1e-300, 1e-12, 1e-3, 1e3, 1e300], dtype=torch.float64)
    assert torch.isfinite(first_passage_log_density(time, [True], 1.0, 1.0)).all()
    time = torch.tensor([-1.0, 0.0, math.inf, math.nan])
    assert (first_passage_log_density(time, [True], 1.0, 1.0) == -math.inf).all()


def test_the_density_has_gradients_on_both_sides_of_the_crossover():
    v, a = (torch.tensor(1.0, dtype=torch.float64, requires_grad=True) for _ in range(2))
    time = torch.tensor([-1.0, 1e-3, 0.1, 1.0, 50.0], dtype=torch.float64)
    log_density = first_passage_log_density(time, [True], v, a)
    for gradient in torch.autograd.grad(log_density[1:].sum(), (v, a)):
        assert torch.isfinite(gradient)
    assert torch.autograd.gradcheck(
        lambda v, a: first_passage_log_density(time[1:], [True], v, a), (v, a)
    )


@pytest.mark.parametrize(
    ("v", "a"), [(1.0, 0.0), (1.0, -1.0), (math.nan, 1.0), (1.0, math.inf)], ids=str
)
def test_impossible_parameters_are_refused(v, a):
    with pytest.raises(ValueError, match="finite and positive"):
        sample_exit_time(v, a)
    with pytest.raises(ValueError, match="finite and positive"):
        first_passage_log_density(1.0, [True], v, a)
