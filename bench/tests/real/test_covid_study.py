"""Tests for ma_sbi_bench.real.covid.study."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from ma_sbi_bench.real import Windows
from ma_sbi_bench.real.covid.study import WindowStudy, gains
from ma_sbi_bench.tasks.fortnight import FortnightSimulator

pytestmark = pytest.mark.filterwarnings("ignore")

SIMULATOR = FortnightSimulator()


class LevelPosterior:
    """Finds the level of a window, and knows growth and dispersion."""

    dim_x = 14

    def sample(self, num_samples, x, *, seed=None):
        rng = torch.Generator().manual_seed(0 if seed is None else seed)
        noise = 0.1 * torch.randn(num_samples, len(x), generator=rng)
        theta = torch.zeros(num_samples, len(x), 3)
        theta[..., 0] = x.mean(dim=1) + noise
        theta[..., 2] = 4.0
        return theta


def windows(pattern, n=24):
    """Two countries, whose counts follow a daily pattern that the regime chooses."""
    rng = np.random.default_rng(0)
    regime = np.arange(n) // 2 % 2
    counts = rng.poisson(1000 * np.exp(pattern[regime] + 0.05 * rng.normal(size=(n, 14))))
    table = pd.DataFrame(
        {
            "iso3": np.where(np.arange(n) % 2, "AAA", "BBB"),
            "time": np.arange(n) // 2,
            "regime": regime,
            "text": np.where(regime, "Schools are closed.", "No measures."),
            "notes": np.where(np.arange(n) % 3, "No change.", ""),
        }
    )
    return Windows(table, counts, counts)


WEEK = np.tile([0.5, 0.4, 0.3, 0.0, -0.2, -0.5, -0.5], 2)
PATTERN = np.stack([WEEK, -WEEK])


@pytest.fixture(scope="module")
def study():
    return WindowStudy(windows(PATTERN), SIMULATOR, LevelPosterior(), num_samples=200)


def test_without_a_correction_the_loss_is_that_of_the_posterior_predictive(study):
    found = study.losses(None, "past")
    theta = study.posterior.sample(200, study.x, seed=0)
    direct = SIMULATOR.log_likelihood(study.counts, theta, torch.zeros_like(study.x))
    expected = math.log(200) - direct.logsumexp(dim=0)
    # Other draws of the same posterior: the noise of 200 draws of a narrow one.
    np.testing.assert_allclose(found, expected, rtol=0.05)


class PriorPosterior:
    """Learns nothing."""

    dim_x = 14

    def sample(self, num_samples, x, *, seed=None):
        torch.manual_seed(0 if seed is None else seed)
        return SIMULATOR.prior.sample((num_samples, len(x)))


def test_the_prior_has_the_loss_of_a_posterior_that_learns_nothing():
    idle = WindowStudy(windows(PATTERN), SIMULATOR, PriorPosterior(), num_samples=20_000)
    few = WindowStudy(windows(PATTERN), SIMULATOR, PriorPosterior(), num_samples=1000)
    # Both take 20,000 draws, of which a few hundred count.
    gap = idle.losses(None, "past") - few.prior_losses()
    assert abs(gap).max() < 0.5
    assert abs(gap.mean()) < 0.2


def test_a_pattern_that_the_regime_tells_is_found(study):
    methods = study.methods() | {"shuffled": study.shuffled(0)}
    later = (study.table["time"] >= 4).to_numpy()
    mean = {
        name: study.losses(method, "past")[later].mean() for name, method in methods.items()
    }
    assert mean["point"] < mean["NPE"] - 10
    assert mean["stochastic"] < mean["NPE"] - 10
    # The two patterns cancel, so what they have in common tells nothing.
    assert mean["marginal-only"] > mean["point"] + 10
    # Without the regime, half of the draws have the right pattern: that costs log 2.
    for name in ("pooled", "shuffled"):
        assert mean[name] - mean["stochastic"] == pytest.approx(math.log(2), abs=0.4)
    # Every wording names its regime here.
    assert mean["stochastic, wording"] == pytest.approx(mean["stochastic"], abs=0.3)


def test_leaving_one_out_finds_it_from_the_first_window(study):
    found = study.losses(study.methods()["stochastic"], "leave_one_out")
    assert (found < study.losses(None, "leave_one_out") - 5).all()


def test_the_first_windows_have_no_past_and_are_left_alone(study):
    method = study.methods()["stochastic"]
    found, plain = study.losses(method, "past"), study.losses(None, "past")
    first = study.table["time"] == 0
    np.testing.assert_allclose(found[first], plain[first], rtol=0.05)
    assert abs(found[~first] - plain[~first]).min() > 1


def test_a_window_has_no_part_in_its_own_departure(study):
    def departures(counts):
        changed = Windows(study.table, counts, counts)
        fresh = WindowStudy(changed, SIMULATOR, LevelPosterior(), num_samples=50)
        method = fresh.methods()["stochastic"]
        return fresh._draw_departures(fresh.corrections(method, "leave_one_out"))

    counts = study.counts.numpy().copy()
    before = departures(counts)
    counts[7, 3] *= 50
    after = departures(counts)
    # The others' residuals are predictions from other random numbers, no more.
    torch.testing.assert_close(before[:, 7], after[:, 7], atol=0.05, rtol=0)
    assert (before - after).abs().max() > 1


def test_gains_are_given_overall_and_by_country(study):
    losses = study.table[["iso3", "time"]].copy()
    losses["NPE"] = 10.0
    losses["better"] = np.where(losses["iso3"] == "AAA", 7.0, 9.0)
    found = gains(losses)
    assert found["all", "better"].gain == pytest.approx(2.0)
    assert found["AAA", "better"].gain == pytest.approx(3.0)
    assert found["BBB", "better"].relative == pytest.approx(0.1)
    assert set(found) == {(scope, "better") for scope in ("all", "AAA", "BBB")}


def test_unknown_pools_are_refused(study):
    with pytest.raises(ValueError, match="pools must be one of leave_one_out, past"):
        study.losses(None, "future")
