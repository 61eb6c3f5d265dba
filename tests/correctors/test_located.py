"""Tests for ma_sbi.correctors.located."""

import math

import pytest
import torch
from sklearn.preprocessing import FunctionTransformer

from ma_sbi import CategoryEncoder, ComposedCorrector, HashEncoder, ShiftCorrector
from ma_sbi.correctors import Affine, Mixture, ResidualPools, Ridge, Shift
from ma_sbi.correctors.fitting import Triples
from ma_sbi.correctors.located import RidgeWithResiduals
from tests.correctors.worlds import TEXTS, shifted_world

N = 60


def corrector(departure, encoder=None, **options):
    pools = ResidualPools(num_draws=1000, **options)
    fitting = RidgeWithResiduals(Ridge(), pools)
    return ComposedCorrector(encoder or HashEncoder(), departure, fitting, Mixture())


def same_context(delta):
    """Triples of one context, so that the regression is the mean."""
    n = len(delta)
    zero = torch.zeros(n, dtype=torch.long)
    return Triples(torch.zeros(1, 1).double(), zero, torch.ones(n, 1).double(), delta)


def test_around_a_mean_are_the_residuals_of_all_others():
    delta = torch.randn(N, 2, dtype=torch.float64)
    fitting = RidgeWithResiduals(pools=ResidualPools(num_draws=1000))
    found = fitting.fit(same_context(delta))(torch.zeros(1, 1))
    mean = delta.mean(dim=0)
    expected = mean + N / (N - 1) * (delta - mean)
    torch.testing.assert_close(found.coefficients[:, 0, 0] + found.offset[:, 0], expected)
    weight = found.log_weight[:, 0].exp()
    torch.testing.assert_close(weight, torch.full((N,), 1 / N).double())


def test_the_spread_is_that_of_errors_of_the_prediction():
    # A new departure lies around the mean of n with a variance of 1 + 1/n.
    delta = torch.randn(N, 50, dtype=torch.float64)
    fitting = RidgeWithResiduals(pools=ResidualPools(num_draws=1000))
    found = fitting.fit(same_context(delta))(torch.zeros(1, 1))
    variance = found.offset[:, 0].var(dim=0, unbiased=False)
    expected = (N / (N - 1)) ** 2 * (1 - 1 / N)
    # The mean of 50 variances of 60 rows; four standard errors.
    assert abs(variance.mean() - expected) < 4 * (2 / (N * 50)) ** 0.5


@pytest.mark.parametrize("departure", [Shift(), Affine()], ids=["shift", "affine"])
def test_a_departure_that_is_predicted_exactly_has_one_candidate(departure):
    world = shifted_world(N, dim_x=3)
    fitted = corrector(departure).fit(*world[:3])
    found = fitted.corrections(world.x_obs, world.context)
    assert len(found.x) == 1
    torch.testing.assert_close(found.x[0], world.x_sim, atol=2e-4, rtol=0)


def test_the_mean_of_candidates_is_the_regression_plus_the_mean_residual():
    world = shifted_world(N, dim_x=3, noise=0.3)
    fitted = corrector(Shift(), width=math.inf).fit(*world[:3])
    point = ShiftCorrector(HashEncoder()).fit(*world[:3])
    rest = fitted.fitted_.residuals.residuals.mean(dim=0)
    torch.testing.assert_close(
        fitted.shift(TEXTS), point.shift(TEXTS) + rest.float(), atol=1e-5, rtol=1e-5
    )


def test_candidates_of_a_shift_cover_new_departures():
    # Departures of a context: its own shift plus noise of 0.3.
    world = shifted_world(400, dim_x=1, noise=0.3)
    fitted = corrector(Shift(), width=math.inf).fit(*world[:3])
    new = shifted_world(400, dim_x=1, noise=0.3)
    found = fitted.corrections(new.x_obs, new.context)
    below = ((found.x < new.x_sim).squeeze(-1) * found.log_weight.exp()).sum(dim=0)
    covered = ((below > 0.05) & (below < 0.95)).double().mean()
    # 400 rows; the limits come from 400 residuals, which adds as much again.
    assert abs(covered - 0.9) < 4 * (2 * 0.9 * 0.1 / 400) ** 0.5


def test_residuals_move_the_shift_and_leave_slopes_alone():
    rng = torch.Generator().manual_seed(1)
    x_obs = torch.randn(N, 2, generator=rng)
    x_sim = 0.5 * x_obs + 0.1 * torch.randn(N, 2, generator=rng)
    fitted = corrector(Affine(), CategoryEncoder()).fit(["a", "b"] * 30, x_obs, x_sim)
    encoding = fitted.encoder_.transform(["a"])
    found = fitted.fitted_(torch.from_numpy(encoding).double())
    assert len(found.coefficients) == 1
    assert len(found.offset[:, 0].unique(dim=0)) > 10
    # The same distance between candidates at any x.
    near, far = fitted.corrections([[0.0, 0.0], [5.0, 5.0]], ["a", "a"]).x.unbind(dim=1)
    torch.testing.assert_close(near - near[0], far - far[0], atol=1e-5, rtol=0)


def test_a_regression_on_numbers_locates_residuals():
    z = torch.rand(300, 1)
    spread = 0.05 * torch.randn(300, 1)
    encoder = FunctionTransformer()
    fitted = corrector(Shift(), encoder, width=math.inf)
    fitted.fit(z.numpy(), 3 * z + spread, torch.zeros(300, 1), seed=0)
    found = fitted.corrections(torch.zeros(2, 1), [[0.2], [0.8]])
    centre = -(found.x[..., 0] * found.log_weight.exp()).sum(dim=0)
    # Means of a regression from 300 rows with noise of 0.05.
    torch.testing.assert_close(centre, torch.tensor([0.6, 2.4]), atol=0.04, rtol=0)
    width = (found.x[..., 0] + centre).square().mul(found.log_weight.exp()).sum(dim=0)
    # Pools without a regression would spread by the range of z, 0.87.
    assert (width.sqrt() < 0.07).all()
    assert (width.sqrt() > 0.035).all()


def test_rows_of_a_context_may_have_residuals_of_their_own():
    # The noise differs between contexts, and width zero keeps their pools apart.
    n = 200
    loud = torch.arange(n) % 2
    x_obs = torch.randn(n, 1) * torch.where(loud == 1, 1.0, 0.01)[:, None]
    fitted = corrector(Shift(), CategoryEncoder(), width=0.0)
    fitted.fit(["calm", "loud"] * (n // 2), x_obs, torch.zeros(n, 1))
    found = fitted.corrections(torch.zeros(2, 1), ["calm", "loud"])
    mean = (found.x[..., 0] * found.log_weight.exp()).sum(dim=0)
    variance = ((found.x[..., 0] - mean).square() * found.log_weight.exp()).sum(dim=0)
    # Deviations of 100 rows each; four standard errors.
    assert variance[0].sqrt().item() == pytest.approx(0.01, rel=4 / 200**0.5)
    assert variance[1].sqrt().item() == pytest.approx(1.0, rel=4 / 200**0.5)
