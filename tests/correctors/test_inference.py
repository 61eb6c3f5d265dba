"""Tests for ma_sbi.correctors.inference."""

import torch
from torch.distributions import MultivariateNormal

from ma_sbi.correctors import Evidence, Mixture, Point
from ma_sbi.protocols import Corrections

LOG_WEIGHT = torch.tensor([[0.2, 0.7], [0.8, 0.3]]).log()
CANDIDATES = Corrections(
    x=torch.tensor([[[0.0, 0.0], [1.0, 1.0]], [[2.0, 0.0], [3.0, 0.0]]]),
    log_weight=LOG_WEIGHT,
    log_abs_det=torch.tensor([[0.0, 0.5], [1.0, 0.0]]),
)


def test_point_keeps_the_most_plausible_candidate():
    kept = Point()(CANDIDATES)
    assert kept.x.tolist() == [[[2.0, 0.0], [1.0, 1.0]]]
    assert kept.log_weight.tolist() == [[0.0, 0.0]]
    assert kept.log_abs_det.tolist() == [[1.0, 0.5]]


def test_mixture_keeps_all():
    assert Mixture()(CANDIDATES) is CANDIDATES


def test_evidence_is_bayes_rule_over_candidates():
    simulations = MultivariateNormal(torch.zeros(2), torch.eye(2))
    weighed = Evidence(simulations.log_prob)(CANDIDATES)
    joint = (
        LOG_WEIGHT.exp()
        * simulations.log_prob(CANDIDATES.x).exp()
        * CANDIDATES.log_abs_det.exp()
    )
    torch.testing.assert_close(weighed.log_weight.exp(), joint / joint.sum(dim=0))
    assert torch.equal(weighed.x, CANDIDATES.x)


def test_evidence_finds_the_regime_that_the_context_does_not_tell():
    # theta ~ N(0, 0.1), x ~ N(theta, 0.1), two shifts far apart: x itself tells which.
    simulations = MultivariateNormal(torch.zeros(2), 0.2 * torch.eye(2))
    shifts = torch.tensor([[3.0, 0.0], [-3.0, 0.0]])
    x_sim = simulations.sample((100,))
    regime = torch.arange(100) % 2
    candidates = Corrections(
        x=(x_sim + shifts[regime]) - shifts[:, None],
        log_weight=torch.full((2, 100), 0.5).log(),
        log_abs_det=torch.zeros(2, 100),
    )
    weighed = Evidence(simulations.log_prob)(candidates)
    found = Point()(weighed)
    torch.testing.assert_close(found.x[0], x_sim, atol=1e-5, rtol=0)
