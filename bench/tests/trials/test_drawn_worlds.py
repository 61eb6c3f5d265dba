"""Drawn worlds: every kind is what it says, and every posterior is exact."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from ma_sbi.randomness import seeded
from ma_sbi_bench.trials.drawn_contexts import FORMS, draw_contexts
from ma_sbi_bench.trials.drawn_departures import DEPARTURES, draw_departure
from ma_sbi_bench.trials.drawn_worlds import KINDS, draw_world
from ma_sbi_bench.trials.exact_simulators import FAMILIES, draw_simulator

SEED = 4000
families = pytest.mark.parametrize("family", FAMILIES)
kinds = pytest.mark.parametrize("kind", KINDS)


def simulated(family, num, number=0):
    rng = np.random.default_rng(number)
    simulator = draw_simulator(family, rng, (2, 5))
    theta = simulator.prior_draws(num, rng)
    return simulator, theta, simulator.simulate(theta, rng)


@families
def test_the_posterior_is_bayes_rule(family):
    simulator, theta, x = simulated(family, 200)
    joint = simulator.log_likelihood(theta, x) - 0.5 * (
        theta.square().sum(dim=1) + theta.shape[1] * math.log(2 * math.pi)
    )
    found = simulator.posterior_log_prob(theta[None], x)[0]
    torch.testing.assert_close(found, joint - simulator.log_density(x))


@families
def test_the_density_integrates_to_one(family):
    simulator, _, x = simulated(family, 20_000)
    # Under draws of x, the expected ratio of another density to it is one.
    # One in the middle of a cluster has a ratio that hardly varies.
    near = x[(x - x[0]).norm(dim=1).argsort()[: len(x) // 4]]
    middle = torch.distributions.Normal(near.mean(dim=0), 0.5 * near.std(dim=0))
    other = middle.log_prob(x).sum(dim=1)
    ratio = (other - simulator.log_density(x)).exp()
    error = ratio.std() / math.sqrt(len(x))
    assert abs(ratio.mean() - 1) < 4 * error


@families
def test_draws_of_the_posterior_rank_the_truth_uniformly(family):
    simulator, theta, x = simulated(family, 1000)
    with seeded(0):
        draws = simulator.posterior_draws(99, x)
    direction = torch.linspace(1.0, 2.0, theta.shape[1], dtype=torch.float64)
    rank = (draws @ direction < theta @ direction).sum(dim=0)
    # Ranks of 100 values, spread evenly within their step.
    even = (rank.numpy() + np.random.default_rng(0).random(len(rank))) / 100
    assert stats.kstest(even, "uniform").pvalue > 1e-3


@families
def test_draws_and_density_of_the_posterior_agree(family):
    simulator, theta, x = simulated(family, 4000, number=1)
    with seeded(0):
        draws = simulator.posterior_draws(1, x)
    difference = (
        simulator.posterior_log_prob(draws, x)
        - simulator.posterior_log_prob(theta[None], x)
    )[0]
    error = difference.std() / math.sqrt(len(x))
    assert abs(difference.mean()) < 4 * error


def test_far_from_all_simulations_the_posterior_stays_finite():
    simulator, theta, _ = simulated("moons", 4)
    # On both sides of where the probability of a normal tail underflows.
    x = torch.tensor([-1e4, -30.0, -15.0, -5.0])[:, None].expand(4, simulator.dim_x)
    with seeded(0):
        draws = simulator.posterior_draws(20, x)
    assert torch.isfinite(draws).all()
    assert torch.isfinite(simulator.posterior_log_prob(theta[None], x)).all()


@kinds
def test_worlds_are_finite_valid_and_the_same_again(kind):
    for number in range(4):
        world = draw_world(kind, number, seed=SEED)
        rows, fresh = world.calibration(), world.fresh(50)
        assert world.kind.rows[0] <= len(rows.x_obs) <= world.kind.rows[1]
        assert len(rows.context) == len(rows.x_obs) == len(rows.x_sim) == len(rows.theta)
        assert len({str(entry) for entry in rows.context}) > 1
        for part in (rows, fresh):
            for x in (part.theta, part.latent, part.x_obs, part.x_sim):
                assert torch.isfinite(x).all()
        again = draw_world(kind, number, seed=SEED)
        torch.testing.assert_close(again.calibration().x_sim, rows.x_sim, rtol=0, atol=0)
        torch.testing.assert_close(again.fresh(50).x_obs, fresh.x_obs, rtol=0, atol=0)


@kinds
def test_worlds_of_other_numbers_and_seeds_differ(kind):
    shapes = [draw_world(kind, n, seed=s).pool for n, s in ((0, 1), (1, 1), (0, 2))]
    assert len({float(pool[0, 0]) for pool in shapes}) == 3


def test_kinds_and_families_occur_as_often_as_they_should():
    worlds = [draw_world("shuffled", number, seed=SEED) for number in range(200)]
    rows = np.log([world.num_rows for world in worlds])
    assert stats.kstest(rows, stats.uniform(rows.min(), np.ptp(rows)).cdf).pvalue > 1e-3
    size = [world.departure.size for world in worlds]
    assert stats.kstest(size, stats.uniform(0, 4).cdf).pvalue > 1e-3
    assert {world.simulator.family for world in worlds} == set(FAMILIES)
    assert {world.contexts.form for world in worlds} == set(FORMS)
    assert {world.simulator.dim_x for world in worlds} == set(range(1, 9))


@pytest.mark.parametrize("name", DEPARTURES)
@pytest.mark.parametrize("size", [0.0, 3.0])
def test_departures_of_no_size_change_nothing_but_what_is_no_effect_size(name, size):
    rng = np.random.default_rng(3)
    simulator = draw_simulator("linear", rng, (3, 3))
    pool = simulator.simulate(simulator.prior_draws(500, rng), rng)
    contexts = draw_contexts("labels", rng)
    departure = draw_departure(name, simulator, pool, contexts.num_columns, size, rng)
    design = contexts.design(contexts.draw(500, rng))
    moved = DEPARTURES[name](departure, pool, design, rng) - pool
    away = simulator.displacement(moved)
    if name in ("outliers", "saturation"):
        # Gross errors stay, and the largest values always saturate a little.
        assert away.median() < 0.3 or size > 0
    elif size == 0 or name == "none":
        assert away.max() < 1e-9
    else:
        assert away.max() > 0.5


def test_shifts_have_the_size_that_is_asked_for():
    world = draw_world("label", 0, seed=SEED)
    size = world.simulator.displacement(world.departure.shifts)
    expected = world.departure.size * world.departure.strength.abs()
    torch.testing.assert_close(size, expected)


def test_a_leak_and_nothing_else_ties_the_context_to_theta():
    for kind, leaks in (("leak", True), ("label", False)):
        world = draw_world(kind, 1, seed=SEED)
        rows = world.fresh(4000)
        groups = {}
        for entry, theta in zip(rows.context, rows.theta[:, 0].tolist(), strict=True):
            groups.setdefault(entry, []).append(theta)
        if world.contexts.form == "number":
            theta = rows.theta[:, 0].numpy()
            p_value = stats.spearmanr(np.array(rows.context), theta).pvalue
        else:
            p_value = stats.kruskal(*groups.values()).pvalue
        assert (p_value < 1e-6) == leaks


def test_mishaps_touch_calibration_rows_alone():
    swapped = draw_world("swapped", 0, seed=SEED).calibration()
    torch.testing.assert_close(swapped.x_obs, swapped.latent)
    columns = draw_world("columns", 0, seed=SEED)
    rows = columns.calibration()
    assert not torch.equal(rows.x_sim, rows.latent)
    torch.testing.assert_close(rows.x_sim.sum(dim=1), rows.latent.sum(dim=1))
    units = draw_world("units", 0, seed=SEED)
    rows = units.calibration()
    torch.testing.assert_close(rows.x_sim / rows.latent, units.factor.expand_as(rows.x_sim))
    assert (units.factor.log10().abs() <= 3).all()
    assert units.factor.log10().abs().max() >= 1
    offset = draw_world("offset", 0, seed=SEED)
    rows = offset.calibration()
    slope = (rows.x_sim[1] - rows.x_sim[0]) / (rows.latent[1] - rows.latent[0])
    away = (rows.x_sim - slope * rows.latent) / offset.pool.std(dim=0)
    torch.testing.assert_close(away, away[0, 0].expand_as(away))
    assert 5 <= away.abs().max() <= 100


def test_an_expected_value_is_without_noise():
    worlds = (draw_world("expected value", number, seed=SEED) for number in range(20))
    world = next(one for one in worlds if one.simulator.family == "linear")
    rows, simulator = world.calibration(), world.simulator
    away = rows.x_sim - rows.theta @ simulator.matrix.T
    # The mean of 400 runs has a twentieth of their noise.
    spread = away.square().mean(dim=0).sqrt() * 20 / simulator.noise
    assert (spread.log().abs() < 4 / (2 * len(away)) ** 0.5).all()


def test_rows_of_a_control_run_share_their_setting_and_fresh_rows_do_not():
    world = draw_world("control run", 0, seed=SEED)
    assert world.calibration().theta.std(dim=0).max() == 0
    assert world.fresh(50).theta.std(dim=0).min() > 0


def test_several_simulations_are_of_the_same_parameters():
    world = draw_world("several", 0, seed=SEED)
    rows = world.calibration()
    assert rows.x_sim.shape == (world.num_rows, world.num_simulations, rows.x_obs.shape[1])
