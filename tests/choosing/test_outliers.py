"""Gross outliers have a component of their own: they may be any simulation."""

import pytest
import torch

from ma_sbi import CorrectedPosterior, fit_corrector
from ma_sbi.choosing.outliers import NUM_CANDIDATES, Outliers, find_outliers
from tests.worlds import exact

NOTES = ["high", "low"] * 50
SHIFT = torch.tensor([[2.0, 0.0], [0.0, -1.0]]).repeat(50, 1)


@pytest.fixture
def rows():
    """Observations of which every twentieth is far off, and simulations."""
    rng = torch.Generator().manual_seed(0)
    theta = torch.randn(100, 2, generator=rng)
    x_sim = theta + 0.5 * torch.randn(100, 2, generator=rng)
    x_obs = x_sim + SHIFT
    x_obs[::20] = torch.tensor([[90.0, 0], [0, 80], [-70, 0], [0, -99], [200, 200]])
    return x_obs, x_sim


def test_an_outlier_may_be_any_simulation(rows):
    x_obs, x_sim = rows
    posterior = exact()
    corrector = fit_corrector(NOTES, x_obs, x_sim, posterior=posterior, seed=0)
    far = torch.tensor([[400.0, -300.0]])
    candidates = corrector.corrections(far, "high")
    weight = candidates.log_weight.exp()
    kept = x_sim[torch.arange(100) % 20 != 0]
    torch.testing.assert_close(candidates.x[:, 0], kept)
    torch.testing.assert_close(weight, torch.full_like(weight, 1 / 95))
    # So the posterior is about the prior, a standard normal, and not NPE's near 300.
    draws = CorrectedPosterior(posterior, corrector).sample(2000, far, "high", seed=0)
    assert draws.abs().max() < 6
    assert draws.std() == pytest.approx(1.0, abs=0.2)


def test_what_is_near_is_corrected_as_ever(rows):
    x_obs, x_sim = rows
    corrector = fit_corrector(NOTES, x_obs, x_sim, seed=0)
    together = torch.cat([x_sim[1:3] + SHIFT[1:3], torch.full((1, 2), 400.0)])
    corrected = corrector.correct(together, [*NOTES[1:3], "high"])
    torch.testing.assert_close(corrected[:2], x_sim[1:3], atol=1e-4, rtol=0)
    kept = x_sim[torch.arange(100) % 20 != 0]
    torch.testing.assert_close(corrected[2], kept.mean(dim=0), atol=1e-4, rtol=0)


def test_evidence_leaves_outliers_alone(rows):
    x_obs, x_sim = rows
    law = torch.distributions.Normal(0.0, 1.25**0.5)
    corrector = fit_corrector(
        NOTES, x_obs, x_sim, density=lambda x: law.log_prob(x).sum(dim=-1), seed=0
    )
    assert corrector.why.inference == "evidence"
    candidates = corrector.corrections(torch.full((1, 2), 400.0), "high")
    weight = candidates.log_weight.exp()
    torch.testing.assert_close(weight, torch.full((95, 1), 1 / 95))


def test_without_outliers_in_calibration_there_are_none(rows):
    _, x_sim = rows
    corrector = fit_corrector(NOTES, x_sim + SHIFT, x_sim, seed=0)
    assert corrector.outliers is None
    far = torch.tensor([[400.0, -300.0]])
    torch.testing.assert_close(corrector.correct(far, "high"), far - SHIFT[:1])


def test_pools_without_pairs_answer_with_simulations_of_the_pool(rows):
    x_obs, x_sim = rows
    corrector = fit_corrector(NOTES, x_obs, simulations=x_sim, seed=0)
    candidates = corrector.corrections(torch.full((1, 2), 400.0), "high").x[:, 0]
    assert {tuple(one) for one in candidates.tolist()} <= {
        tuple(one) for one in x_sim.tolist()
    }


def test_the_farthest_of_many_rows_is_no_outlier():
    rng = torch.Generator().manual_seed(0)
    x_sim = torch.randn(20_000, 3, generator=rng)
    assert not find_outliers(x_sim + 1, x_sim).any()
    far = torch.full((1, 3), 30.0)
    outliers = Outliers.beyond(x_sim + 1, far, x_sim)
    assert not outliers.probability(x_sim + 1).any()
    # Between the others and the nearest outlier it may be either.
    some = torch.stack([far[0] * 1.1, far[0] * 0.8])
    torch.testing.assert_close(outliers.probability(some), torch.tensor([1, 1 / 20_001]))
    assert outliers.x_sim.shape == (NUM_CANDIDATES, 3)


def test_outliers_among_the_others_leave_a_doubt():
    rng = torch.Generator().manual_seed(0)
    x_sim = torch.randn(100, 1, generator=rng)
    x_sim[0] = 12.0  # simulations have a long tail, beyond the nearest outlier
    outliers = Outliers.beyond(x_sim, torch.tensor([[10.0], [-11.0], [60.0]]), x_sim)
    # Two of 103 lie within the range of the others, one beyond, as one other may.
    expected = torch.tensor([2.5 / 104, 2.5 / 104, 1 / 2])
    found = outliers.probability(torch.tensor([[0.0], [11.0], [15.0]]))
    torch.testing.assert_close(found, expected)


def test_many_outliers_are_no_regime_because_two_are_alike():
    rng = torch.Generator().manual_seed(0)
    x_sim = torch.randn(1000, 1, generator=rng)
    x_obs = x_sim.clone()
    x_obs[::20] += torch.linspace(-60, 60, 50)[:, None].sign() * (
        12 + 50 * torch.rand(50, 1, generator=rng)
    )
    assert find_outliers(x_obs, x_sim)[::20].all()
    x_obs = x_sim.clone()
    x_obs[::20] += 30.0
    assert not find_outliers(x_obs, x_sim).any()


@pytest.mark.parametrize(("dim", "num"), [(1, 10), (3, 8)])
def test_two_outliers_that_are_alike_are_chance_in_one_column(dim, num):
    """Within a hundred deviations: in three columns two of ten alike are no accident."""
    x_sim = torch.randn(200, dim, generator=torch.Generator().manual_seed(0))
    x_obs = x_sim.clone()
    away = torch.tensor([-50.0, -41, -33, -24, -15, 14, 23, 33, 33.5, 45])
    others = torch.tensor([20.0, -40, 50, -50, 30, -20, 45, -35, -35, 15])
    x_obs[::20, 0] += away
    x_obs[::20, 1:] += others[:, None]
    assert find_outliers(x_obs, x_sim).sum() == num
