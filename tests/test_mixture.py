"""Tests for ma_sbi.mixture."""

import pytest
import torch
from torch.distributions import Independent, Normal

from ma_sbi import mixture
from ma_sbi.mixture import log_prob_mixture, sample_mixture
from ma_sbi.protocols import Corrections

NUM_CANDIDATES, BATCH, DIM = 7, 5, 2


class Exact:
    """theta | x ~ N(x, 1); counts the x that it is asked about."""

    def __init__(self):
        self.asked = 0

    def sample(self, num_samples, x, *, seed=None):
        rng = None if seed is None else torch.Generator().manual_seed(seed)
        return x + torch.randn(num_samples, *x.shape, generator=rng)

    def log_prob(self, theta, x):
        self.asked += len(x)
        return Independent(Normal(x, 1.0), 1).log_prob(theta)


def pool():
    """Candidates that all observations share, with weights of their own."""
    weight = torch.randn(NUM_CANDIDATES, BATCH).log_softmax(dim=0)
    return Corrections.among(torch.randn(NUM_CANDIDATES, DIM), weight)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("most", [1, 40, 10**6], ids=lambda most: f"{most} at once")
def test_the_density_is_the_weighted_sum_however_it_is_cut(shared, most, monkeypatch):
    monkeypatch.setattr(mixture, "MAX_ROWS", most)
    candidates = pool()._replace(shared=shared)
    theta = torch.randn(3, BATCH, DIM)
    each = Independent(Normal(candidates.x[:, None], 1.0), 1).log_prob(theta)
    expected = (each + candidates.log_weight[:, None]).logsumexp(dim=0)
    torch.testing.assert_close(log_prob_mixture(Exact(), theta, candidates), expected)


def test_shared_candidates_are_asked_about_once():
    posterior = Exact()
    log_prob_mixture(posterior, torch.randn(3, BATCH, DIM), pool())
    assert posterior.asked == NUM_CANDIDATES


def test_blocks_of_observations_have_seeds_of_their_own(monkeypatch):
    monkeypatch.setattr(mixture, "MAX_ROWS", 1000)
    candidates = pool()
    draws = sample_mixture(Exact(), 1000, candidates, seed=0)
    weight = candidates.log_weight.exp()[..., None]
    mean = (candidates.x * weight).sum(dim=0)
    spread = (((candidates.x - mean) ** 2 * weight).sum(dim=0) + 1).sqrt()
    assert ((draws.mean(dim=0) - mean).abs() < 5 * spread / 1000**0.5).all()
    centred = draws - draws.mean(dim=0)
    correlation = (centred[:, 0] * centred[:, 1]).mean(dim=0) / (spread[0] * spread[1])
    assert (correlation.abs() < 5 / 1000**0.5).all()


@pytest.mark.parametrize("shared", [True, False])
def test_a_candidate_without_weight_is_as_if_it_were_not_there(shared):
    whole = pool()
    weight = whole.log_weight.clone()
    weight[0] = -torch.inf
    candidates = whole._replace(log_weight=weight.log_softmax(dim=0), shared=shared)
    rest = Corrections(*(part[1:] for part in candidates[:3]))
    theta = torch.randn(3, BATCH, DIM)
    torch.testing.assert_close(
        log_prob_mixture(Exact(), theta, candidates), log_prob_mixture(Exact(), theta, rest)
    )
    far = candidates.x.clone()
    far[0] = 1e6
    draws = sample_mixture(Exact(), 200, candidates._replace(x=far), seed=0)
    assert draws.abs().max() < 100


def test_theta_that_no_candidate_allows_has_no_density():
    class Bounded(Exact):
        def log_prob(self, theta, x):
            inside = (theta.abs() < 1).all(dim=-1)
            return super().log_prob(theta, x).masked_fill(~inside, -torch.inf)

    theta = torch.full((1, BATCH, DIM), 2.0)
    found = log_prob_mixture(Bounded(), theta, pool()._replace(shared=False))
    assert (found == -torch.inf).all()


class FailsFarAway(Exact):
    """No number where x is beyond 100."""

    def log_prob(self, theta, x):
        found = super().log_prob(theta, x)
        return found.masked_fill((x > 100).any(dim=1), torch.nan)


@pytest.mark.parametrize("shared", [True, False])
def test_a_candidate_at_which_the_posterior_fails_counts_as_impossible(shared):
    candidates = pool()._replace(shared=shared)
    wild = candidates.x.clone()
    wild[2] = 1e6
    candidates = candidates._replace(x=wild)
    theta = torch.randn(3, BATCH, DIM)
    found = log_prob_mixture(FailsFarAway(), theta, candidates)
    torch.testing.assert_close(found, log_prob_mixture(Exact(), theta, candidates))


def test_a_failure_at_every_candidate_is_not_hidden():
    candidates = pool()
    candidates = candidates._replace(x=torch.full_like(candidates.x, 1e6))
    assert (
        log_prob_mixture(FailsFarAway(), torch.randn(3, BATCH, DIM), candidates)
        .isnan()
        .all()
    )
