"""FMCPE on its authors' Gaussian task, whose posterior is known; its maps one by one.

theta ~ N(m, S) in 3-d, x = A theta + b + noise in 10-d, y = C x + d + noise: theta | y is
Gaussian. The posterior that is carried is the exact theta | x, so that nothing but FMCPE is
tested.
"""

from functools import lru_cache

import pytest
import torch
from sbi.utils.metrics import c2st
from sklearn.covariance import ledoit_wolf
from torch.distributions import MultivariateNormal

from ma_sbi import from_callable
from ma_sbi.networks import Standardise
from ma_sbi.randomness import seeded
from ma_sbi_bench.methods import FMCPE, NPE, Calibration, Materials
from ma_sbi_bench.methods.flow_matching import SIGMA_MIN, FlowMatching, Whiten
from tests.seeds import shifted_seeds

DIM_THETA, DIM_X, NUM_CALIBRATION = 3, 10, 1000


class GaussianTask:
    """The task with the authors' scales; in double precision, as C is ill-conditioned."""

    def __init__(self):
        with shifted_seeds(0), seeded(0):  # one world, whatever the seeds of the fits
            draw = torch.randn(4, DIM_X, DIM_X, dtype=torch.float64)
            self.mean = torch.rand(DIM_THETA, dtype=torch.float64) * 10 - 5
            self.shift = torch.rand(DIM_X, dtype=torch.float64) * 5 + 5
            self.bias, root = torch.randn(DIM_X).double(), torch.randn(3, 3).double()
            self.slope = torch.randn(DIM_X, DIM_THETA, dtype=torch.float64)
        self.covariance = root @ root.T + torch.eye(DIM_THETA)
        self.noise = draw[0] @ draw[0].T
        self.distortion, self.extra_noise = 1 + draw[1], 0.01 * draw[2] @ draw[2].T
        self.prior = MultivariateNormal(self.mean.float(), self.covariance.float())

    def simulate(self, theta, *, seed=None):
        with seeded(seed):
            mean = theta.double() @ self.slope.T + self.bias
            return MultivariateNormal(mean, self.noise).sample().float()

    def observe(self, n, seed):
        """Draw theta and y."""
        with seeded(seed):
            theta = self.prior.sample((n,))
        mean = self.simulate(theta, seed=seed + 1).double() @ self.distortion.T + self.shift
        with seeded(seed + 2):
            return theta, MultivariateNormal(mean, self.extra_noise).sample().float()

    def posterior_of_x(self, x):
        return self._posterior(x, self.slope, self.bias, self.noise)

    def posterior_of_y(self, y):
        noise = self.distortion @ self.noise @ self.distortion.T + self.extra_noise
        bias = self.distortion @ self.bias + self.shift
        return self._posterior(y, self.distortion @ self.slope, bias, noise)

    def _posterior(self, values, slope, bias, noise):
        weight = torch.linalg.solve(noise, slope)
        prior_precision = torch.linalg.inv(self.covariance)
        covariance = torch.linalg.inv(prior_precision + slope.T @ weight)
        natural = (values.double() - bias) @ weight + self.mean @ prior_precision
        return MultivariateNormal(natural @ covariance, covariance)


TASK = GaussianTask()
EXACT_NPE = from_callable(
    lambda n, x: TASK.posterior_of_x(x).sample((n,)).float(), batched=True, prior=TASK.prior
)


@lru_cache
def materials():
    theta, y = TASK.observe(NUM_CALIBRATION, seed=10)
    return Materials(
        prior=TASK.prior,
        posterior=EXACT_NPE,
        simulator=TASK.simulate,
        calibration=Calibration(y, theta=theta),
    )


def errors_of_moments(method, y, num_draws=500):
    """Compare draws with theta | y, in its standard deviations.

    Returns:
        The root mean square error of the means over observations and coordinates, and the
        mean over observations of the whitened covariance, which should be the identity.
    """
    exact = TASK.posterior_of_y(y)
    draws = method.sample(num_draws, y, seed=1).double()
    root = torch.linalg.cholesky(exact.covariance_matrix[0])
    white = torch.linalg.solve_triangular(
        root, (draws - exact.mean).unsqueeze(-1), upper=False
    ).squeeze(-1)
    centred = white - white.mean(dim=0)
    covariance = torch.einsum("nbi,nbj->ij", centred, centred) / centred[..., 0].numel()
    return white.mean(dim=0).square().mean().sqrt().item(), covariance


def test_the_task_agrees_with_least_squares_on_many_rows():
    theta, y = TASK.observe(20_000, seed=0)
    exact = TASK.posterior_of_y(y)
    inputs = torch.cat([y.double(), torch.ones(len(y), 1)], dim=1)
    fitted = inputs @ torch.linalg.lstsq(inputs, theta.double()).solution
    spread = exact.covariance_matrix[0].diag().sqrt()
    # Eleven coefficients learned from n rows: the error is sqrt(11 / n) deviations.
    assert ((fitted - exact.mean) / spread).square().mean().sqrt() < 1.5 * (
        11 / 20_000
    ) ** 0.5


@lru_cache
def small_fit():
    return FMCPE(
        sigma=None,
        rescale="whiten",
        epochs=60,
        num_steps_training=20,
        num_blocks=2,
        learning_rate=3e-3,
        time_rate=2.0,
    ).fit(materials(), seed=0)


@pytest.mark.slow
def test_draws_have_the_moments_of_the_exact_posterior():
    _, y = TASK.observe(50, seed=20)
    error, covariance = errors_of_moments(small_fit(), y)
    # Least squares, which knows that the world is linear with equal noise, errs by
    # sqrt(11 / 1000) = 0.10 deviations in the mean and by sqrt(0.5 / 1000) = 2 % in a
    # deviation. The maps do not know: over six training seeds they erred by 0.29 +- 0.06
    # and by at most 10 % +- 7 %. Four of these deviations are allowed.
    assert error < 0.29 + 4 * 0.06
    assert (covariance.diag().sqrt() - 1).abs().max() < 0.10 + 4 * 0.07
    # The trained posterior is off by about fifty deviations.
    unchanged, _ = errors_of_moments(NPE().fit(materials()), y)
    assert error < unchanged / 50


@pytest.mark.slow
@pytest.mark.parametrize("rescale", ["z_score", "whiten"])
def test_the_joint_of_theta_and_y_can_hardly_be_told_from_the_exact_one(rescale):
    method = FMCPE(sigma=None, rescale=rescale, time_rate=2.0).fit(materials(), seed=0)
    # Each side has observations of its own: shared ones would give the sides away.
    exact = torch.cat(TASK.observe(1000, seed=30), dim=1)
    _, y = TASK.observe(1000, seed=40)

    def tell_apart(posterior):
        drawn = torch.cat([posterior.sample(1, y, seed=1)[0], y], dim=1)
        return c2st(drawn, exact, seed=1, classifier="mlp").item()

    # Of two sets of 1000 from one joint a share of 0.50 +- 0.011 is told apart.
    assert tell_apart(method) < 0.5 + 4 * 0.011
    assert tell_apart(EXACT_NPE) > 0.9


def test_the_simulator_is_given_theta_in_its_own_units():
    seen = []

    def simulate(theta, *, seed=None):
        seen.append(theta)
        return TASK.simulate(theta, seed=seed)

    theta, y = TASK.observe(20, seed=10)
    given = Materials(
        prior=TASK.prior,
        posterior=EXACT_NPE,
        simulator=simulate,
        calibration=Calibration(y, theta=theta),
    )
    FMCPE(epochs=2, num_steps_training=2).fit(given, seed=0)
    at_calibration = torch.cat(seen[1:])  # the first call is at draws from the prior
    assert set(map(tuple, at_calibration.tolist())) == set(map(tuple, theta.tolist()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sigma": 0.0}, "sigma"),
        ({"epochs": 0}, "epochs"),
        ({"time_rate": -1.0}, "time_rate"),
        ({"rescale": "none"}, "z_score, whiten"),
        ({"validation_fraction": 1.0}, "between 0 and 1"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        FMCPE(**options).fit(materials())


def test_too_few_pairs_are_refused():
    theta, y = TASK.observe(4, seed=0)
    given = Materials(
        prior=TASK.prior,
        posterior=EXACT_NPE,
        simulator=TASK.simulate,
        calibration=Calibration(y, theta=theta),
    )
    with pytest.raises(ValueError, match="at least 5"):
        FMCPE().fit(given)


class ExactVelocity(FlowMatching):
    """The velocity between N(0, 1) and N(mean, spread^2), in closed form."""

    mean, spread = 2.0, 1 / 3

    def forward(self, z, time, condition):
        left = 1 - (1 - SIGMA_MIN) * time
        variance = left**2 + (time * self.spread) ** 2
        slope = (time * self.spread**2 - (1 - SIGMA_MIN) * left) / variance
        return self.mean + slope * (z - time * self.mean)


def test_the_exact_velocity_carries_one_normal_to_another():
    source = torch.randn(1000, 1, generator=torch.Generator().manual_seed(0))
    source = (source - source.mean()) / source.std()
    target = ExactVelocity(1, 1).transport(source, source, num_steps=20)
    # Euler's error, which is no matter of chance: 3 % of the way, 1 % of the width.
    assert abs(target.mean() / 2 - 1) < 0.035
    assert abs(target.std() * 3 - 1) < 0.01
    fine = ExactVelocity(1, 1).transport(source, source, num_steps=2000)
    assert abs(fine.mean() / 2 - 1) < 1e-3
    assert abs(fine.std() * 3 - 1) < 1e-3


def test_no_velocity_has_less_loss_than_the_exact_one():
    rng = torch.Generator().manual_seed(0)
    source = torch.randn(20_000, 1, generator=rng)
    target = 2.0 + torch.randn(20_000, 1, generator=rng) / 3
    exact, others = ExactVelocity(1, 1), [ExactVelocity(1, 1) for _ in range(2)]
    others[0].mean, others[1].spread = 2.2, 0.45
    losses = []
    for flow in (exact, *others):
        with seeded(1):
            losses.append(flow.loss(source, target, source).item())
    assert losses[0] < min(losses[1:])


def test_the_loss_is_that_of_the_derivative_of_the_path():
    class Derivative(FlowMatching):
        def forward(self, z, time, condition):
            return condition

    source, target = torch.tensor([[1000.0]]), torch.tensor([[1.0]])
    flow = Derivative(1, 1)
    assert flow.loss(source, target, target - (1 - SIGMA_MIN) * source) == 0
    assert flow.loss(source, target, target - source) > 0


@pytest.mark.parametrize("units", [Standardise, Whiten])
def test_units_are_taken_away_and_given_back(units):
    _, y = TASK.observe(2000, seed=0)
    scale = units.of(y)
    assert torch.allclose(scale.invert(scale(y)), y, atol=1e-3)
    covariance = scale(y).T.cov()
    if units is Standardise:
        torch.testing.assert_close(covariance.diag(), torch.ones(DIM_X))
    else:
        # Along a direction of variance v, shrunk to (1 - s) v + s: no other correlations,
        # and small variances are held back.
        standard = Standardise.of(y)(y).double()
        shrinkage = ledoit_wolf(standard.numpy(), assume_centered=True)[1]
        variance = torch.linalg.eigvalsh(standard.T.cov())
        expected = variance / ((1 - shrinkage) * variance + shrinkage)
        torch.testing.assert_close(covariance.double(), expected.diag(), rtol=0, atol=2e-3)
        assert expected.min() < 0.9


def test_few_rows_are_hardly_turned_by_whitening():
    values = torch.randn(6, 40, generator=torch.Generator().manual_seed(0))
    assert Whiten.of(values)(values).isfinite().all()
    assert Whiten.of(values)(values).abs().max() < 5
