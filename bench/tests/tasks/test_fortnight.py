"""Tests for ma_sbi_bench.tasks.fortnight."""

import pytest
import torch
from scipy import stats

from ma_sbi_bench.tasks.fortnight import FortnightSimulator

THETA = torch.tensor([5.0, 0.05, 1.0])
DAY = torch.arange(14).double() - 6.5


def test_counts_have_the_moments_of_the_negative_binomial():
    n = 20_000
    counts = FortnightSimulator().simulate(THETA.expand(n, 3), seed=0).double().expm1()
    mean = (5.0 + 0.05 * DAY).exp()
    variance = mean + mean**2 / torch.tensor(1.0).exp()
    assert ((counts.mean(dim=0) - mean).abs() < 4 * (variance / n).sqrt()).all()
    # The kurtosis of a gamma of shape e is about 3 + 6 / e.
    spread = variance * ((2 + 6 / torch.tensor(1.0).exp()) / n).sqrt()
    assert ((counts.var(dim=0) - variance).abs() < 5 * spread).all()
    torch.testing.assert_close(counts, counts.round(), atol=0.01, rtol=1e-5)


@pytest.mark.parametrize("dispersion", [None, 4.0])
def test_the_likelihood_is_scipys(dispersion):
    simulator = FortnightSimulator(dispersion=dispersion)
    theta = THETA if dispersion is None else THETA[:2]
    counts = simulator.simulate(theta.expand(3, -1), seed=1).double().expm1().round()
    departure = torch.linspace(-1, 1, 14)
    found = simulator.log_likelihood(counts, theta.expand(3, -1), departure.expand(3, -1))
    mean = (5.0 + 0.05 * DAY + departure.double()).exp().numpy()
    size = float(torch.tensor(1.0).double().exp()) if dispersion is None else dispersion
    expected = stats.nbinom.logpmf(counts.numpy(), size, size / (size + mean)).sum(axis=1)
    assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-6)


def test_a_constant_departure_is_another_level():
    simulator = FortnightSimulator()
    counts = torch.arange(14.0)[None]
    raised = THETA + torch.tensor([0.7, 0.0, 0.0])
    departed = simulator.log_likelihood(counts, THETA[None], torch.full((1, 14), 0.7))
    plain = simulator.log_likelihood(counts, raised[None], torch.zeros(1, 14))
    torch.testing.assert_close(departed, plain)


def test_extreme_parameters_have_a_likelihood():
    simulator = FortnightSimulator()
    theta = torch.tensor([[30.0, 1.0, 900.0], [-30.0, -1.0, -900.0]])
    found = simulator.log_likelihood(torch.full((2, 14), 3.0), theta, torch.zeros(2, 14))
    assert torch.isfinite(found).all()


def test_the_same_seed_gives_the_same_counts():
    simulator = FortnightSimulator()
    theta = simulator.prior.sample((50,))
    first, second = (simulator.simulate(theta, seed=3) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.isfinite(first).all()
    assert not torch.equal(first, simulator.simulate(theta, seed=4))


@pytest.mark.parametrize("dispersion", [0.0, -1.0, float("nan")])
def test_a_dispersion_must_be_positive(dispersion):
    with pytest.raises(ValueError, match="dispersion must be a positive number"):
        FortnightSimulator(dispersion=dispersion)


def test_the_gaussian_density_is_scipys_around_the_log_of_one_and_the_mean():
    simulator, departure = FortnightSimulator(), torch.linspace(-1, 1, 14)
    x = simulator.simulate(THETA.expand(3, -1), seed=1)
    theta = THETA.expand(3, -1)
    found = simulator.gaussian_log_density(x, theta, departure.expand(3, -1), 0.4)
    center = (5.0 + 0.05 * DAY + departure.double()).exp().log1p()
    expected = stats.norm.logpdf(x.double(), center, 0.4).sum(axis=1)
    assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-6)
