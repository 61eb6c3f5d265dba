"""fit_corrector does no harm where the paper's correctors do.

Each test has the case of a corrector that believes one shift, or every residual, and
shows that this one fails the bound which fit_corrector keeps.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import pytest
import torch

from ma_sbi import (
    BootstrapCorrector,
    ComposedCorrector,
    HashEncoder,
    MatchingCorrector,
    ShiftCorrector,
    fit_corrector,
)
from ma_sbi.correctors import Affine, Point, Ridge
from tests.choosing.worlds import (
    FILLER,
    NEGATED,
    TEXTS,
    UNRELATED,
    WORLDS,
    Box,
    Rows,
    Scene,
    log_score,
    oracle,
)
from tests.worlds import World, exact

SEEDS = range(3)
NUM_TEST = 400
both_worlds = pytest.mark.parametrize("name", WORLDS)
pytestmark = [
    pytest.mark.filterwarnings("ignore::ma_sbi.correctors.UnseenContext"),
    pytest.mark.filterwarnings("ignore::ma_sbi.correctors.MatchingAssumption"),
]


def fit(world, rows, *, density=True, seed=0):
    return fit_corrector(
        rows.context,
        rows.x_obs,
        rows.x_sim,
        posterior=world,
        density=world.log_density if density else None,
        seed=seed,
    )


def point(rows):
    return ShiftCorrector(HashEncoder()).fit(rows.context, rows.x_obs, rows.x_sim)


def every_residual(rows):
    return BootstrapCorrector(HashEncoder()).fit(rows.context, rows.x_obs, rows.x_sim)


def affine(rows):
    corrector = ComposedCorrector(HashEncoder(), Affine(), Ridge(), Point())
    return corrector.fit(rows.context, rows.x_obs, rows.x_sim)


def gain(world, test, corrector, than=None):
    """Mean log score beyond NPE's, or beyond that of another corrector."""
    return (log_score(world, test, corrector) - log_score(world, test, than)).mean().item()


def mean(values):
    values = list(values)
    return sum(values) / len(values)


class Clean(NamedTuple):
    """Certain shifts that a text tells, and the corrector that was fitted to them."""

    scene: Scene
    calibration: Rows
    with_density: object
    without: object


@lru_cache
def clean(name, seed):
    world = WORLDS[name]
    scene = Scene(world, seed)
    calibration = scene.rows(100)
    fits = [fit(world, calibration, density=density) for density in (True, False)]
    return Clean(scene, calibration, *fits)


@both_worlds
def test_gross_outliers_leave_the_oracle(name):
    world, losses, losses_of_point = WORLDS[name], [], []
    for seed in SEEDS:
        scene = Scene(world, seed)
        calibration, test = scene.rows(100), scene.rows(NUM_TEST)
        spread = 20 * calibration.x_sim.std(dim=0)
        x_obs = calibration.x_obs.clone()
        x_obs[::20] += spread * scene.normal(5, world.dim)
        soiled = calibration._replace(x_obs=x_obs)
        for some, corrector in (
            (losses, fit(world, soiled)),
            (losses_of_point, point(soiled)),
        ):
            loss = oracle(world, test) - log_score(world, test, corrector)
            some.append(loss.mean().item())
    assert mean(losses) < 0.03
    assert mean(losses_of_point) > 1.0


@pytest.mark.parametrize("n", [5, 10, 20, 100])
@both_worlds
def test_noise_of_its_own_is_no_departure(name, n):
    world, gains, gains_of_residuals = WORLDS[name], [], []
    for seed in SEEDS:
        scene = Scene(world, seed)
        calibration = scene.again(scene.rows(n, departs=False))
        test = scene.rows(NUM_TEST, departs=False)
        gains.append(gain(world, test, fit(world, calibration)))
        gains_of_residuals.append(gain(world, test, every_residual(calibration)))
    # Mostly 0. At n = 20, 6 of 24 sets (GM) and 3 of 20 (GLU) lose 0.2 to 2.1, on average
    # 0.2; at n = 100, 2 of 12 (GLU) lose 0.1 and 0.2: the known faults below.
    assert mean(gains) > (-0.8 if n == 20 else -0.2)
    assert mean(gains_of_residuals) < -0.5


def test_a_simulator_that_is_right_is_not_pulled_to_its_mean():
    # x_sim regressed on x_obs has a slope of 1 / 1.25.
    world = World(n=100, shifts=torch.zeros(3, 2))
    rng = torch.Generator().manual_seed(100)
    x_sim = world.theta + 0.5 * torch.randn(100, 2, generator=rng)
    far = 3 * 1.25**0.5 * torch.eye(2)
    corrector = fit_corrector(world.context, world.x_obs, x_sim, posterior=exact(), seed=0)
    old = affine(Rows(world.context, world.x_obs, x_sim, world.theta, world.regime))
    stay = (far * corrector.correct(far, world.context[:2])).sum() / (far * far).sum()
    pulled = (far * old.correct(far, world.context[:2])).sum() / (far * far).sum()
    assert stay == pytest.approx(1.0, abs=0.05)
    # Four standard errors of a slope of 0.8: 4 x 0.67 / sqrt(200).
    assert pulled == pytest.approx(0.8, abs=0.19)


@pytest.mark.parametrize("words", ["negation", "unrelated"])
@both_worlds
def test_new_words_cost_no_more_than_the_share_of_nothing_departs(name, words):
    world, gains, gains_of_residuals = WORLDS[name], [], []
    for seed in SEEDS[:2]:
        scene, calibration, with_density, without = clean(name, seed)
        test = scene.rows(NUM_TEST, departs=False)
        context = [UNRELATED] * NUM_TEST
        if words == "negation":
            context = [NEGATED[i] for i in test.regime]
        test = test._replace(context=context)
        least = math.log(1 / (len(TEXTS) + 2))
        loss = log_score(world, test, without) - log_score(world, test)
        assert loss.min() > least - 1e-3  # a law of mixtures, for every row
        gains.append(gain(world, test, with_density))
        gains_of_residuals.append(gain(world, test, every_residual(calibration)))
    # Over 6 sets: GM -0.2 to -1.3, GLU 0 to -0.5; all residuals -4.6 to -5.2, -1.5 to -2.1.
    assert mean(gains) > least
    assert mean(gains) > mean(gains_of_residuals) + 0.5


@both_worlds
def test_x_overrules_a_context_that_became_random(name):
    world, gains, gains_over_point = WORLDS[name], [], []
    for seed in SEEDS[:2]:
        scene, calibration, corrector, _ = clean(name, seed)
        test = scene.rows(NUM_TEST)
        told = torch.randint(len(TEXTS), (NUM_TEST,), generator=scene.rng)
        test = test._replace(context=[TEXTS[i] for i in told])
        gains.append(gain(world, test, corrector))
        gains_over_point.append(gain(world, test, corrector, than=point(calibration)))
    assert mean(gains_over_point) > 1.0
    assert mean(gains) > 0.3


@both_worlds
def test_a_rare_departure_that_the_context_does_not_tell(name):
    world, gains, gains_of_point = WORLDS[name], [], []
    for seed in SEEDS[:2]:
        scene = Scene(world, seed)
        scene.shifts[0] = 0.0
        rows = [
            scene.rows(n, (torch.rand(n, generator=scene.rng) < 0.1).long())
            for n in (100, NUM_TEST)
        ]
        calibration, test = (
            some._replace(context=[FILLER[i % 3] for i in range(len(some.x_obs))])
            for some in rows
        )
        gains.append(gain(world, test, fit(world, calibration)))
        gains_of_point.append(gain(world, test, point(calibration)))
    assert mean(gains) > 0.05
    assert mean(gains) > mean(gains_of_point) + 0.05


@both_worlds
def test_pools_without_a_departure_are_left_alone(name):
    world, gains, gains_of_matching = WORLDS[name], [], []
    for seed in SEEDS[:2]:
        scene = Scene(world, seed)
        calibration = scene.rows(100, departs=False)
        test = scene.rows(NUM_TEST, departs=False)
        pool = scene.rows(3000).x_sim
        corrector = fit_corrector(
            calibration.context,
            calibration.x_obs,
            simulations=pool,
            posterior=world,
            density=world.log_density,
            seed=seed,
        )
        matching = MatchingCorrector(HashEncoder())
        matching.fit(calibration.context, calibration.x_obs, simulations=pool)
        gains.append(gain(world, test, corrector))
        gains_of_matching.append(gain(world, test, matching))
    assert mean(gains) > -0.02
    assert mean(gains_of_matching) < -0.02


def test_a_hundred_columns_from_a_hundred_triples():
    world = Box(100, 1.0, [0.1**0.5], length=2.0)
    scene = Scene(world)
    calibration, test = scene.rows(100), scene.rows(NUM_TEST)
    corrector = fit_corrector(
        calibration.context,
        calibration.x_obs,
        calibration.x_sim,
        density=world.log_density,
        seed=0,
    )
    loss = oracle(world, test) - log_score(world, test, corrector)
    assert loss.mean() < 0.02
    loss = oracle(world, test) - log_score(world, test, affine(calibration))
    assert loss.mean() > 0.2


def test_a_departure_that_depends_on_x():
    world, gains, gains_of_point = WORLDS["GLU"], [], []
    for seed in SEEDS[:2]:
        scene = Scene(world, seed)
        calibration, test = (
            some._replace(x_obs=1.6 * some.x_sim)
            for some in (scene.rows(100), scene.rows(NUM_TEST))
        )
        gains.append(gain(world, test, fit(world, calibration)))
        gains_of_point.append(gain(world, test, point(calibration)))
    assert mean(gains) > 1.0
    assert mean(gains_of_point) < 0.1
