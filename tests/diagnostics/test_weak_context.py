"""The weak-context test where every variance is known."""

import math

import numpy as np
import pytest
import torch

from ma_sbi import CategoryEncoder, ComposedCorrector, ShiftCorrector
from ma_sbi.correctors import Affine, Network, Point, Ridge
from ma_sbi.diagnostics import weak_context
from ma_sbi.diagnostics.weak_context import WeakContext
from ma_sbi.theory import break_even_information, sub_gaussian_bound
from tests.diagnostics.test_held_out import regimes

NOISE = 0.5
DIM_X = 3


def two_regimes(n, rng, *, gap=2.0, mean=0.0, noise=NOISE, reliability=1.0):
    """Departures of mean +-gap/2 in the first of three columns, in balanced turns."""
    sign = torch.tensor([1.0, -1.0]).repeat(n // 2)
    x_sim = torch.randn(n, DIM_X, generator=rng)
    # The units of the test are the simulations' own.
    x_sim = (x_sim - x_sim.mean(dim=0)) / x_sim.std(dim=0)
    x_obs = x_sim + mean + noise * torch.randn(n, DIM_X, generator=rng)
    x_obs[:, 0] += gap / 2 * sign
    right = torch.rand(n, generator=rng) < reliability
    named = torch.where(right, sign, -sign)
    return ["up" if one > 0 else "down" for one in named], x_obs, x_sim


def test_shares_are_those_of_the_closed_form():
    """gap 2, mean 0.4 in three columns, noise 0.5: 1, 0.48 and 0.75 of 2.23."""
    n = 4000
    context, x_obs, x_sim = two_regimes(n, torch.Generator().manual_seed(0), mean=0.4)
    found = weak_context(context, x_obs, x_sim, seed=0)
    whole = 1.0 + 3 * 0.16 + 3 * 0.25
    for part, expected in {"marginal": 0.48, "conditional": 1.0, "total": 1.48}.items():
        share = getattr(found, part)
        error = (share.high - share.low) / 2 / 1.96
        assert abs(share.value - expected / whole) < 4 * error, part
        assert error < 0.02
    # s^2 has a relative standard error of sqrt(2 / (3 n)).
    assert found.within == pytest.approx(0.75 / 1.75, rel=4 * math.sqrt(2 / (3 * n)))
    assert found.num_regimes == 2
    assert found.size == pytest.approx(math.sqrt(whole / 3), rel=0.05)
    assert found.verdict == "helps"


def test_the_estimation_error_is_regimes_times_variance_over_rows():
    n = 4000
    found = weak_context(*two_regimes(n, torch.Generator().manual_seed(0)), seed=0)
    expected = 2 * 0.75 / n / (1.0 + 0.75)
    assert found.estimation_error == pytest.approx(expected, rel=0.05)


def test_the_least_information_is_where_bound_and_error_meet():
    """Two points +-1 and noise of 0.5: a proxy of 1.25 in the first column."""
    n = 4000
    found = weak_context(*two_regimes(n, torch.Generator().manual_seed(0)), seed=0)
    # One shift beside the mean; the proxy of 4000 is within some percent of their law's.
    assert found.min_information == pytest.approx(0.75 / n / (2 * 1.25), rel=0.1)


def test_a_shift_per_regime_breaks_even_with_the_mean_at_that_explained_variance():
    """Two regimes and unit noise: one free shift beside the mean, so K - 1 and not K."""
    rng = np.random.default_rng(0)
    n, repeats = 40, 20_000
    shift = math.sqrt(sub_gaussian_bound(break_even_information(2 - 1, n, 1.0, 1.0), 1.0))
    means = np.array([shift, -shift]) + rng.standard_normal((repeats, 2)) * math.sqrt(2 / n)
    truth = np.array([shift, -shift])
    by_mean = np.square(truth - means.mean(axis=1, keepdims=True)).mean(axis=1)
    gains = by_mean - np.square(truth - means).mean(axis=1)
    assert abs(gains.mean()) < 4 * gains.std() / math.sqrt(repeats)


def test_one_regime_cannot_do_worse_than_the_mean():
    _, x_obs, x_sim = two_regimes(40, torch.Generator().manual_seed(0))
    found = weak_context(["same"] * 40, x_obs, x_sim, information=0.0, seed=0)
    assert found.min_information == 0.0
    assert found.harm_expected is False


def test_triples_needed_are_those_of_the_closed_form():
    """K s^2 / (0.1 Var E[delta | z]) = 2 * 0.75 / 0.1 = 15."""
    found = weak_context(*two_regimes(4000, torch.Generator().manual_seed(0)), seed=0)
    assert found.num_needed == pytest.approx(15, abs=1)
    assert found.enough
    assert f"{found.num_needed} triples give 90 %" in str(found)


def test_too_few_triples_are_said_to_be():
    rng = torch.Generator().manual_seed(0)
    found = weak_context(*two_regimes(40, rng, gap=0.8, noise=0.6), seed=0)
    # 2 * 1.08 / (0.1 * 0.16) = 135, from 40 rows: known to a factor of about three.
    assert 40 < found.num_needed < 500
    assert not found.enough
    assert str(found).endswith("there are 40.")


def test_a_gain_at_the_number_needed_is_nine_tenths_of_the_best():
    """The promise, tried out: one free shift per regime, fitted to that many triples."""
    rng = torch.Generator().manual_seed(0)
    found = weak_context(*two_regimes(2000, rng, gap=1.0), seed=0)
    shares = []
    for _ in range(400):
        n = found.num_needed - found.num_needed % 2
        context, x_obs, x_sim = two_regimes(n, rng, gap=1.0)
        up = torch.tensor([one == "up" for one in context])
        delta = x_obs - x_sim
        means = torch.stack([delta[up].mean(dim=0), delta[~up].mean(dim=0)])
        truth = torch.tensor([[0.5, 0.0, 0.0], [-0.5, 0.0, 0.0]])
        shares.append(1 - (means - truth).square().sum(dim=1).mean().item() / 0.25)
    error = np.std(shares) / 20
    # The number itself is known to a few percent of the missing tenth.
    assert np.mean(shares) == pytest.approx(0.9, abs=4 * error + 0.01)


def test_a_context_that_says_nothing_adds_nothing():
    rng = torch.Generator().manual_seed(0)
    found = weak_context(*two_regimes(2000, rng, mean=0.4, reliability=0.5), seed=0)
    assert found.verdict == "nothing"
    assert found.marginal.low > 0.1
    assert "adds nothing" in str(found)


def test_a_corrector_that_believes_noise_does_harm():
    """The paper's network, trained long, on contexts that are all different labels."""
    rng = torch.Generator().manual_seed(0)
    _, x_obs, x_sim = two_regimes(120, rng, gap=0.0)
    labels = [f"day {i % 40}" for i in range(120)]
    eager = ShiftCorrector(
        CategoryEncoder(unseen="zero"), Network(epochs=100, learning_rate=1e-2)
    )
    found = weak_context(
        labels, x_obs, x_sim, corrector=eager, information=0.0, folds=4, seed=0
    )
    assert found.verdict == "harms"
    assert found.harm_expected
    assert "less than" in str(found)
    # The default shrinks to the mean instead.
    assert weak_context(labels, x_obs, x_sim, seed=0).verdict != "harms"


def test_numbers_that_never_repeat_have_an_effective_number_of_shifts():
    rng = torch.Generator().manual_seed(0)
    z = torch.rand(400, generator=rng)
    x_sim = torch.randn(400, 2, generator=rng)
    x_obs = (
        x_sim + torch.stack([3 * z, -z], dim=1) + 0.3 * torch.randn(400, 2, generator=rng)
    )
    found = weak_context(z, x_obs, x_sim, seed=0)
    assert not found.contexts_repeat
    # A straight line has two free shifts; the kernel finds it with a few more.
    assert 1 <= found.num_regimes <= 10
    # Noise 0.18 of noise and slopes 0.18 + 10 / 12.
    assert found.within == pytest.approx(0.18 / (0.18 + 10 / 12), rel=0.2)


def test_a_departure_without_noise_needs_one_triple_per_regime():
    found = weak_context(
        *two_regimes(100, torch.Generator().manual_seed(0), noise=0.0), seed=0
    )
    assert found.num_needed == 2
    # Rounding of float32 is all that is left.
    assert found.total.value == pytest.approx(1.0, abs=1e-5)
    assert found.min_information < 1e-6


def test_no_departure_at_all():
    x_sim = torch.randn(50, 2)
    found = weak_context(["a", "b"] * 25, x_sim, x_sim, seed=0)
    assert found.total == (0.0, 0.0, 0.0)
    assert found.num_needed is None
    assert found.verdict == "nothing"


def test_an_affine_corrector_is_taken():
    rng = torch.Generator().manual_seed(0)
    x_sim = torch.randn(200, 2, generator=rng)
    corrector = ComposedCorrector(CategoryEncoder(), Affine(), Ridge(), Point())
    found = weak_context(["a", "b"] * 100, 1.5 * x_sim, x_sim, corrector=corrector, seed=0)
    assert found.total.value == pytest.approx(1.0, abs=1e-4)
    # A shift explains nothing of a stretch around zero.
    assert weak_context(["a", "b"] * 100, 1.5 * x_sim, x_sim, seed=0).total.value < 0.05


def test_information_is_taken_from_an_estimate():
    class Information:
        value = 0.3

    found = weak_context(
        *two_regimes(40, torch.Generator().manual_seed(0)),
        information=Information(),
        seed=0,
    )
    assert found.information == 0.3
    assert found.harm_expected is False


def test_unknown_information_gives_no_answer():
    found = weak_context(*two_regimes(40, torch.Generator().manual_seed(0)), seed=0)
    assert found.harm_expected is None


def test_the_same_seed_gives_the_same_answer():
    world = regimes(60, torch.Generator().manual_seed(0))
    assert weak_context(*world, seed=3) == weak_context(*world, seed=3)
    assert isinstance(weak_context(*world, seed=3), WeakContext)
