"""Tests for ma_sbi.theory.sub_gaussian."""

import math

import numpy as np
import pytest
from scipy import integrate

from ma_sbi.theory import (
    ModalDeparture,
    lipschitz_bound,
    sub_gaussian_bound,
    sub_gaussian_proxy,
    two_point_proxy,
)

LAWS = {
    "rademacher": ModalDeparture([-1.0, 1.0]),
    "bimodal": ModalDeparture([-0.9, 0.9], width=math.sqrt(0.19)),
    "three_modes": ModalDeparture([-1.0, 0.0, 1.0]),
    "three_modes_peaked": ModalDeparture([-1.0, 0.0, 1.0], [0.1, 0.8, 0.1]),
    "asymmetric": ModalDeparture([-0.5, 2.0], [0.8, 0.2]),
    "very_asymmetric": ModalDeparture([0.0, 4.0], [0.95, 0.05]),
}
RHOS = [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99]


@pytest.mark.parametrize("probability", [1e-4, 0.05, 0.2, 0.4999, 0.5, 0.7, 0.99])
def test_the_proxy_of_two_points_is_that_of_kearns_and_saul(probability):
    seen = sub_gaussian_proxy([1.0, 4.0], [1 - probability, probability])
    assert seen == pytest.approx(two_point_proxy(probability, gap=3.0), rel=1e-7)


@pytest.mark.parametrize("name", LAWS)
def test_the_proxy_bounds_the_moment_function_and_is_the_smallest_that_does(name):
    law = LAWS[name]
    u = np.linspace(-30, 30, 6001)
    u = u[np.abs(u) > 1e-2]
    log_moment = np.log(np.exp(u[:, None] * law.modes) @ law.probabilities)
    ratio = 2 * log_moment / u**2 + law.width**2
    assert ratio.max() <= law.proxy * (1 + 1e-9)
    assert ratio.max() >= law.proxy * (1 - 1e-4)


def test_the_proxy_is_the_variance_only_for_some_laws():
    for name in ("rademacher", "bimodal", "three_modes"):
        assert LAWS[name].proxy == pytest.approx(LAWS[name].variance)
    # Three modes: as long as the middle has at most two thirds (kurtosis 3).
    assert sub_gaussian_proxy([-1, 0, 1], [1 / 6, 2 / 3, 1 / 6]) == pytest.approx(1 / 3)
    for name in ("three_modes_peaked", "asymmetric", "very_asymmetric"):
        assert LAWS[name].proxy > 1.1 * LAWS[name].variance


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("rho", RHOS)
def test_the_ratio_is_never_above_one(name, rho):
    assert 0 < LAWS[name].couple(rho).ratio <= 1 + 1e-9


@pytest.mark.parametrize("name", LAWS)
def test_for_weak_contexts_the_ratio_is_variance_over_proxy(name):
    law = LAWS[name]
    assert law.couple(0.002).ratio == pytest.approx(law.variance / law.proxy, rel=1e-3)


@pytest.mark.parametrize("name", ["rademacher", "bimodal", "three_modes"])
def test_symmetric_laws_saturate(name):
    assert LAWS[name].couple(0.1).ratio > 0.99


def test_the_variance_in_place_of_the_proxy_breaks_the_inequality():
    law = LAWS["very_asymmetric"]
    seen = law.couple(0.9)
    assert seen.explained > 2.4 * sub_gaussian_bound(seen.information, law.variance)


@pytest.mark.parametrize("name", [name for name, law in LAWS.items() if not law.width])
def test_a_rare_context_saturates_every_law(name):
    assert 0.999 < LAWS[name].rare_context(1e-4).ratio <= 1 + 1e-9


def test_quadrature_agrees_with_adaptive_integration():
    law, rho = LAWS["asymmetric"], 0.6
    spread = math.sqrt(1 - rho**2)

    def density(z):
        parts = np.exp(-0.5 * ((z - rho * law.modes) / spread) ** 2) * law.probabilities
        return parts / (spread * math.sqrt(2 * math.pi))

    def entropy(z):
        return -density(z).sum() * math.log(density(z).sum())

    def mean_square(z):
        return (density(z) @ law.modes) ** 2 / density(z).sum()

    differential = integrate.quad(entropy, -6, 7, epsabs=1e-11)[0]
    noise = 0.5 * math.log(2 * math.pi * math.e * spread**2)
    seen = law.couple(rho)
    assert seen.information == pytest.approx(differential - noise, abs=1e-9)
    explained = integrate.quad(mean_square, -6, 7, epsabs=1e-11)[0]
    assert seen.explained == pytest.approx(explained, abs=1e-9)


def test_one_wide_mode_is_the_gaussian_closed_form():
    rho, width = 0.6, 1.7
    seen = ModalDeparture([0.0], width=width).couple(rho)
    signal = (rho * width) ** 2 / (1 - rho**2)
    assert seen.information == pytest.approx(0.5 * math.log1p(signal))
    assert seen.explained == pytest.approx(width**2 * signal / (1 + signal))


@pytest.mark.parametrize("name", ["bimodal", "asymmetric"])
def test_quadrature_agrees_with_draws(name):
    """The residual of the best predictor, within four standard errors."""
    law, rho, num = LAWS[name], 0.7, 100_000
    delta, z = law.sample(num, rho, seed=0)
    scale = math.sqrt(1 - rho**2 + (rho * law.width) ** 2)
    score = np.log(law.probabilities) - 0.5 * ((z[:, None] - rho * law.modes) / scale) ** 2
    posterior = np.exp(score - score.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    slope = rho * law.width**2 / scale**2
    mean = posterior @ law.modes + slope * (z - rho * posterior @ law.modes)
    squares = (delta - mean) ** 2
    left = law.variance - law.couple(rho).explained
    assert abs(squares.mean() - left) < 4 * squares.std() / math.sqrt(num)


def test_independent_coordinates_add_up_and_keep_the_ratio():
    one, five = LAWS["asymmetric"], ModalDeparture([-0.5, 2.0], [0.8, 0.2], dim=5)
    alone, together = one.couple(0.5), five.couple(0.5)
    assert together.information == pytest.approx(5 * alone.information)
    assert together.explained == pytest.approx(5 * alone.explained)
    assert together.ratio == pytest.approx(alone.ratio)


def test_the_lipschitz_form_bounds_the_move_but_not_the_error_removed():
    """A posterior mean that is flat near 0: exact over the modes, quadrature over z."""
    law, rho, flat = ModalDeparture([-1.0, 0.0, 1.0], [0.25, 0.5, 0.25]), 0.004, 0.02
    bound = lipschitz_bound(law.couple(rho).information, law.proxy, lipschitz=1.0)
    noise, weight = np.polynomial.hermite_e.hermegauss(80)
    weight = weight / weight.sum()
    z = rho * law.modes[:, None] + math.sqrt(1 - rho**2) * noise
    likelihood = np.exp(-0.5 * (z[..., None] - rho * law.modes) ** 2 / (1 - rho**2))
    odds = law.probabilities * likelihood
    shift = odds @ law.modes / odds.sum(axis=2)

    def mu(x):
        return np.sign(x) * np.maximum(np.abs(x) - flat, 0)

    before, after = mu(law.modes)[:, None], mu(law.modes[:, None] - shift)
    moved = law.probabilities @ (before - after) ** 2 @ weight
    removed = law.probabilities @ (before**2 - after**2) @ weight
    assert moved <= bound
    # To first order 2 (1 - flat) - Var(delta) = 1.46 times the bound.
    assert removed == pytest.approx(1.46 * bound, rel=1e-3)


def test_the_lipschitz_form_has_the_constant_of_theorem_1():
    assert lipschitz_bound(1.0, 0.4**2, 0.25 / 0.34) == pytest.approx(0.17301, abs=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sub_gaussian_bound(-0.1, 1.0), "information must be 0 or more"),
        (lambda: sub_gaussian_bound(0.1, 0.0), "proxy must be a positive number"),
        (lambda: two_point_proxy(0.0), "probability must lie between"),
        (lambda: ModalDeparture([[1.0]]), "modes must be a vector"),
        (lambda: ModalDeparture([0.0, 1.0], [0.4, 0.4]), "must sum to 1"),
        (lambda: ModalDeparture([0.0, 1.0], [1.0]), "one for each mode"),
        (lambda: ModalDeparture([2.0]), "a departure must vary"),
        (lambda: LAWS["rademacher"].couple(1.0), "rho must lie between"),
        (lambda: LAWS["bimodal"].rare_context(), "for a discrete law"),
        (lambda: LAWS["asymmetric"].rare_context(0.9), "must be smaller"),
        (lambda: LAWS["asymmetric"].rare_context(1.0), "probability must lie between"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
