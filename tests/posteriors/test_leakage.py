"""The density of a posterior that leaks out of a box, against the closed form."""

import logging

import pytest
import torch
from sbi.utils import BoxUniform
from torch.distributions import Independent, Normal, Uniform

from ma_sbi import from_callable
from ma_sbi.mixture import log_prob_mixture
from ma_sbi.posteriors.sbi_posterior import SBIPosterior
from ma_sbi.posteriors.truncation import LeakyPosterior, sample_truncated
from ma_sbi.protocols import Corrections

BOX = Independent(Uniform(torch.zeros(2), torch.ones(2)), 1)
WIDTH = 0.2
MOST = 2_000
THETA = torch.tensor([[0.3, 0.4], [0.9, 0.5], [0.05, 0.95]])
# From the middle of the box to far outside.
X = torch.tensor([[0.5, 0.5], [0.9, 0.5], [1.0, 0.5], [1.0, 1.0], [1.2, 0.5], [1.3, 1.1]])


class Gaussian:
    """A Gaussian around x that counts its draws."""

    def __init__(self, leakage_samples=MOST):
        self.num_draws = 0
        self.posterior = from_callable(self.sample, self.density, prior=BOX)
        self.posterior.leakage_samples = leakage_samples

    def sample(self, num_samples, x):
        self.num_draws += num_samples
        return x + WIDTH * torch.randn(num_samples, 2)

    def density(self, theta, x):
        return Normal(x, WIDTH).log_prob(theta).sum(dim=-1)


def log_share(x):
    """The log of the mass inside the box, shape ``(batch,)``."""
    law = Normal(x.double(), WIDTH)
    inside = law.cdf(torch.ones(2).double()) - law.cdf(torch.zeros(2).double())
    return inside.log().sum(dim=-1)


def standard_error(share, num_draws):
    """Of the log of an estimated share; a half's, if more is inside."""
    share = share.clamp(max=0.5)
    return ((1 - share) / (share * num_draws)).sqrt()


def closed_form(theta, x):
    each = Normal(x[None].double(), WIDTH).log_prob(theta[:, None].double()).sum(dim=-1)
    return each - log_share(x)


def test_a_draw_of_the_prior_on_its_bound_weighs_nothing():
    class Rounded(BoxUniform):
        def sample(self, shape):
            draws = super().sample(shape)
            draws[0] = 534.0  # as rounding may do
            return draws

    prior = Rounded(torch.tensor([530.0]), torch.tensor([534.0]))
    assert prior.log_prob(prior.sample((2,)))[0] == -torch.inf
    x = torch.full((20, 1), 534.5)
    with pytest.warns(LeakyPosterior):
        draws = sample_truncated(
            lambda n, x: x + 0.03 * torch.randn(n, *x.shape),
            lambda theta, x: -((theta - x) / 0.03).square().sum(dim=2) / 2,
            prior,
            10,
            x,
            max_rounds=1,
        )
    assert draws.isfinite().all()


def test_a_density_is_normalised_within_its_precision():
    found = Gaussian().posterior.log_prob(THETA[:, None].expand(-1, len(X), -1), X)
    error = (found - closed_form(THETA, X)).abs().amax(dim=0)
    assert (error < 4 * standard_error(log_share(X).exp(), MOST)).all(), error


@pytest.mark.parametrize("by_weight", [False, True], ids=["alike", "one counts"])
def test_a_mixture_is_normalised_within_the_precision_of_one(by_weight):
    rng = torch.Generator().manual_seed(0)
    x = torch.tensor([[1.0, 0.5]]) + 0.1 * torch.randn(130, 1, 2, generator=rng)
    weight = torch.ones(130, 1)
    if by_weight:
        weight[0] = 1_000.0
    weight = weight / weight.sum()
    candidates = Corrections(x, weight.log(), torch.zeros_like(weight))
    gaussian = Gaussian()
    found = log_prob_mixture(gaussian.posterior, THETA[:, None], candidates)[:, 0]
    expected = (closed_form(THETA, x[:, 0]) + weight[:, 0].log()).logsumexp(dim=1)
    share = log_share(x[:, 0]).exp().min()
    assert ((found - expected).abs() < 4 * standard_error(share, MOST)).all()
    # One x alone has 2,000: 130 would have 260,000.
    assert gaussian.num_draws < 40_000


def test_few_draws_show_that_nothing_leaks():
    gaussian = Gaussian()
    x = torch.full((50, 2), 0.5)
    found = gaussian.posterior.log_prob(THETA[:, None].expand(-1, 50, -1), x)
    # 10, 20, 40 and 80 for most, instead of 2,000.
    assert gaussian.num_draws <= 50 * 400
    error = (found - closed_form(THETA, x)).abs().max()
    assert error < 4 * standard_error(torch.tensor(0.5), MOST)


def test_an_estimate_is_made_once_for_many_theta():
    gaussian = Gaussian()
    weight = torch.tensor([[0.5], [0.5]])
    candidates = Corrections(X[:2, None], weight.log(), torch.zeros_like(weight))
    log_prob_mixture(gaussian.posterior, THETA[:, None], candidates)
    before = gaussian.num_draws
    log_prob_mixture(gaussian.posterior, THETA[:1, None], candidates)
    assert gaussian.num_draws == before > 0


def test_the_leakage_of_many_candidates_takes_as_many_draws_as_that_of_one():
    gaussian = Gaussian()
    weight = torch.full((100, 1), 0.01)
    x = X[2].expand(100, 1, 2)
    candidates = Corrections(x, weight.log(), torch.zeros_like(weight))
    given = SBIPosterior(gaussian.posterior, lambda rows: candidates)
    found = given.leakage_correction(X[2:3], num_rejection_samples=10_000)
    share = log_share(X[2:3]).exp()
    error = (share * (1 - share) / 10_000).sqrt()
    assert (found - share).abs() < 4 * error
    assert gaussian.num_draws <= 20_000


def test_the_log_says_once_what_is_normalised(caplog):
    posterior = Gaussian().posterior
    x = X[2] + torch.linspace(0, 0.1, 60)[:, None]
    with caplog.at_level(logging.INFO, logger="ma_sbi"):
        for _ in range(2):
            posterior.log_prob(THETA[:, None].expand(-1, 60, -1), x)
            posterior._last_acceptance = None
    (said,) = [one.message for one in caplog.records]
    assert "leakage_samples=0" in said
