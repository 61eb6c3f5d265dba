"""Tests for ma_sbi.correctors.matching."""

import warnings

import pytest
import torch
from torch.distributions import Normal

from ma_sbi import ComposedCorrector, HashEncoder, MatchingCorrector, ShiftCorrector
from ma_sbi.correctors import (
    Affine,
    Matching,
    MatchingAssumption,
    Point,
    Shift,
    ShiftLikelihood,
)
from tests.correctors.worlds import TEXTS, shifted_world

LOSSES = ["mean", "mmd", "likelihood"]
every_loss = pytest.mark.parametrize("loss", LOSSES)


def matching(loss, spread=3.0):
    """Make a corrector; the density is that of normal simulations with this spread."""
    normal = Normal(0.0, spread)
    density = (lambda x: normal.log_prob(x).sum(dim=1)) if loss == "likelihood" else None
    return MatchingCorrector(HashEncoder(), loss, density)


def fitted(corrector, context, x_obs, pool, seed=0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MatchingAssumption)
        return corrector.fit(context, x_obs, simulations=pool, seed=seed)


def pools(n, *, size=4000, seed=0, spread=3.0):
    """Observations and simulations from the same prior, but of different theta."""
    world = shifted_world(n, dim_x=3, seed=seed, spread=spread)
    rng = torch.Generator().manual_seed(seed + 1000)
    return world, spread * torch.randn(size, 3, generator=rng)


@every_loss
def test_shifts_are_recovered_from_pools_within_their_standard_errors(loss):
    world, pool = pools(800, size=1000, spread=1.0)
    corrector = fitted(matching(loss, 1.0), world.context, world.x_obs, pool)
    # A difference of means of 200 and 1000 draws with deviation 1 in three dimensions;
    # the discrepancy's optimum is a little less efficient than the mean.
    error = (corrector.shift(TEXTS) - world.shifts).norm(dim=1)
    standard = (3 * (1 / 200 + 1 / 1000)) ** 0.5
    assert error.max() < 3.5 * standard
    assert 3.5 * standard < 0.5 * world.shifts.norm(dim=1).min()


def test_matched_means_are_the_regression_of_the_observations():
    world, pool = pools(400)
    matched = fitted(MatchingCorrector(HashEncoder()), world.context, world.x_obs, pool)
    mean = pool.double().mean(dim=0).expand(400, -1)
    paired = ShiftCorrector(HashEncoder()).fit(world.context, world.x_obs, mean)
    torch.testing.assert_close(matched.shift(TEXTS), paired.shift(TEXTS))


@pytest.mark.filterwarnings("ignore:every calibration row")
def test_the_discrepancy_of_copies_is_smallest_where_they_coincide():
    # Two point clouds that are exact copies of each other up to a shift.
    rng = torch.Generator().manual_seed(0)
    pool = torch.randn(500, 2, generator=rng)
    shift = torch.tensor([1.5, -0.5])
    corrector = fitted(
        MatchingCorrector(HashEncoder(), "mmd"),
        "same",
        pool + shift,
        pool,
    )
    torch.testing.assert_close(corrector.shift(["same"])[0], shift, atol=1e-4, rtol=0)


@pytest.mark.slow
def test_outliers_move_the_means_and_hardly_the_discrepancy():
    world, pool = pools(1000)
    x_obs = world.x_obs.clone()
    x_obs[::20] += 300.0
    errors = {}
    for loss in LOSSES:
        corrector = fitted(matching(loss), world.context, x_obs, pool)
        errors[loss] = (corrector.shift(TEXTS) - world.shifts).norm().item()
    assert errors["mean"] > 10
    assert errors["mmd"] < 1.5
    assert errors["likelihood"] < 1.5


@every_loss
def test_the_same_seed_gives_the_same_shift_and_the_generator_is_left_alone(loss):
    world, pool = pools(200, size=3000)
    before = torch.get_rng_state()
    first, second = (
        fitted(matching(loss), world.context, world.x_obs, pool, seed=3).shift(TEXTS)
        for _ in range(2)
    )
    assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)


@every_loss
def test_every_fit_states_its_assumption(loss):
    world, pool = pools(40)
    with pytest.warns(MatchingAssumption, match="theta is distributed differently") as all_:
        matching(loss).fit(world.context, world.x_obs, simulations=pool)
    assert all_[0].filename == __file__
    assert "**Assumption.**" in MatchingCorrector.__doc__


@every_loss
def test_observations_far_from_every_simulation_are_warned_of(loss):
    world, pool = pools(40)
    with pytest.warns(MatchingAssumption, match=r"do not overlap: in column 0 .* units"):
        matching(loss).fit(world.context, world.x_obs - 273, simulations=pool)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        matching(loss).fit(world.context, world.x_obs, simulations=pool)
    assert not any("do not overlap" in str(one.message) for one in said)


@every_loss
def test_a_difference_in_theta_is_moved_into_the_departure(loss):
    # No departure at all, but theta is larger in one regime: matching removes that.
    rng = torch.Generator().manual_seed(0)
    pool = torch.randn(400, 1, generator=rng)
    theta_differs = torch.tensor([[1.0], [0.0]]).repeat(200, 1)
    x_obs = torch.randn(400, 1, generator=rng) + theta_differs
    corrector = fitted(matching(loss, 1.0), ["fast", "slow"] * 200, x_obs, pool)
    standard = (1 / 200 + 1 / 400) ** 0.5
    assert corrector.shift(["fast"]).item() == pytest.approx(1.0, abs=4.5 * standard)


@pytest.mark.parametrize("loss", ["mean", "mmd"])
def test_a_context_that_tells_nothing_is_pooled(loss):
    rng = torch.Generator().manual_seed(0)
    pool = torch.randn(2000, 1, generator=rng)
    x_obs = torch.randn(300, 1, generator=rng) + 1.0
    notes = [f"note {index % 100}" for index in range(300)]
    corrector = fitted(MatchingCorrector(HashEncoder(), loss), notes, x_obs, pool)
    error = (corrector.shift(notes) - 1.0).square().mean().sqrt()
    # The mean of 300 draws has error 0.06, that of three 0.58.
    assert error < 0.25


def test_pairs_and_pools_are_not_confused():
    world, pool = pools(40)
    with pytest.raises(ValueError, match=r"pass simulations=.*use ShiftCorrector"):
        MatchingCorrector(HashEncoder()).fit(*world[:3])
    with pytest.raises(ValueError, match=r"pass x_sim.*use MatchingCorrector"):
        ShiftCorrector(HashEncoder()).fit(world.context, world.x_obs, simulations=pool)
    with pytest.raises(ValueError, match="pass x_sim"):
        ShiftCorrector(HashEncoder()).fit(world.context, world.x_obs)


def test_bad_input_is_refused_before_any_work():
    world, pool = pools(40)
    corrector = MatchingCorrector(HashEncoder())
    with pytest.raises(ValueError, match="same columns, got 40 rows x 3 columns and"):
        corrector.fit(world.context, world.x_obs, simulations=pool[:, :2])
    with pytest.raises(ValueError, match="simulations must be finite"):
        corrector.fit(world.context, world.x_obs, simulations=pool * torch.nan)
    with pytest.raises(ValueError, match="a pool of at least 2, got 1"):
        MatchingCorrector(HashEncoder(), "mmd").fit(
            world.context, world.x_obs, simulations=pool[:1]
        )
    with pytest.raises(ValueError, match="one of mean, mmd, likelihood, got 'kl'"):
        MatchingCorrector(HashEncoder(), "kl").fit(
            world.context, world.x_obs, simulations=pool
        )


def test_discrepancy_needs_contexts_that_repeat():
    _, pool = pools(4)
    with pytest.raises(ValueError, match="no two here do"):
        MatchingCorrector(HashEncoder(), "mmd").fit(
            TEXTS, torch.zeros(4, 3), simulations=pool
        )


def test_likelihood_needs_a_density():
    world, pool = pools(40)
    for density in (None, "a flow"):
        with pytest.raises(ValueError, match=r"needs density=.*fit_density"):
            MatchingCorrector(HashEncoder(), "likelihood", density).fit(
                world.context, world.x_obs, simulations=pool
            )


@pytest.mark.parametrize("loss", ["mean", "mmd"])
def test_a_density_that_would_be_ignored_is_refused(loss):
    world, pool = pools(40)
    with pytest.raises(ValueError, match='density is for loss="likelihood", and loss is'):
        MatchingCorrector(HashEncoder(), loss, lambda x: x[:, 0]).fit(
            world.context, world.x_obs, simulations=pool
        )


def test_likelihood_needs_enough_observations_of_each_context():
    world, pool = pools(40)
    notes = ["seen four times"] * 4 + ["another"] * 36
    with pytest.raises(ValueError, match="at least 5 observations .* one has 4"):
        matching("likelihood").fit(notes, world.x_obs, simulations=pool)


@pytest.mark.parametrize("factor", [100.0, 1e6], ids=str)
def test_pools_that_do_not_overlap_are_refused(factor):
    world, pool = pools(200)
    with pytest.raises(ValueError, match=r"do not overlap, however .* are units"):
        matching("likelihood").fit(world.context, factor * world.x_obs, simulations=pool)


def test_a_single_context_that_does_not_overlap_is_refused():
    world, pool = pools(200)
    x_obs = world.x_obs.clone()
    wrong = torch.tensor([note == TEXTS[0] for note in world.context])
    x_obs[wrong] *= 1000.0
    with pytest.raises(ValueError, match="do not overlap.* under 1 of 4 contexts"):
        matching("likelihood").fit(world.context, x_obs, simulations=pool)


def test_a_large_shift_is_no_lack_of_overlap():
    world, pool = pools(200)
    far = fitted(matching("likelihood"), world.context, world.x_obs + 1e4, pool)
    near = fitted(matching("likelihood"), world.context, world.x_obs, pool)
    # A standard error of one column is 3 / sqrt(50).
    torch.testing.assert_close(far.shift(TEXTS) - 1e4, near.shift(TEXTS), atol=0.02, rtol=0)


def test_what_many_fits_share_can_be_done_once():
    world, pool = pools(80)
    normal = Normal(0.0, 3.0)
    shared = ShiftLikelihood.of(lambda x: normal.log_prob(x).sum(dim=1), pool.double())
    once = MatchingCorrector(HashEncoder(), "likelihood", shared)
    rows = world.context, world.x_obs, pool
    assert torch.equal(
        fitted(once, *rows).shift(TEXTS), fitted(matching("likelihood"), *rows).shift(TEXTS)
    )


def test_matching_refuses_departures_that_depend_on_x():
    world, pool = pools(40)
    corrector = ComposedCorrector(HashEncoder(), Affine(), Matching(), Point())
    with pytest.raises(ValueError, match="Matching finds shifts only"):
        corrector.fit(world.context, world.x_obs, simulations=pool)
    shift = ComposedCorrector(HashEncoder(), Shift(), Matching(), Point())
    fitted(shift, world.context, world.x_obs, pool)
