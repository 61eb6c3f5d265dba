"""Tests for ma_sbi.posterior."""

import pytest
import torch

from ma_sbi import CorrectedPosterior, HashEncoder, ShiftCorrector, from_sbi
from ma_sbi.posteriors.training_range import OutsideTrainingRange
from tests.correctors.worlds import TEXTS, shifted_world
from tests.some_posteriors import flow_posterior, sbi_npe, simulations


@pytest.fixture
def corrector():
    world = shifted_world(40, dim_x=3)
    return ShiftCorrector(HashEncoder()).fit(*world[:3])


def test_draws_have_the_closed_form_law(exact_gaussian, corrector):
    world = shifted_world(40, dim_x=3)
    corrected = CorrectedPosterior(exact_gaussian, corrector)
    num = 20_000
    draws = corrected.sample(num, world.x_obs[:4], world.context[:4], seed=0)
    error = (0.05 / num) ** 0.5
    assert (draws.mean(dim=0) - world.x_sim[:4] / 2).abs().max() < 5 * error + 1e-5
    variance = draws.var(dim=0)
    assert (variance - 0.05).abs().max() < 5 * 0.05 * (2 / num) ** 0.5


def test_density_is_the_posteriors_at_the_corrected_x(exact_gaussian, corrector):
    world = shifted_world(40, dim_x=3)
    corrected = CorrectedPosterior(exact_gaussian, corrector)
    theta = torch.randn(5, 4, 3)
    found = corrected.log_prob(theta, world.x_obs[:4], world.context[:4])
    expected = exact_gaussian.log_prob(theta, world.x_sim[:4])
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-4)


def test_one_context_holds_for_all(exact_gaussian, corrector):
    corrected = CorrectedPosterior(exact_gaussian, corrector)
    x = torch.randn(3, 3)
    assert torch.equal(
        corrected.sample(4, x, TEXTS[0], seed=0),
        corrected.sample(4, x, [TEXTS[0]] * 3, seed=0),
    )


def test_a_context_of_another_length_is_refused(exact_gaussian, corrector):
    corrected = CorrectedPosterior(exact_gaussian, corrector)
    with pytest.raises(ValueError, match="expected 3, got 2"):
        corrected.sample(4, torch.randn(3, 3), TEXTS[:2])


def test_an_sbi_posterior_must_be_adapted(corrector):
    with pytest.raises(ValueError, match=r"wrap it with from_sbi\(posterior\)"):
        CorrectedPosterior(sbi_npe(), corrector)


def test_what_is_no_posterior_is_refused(corrector):
    with pytest.raises(ValueError, match="posterior must offer sample"):
        CorrectedPosterior(None, corrector)


def test_what_is_no_corrector_is_refused(exact_gaussian):
    with pytest.raises(ValueError, match="must offer corrections"):
        CorrectedPosterior(exact_gaussian, object())


def test_a_posterior_without_density_says_so(corrector):
    class Sampler:
        def sample(self, num_samples, x, *, seed=None):
            return x.expand(num_samples, -1, -1)

    corrected = CorrectedPosterior(Sampler(), corrector)
    with pytest.raises(ValueError, match="Sampler can be sampled but has no density"):
        corrected.log_prob(torch.zeros(1, 1, 3), torch.zeros(1, 3), TEXTS[0])


@pytest.mark.parametrize(
    "make",
    [
        flow_posterior,
        lambda: from_sbi(sbi_npe()),
        lambda: from_sbi(sbi_npe(), x_train=simulations(2000)[1]),
    ],
    ids=["flow", "sbi_z_score", "sbi_x_train"],
)
def test_an_x_far_outside_the_simulations_is_reported(make, corrector):
    corrected = CorrectedPosterior(make(), corrector)
    x = torch.tensor([[0.0, 0.0, 0.0], [60.0, 60.0, 60.0]])
    with pytest.warns(OutsideTrainingRange, match="1 of 2 observations .first: row 1"):
        corrected.sample(3, x, TEXTS[0], seed=0)
    with pytest.warns(OutsideTrainingRange, match="1 of 2 observations .first: row 1"):
        corrected.log_prob(torch.zeros(1, 2, 3), x, TEXTS[0])


def test_simulations_are_not_reported_as_outside(recwarn):
    posterior = flow_posterior()
    posterior.sample(1, simulations(5000, seed=5)[1], seed=0)
    assert not [w for w in recwarn if w.category is OutsideTrainingRange]
