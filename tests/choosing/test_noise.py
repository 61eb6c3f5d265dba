"""Tests for ma_sbi.choosing.noise."""

import pytest
import torch

from ma_sbi import fit_corrector
from ma_sbi.choosing.noise import find_noise, simulator_noise

N, DIM, NOISE = 400, 5, 0.5
NONE = torch.zeros(N, dtype=torch.long)


def normal(*shape, seed=0):
    rng = torch.Generator().manual_seed(1000 + seed)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


THETA = normal(N, DIM)


def simulate(seed, num_repeats=None):
    if num_repeats is None:
        return THETA + NOISE * normal(N, DIM, seed=seed)
    return THETA[:, None] + NOISE * normal(N, num_repeats, DIM, seed=seed)


def test_repeated_simulations_show_the_variance_of_the_noise():
    x_obs, x_sim = simulate(1), simulate(2, num_repeats=4)
    found = find_noise(x_obs, x_sim, NONE)
    # The variance from 3 degrees of freedom in each of n rows.
    error = NOISE**2 * (2 / (3 * N)) ** 0.5
    torch.testing.assert_close(
        found.of_simulation, torch.full((DIM,), NOISE**2).double(), atol=5 * error, rtol=0
    )
    # x_obs - mean(x_sim) holds the noise of one and a quarter of that of the other: all
    # of it is noise, up to the error of a variance of n rows.
    assert (found.share > 1 - 5 * (2 / N) ** 0.5).all()
    assert (found.share <= 1).all()
    expected = torch.full((DIM,), 1.25 * NOISE**2).double()
    error = expected * (2 / N) ** 0.5
    assert ((found.variance - expected).abs() < 5 * error).all()


def test_repeated_simulations_tell_noise_from_departure():
    departure = normal(N, DIM, seed=3)
    found = find_noise(simulate(1) + departure, simulate(2, num_repeats=4), NONE)
    expected = 1.25 * NOISE**2 / (1.25 * NOISE**2 + 1)
    error = expected * (2 / N + 2 / (3 * N)) ** 0.5
    assert ((found.share - expected).abs() < 5 * error).all()


def test_means_of_contexts_are_no_noise():
    codes = torch.arange(N) % 4
    shifts = 10 * (torch.arange(4.0)[:, None] - 1.5).expand(-1, DIM)
    x_sim = simulate(2, num_repeats=4)
    found = find_noise(simulate(1) + shifts[codes], x_sim, codes)
    assert (found.share > 0.7).all()
    assert (find_noise(simulate(1) + shifts[codes], x_sim, NONE).share < 0.1).all()


@pytest.mark.parametrize("departure", [0.0, 0.3, 2.0])
def test_noise_that_is_shared_is_none(departure):
    x_sim = simulate(1)
    x_obs = x_sim + departure * normal(N, DIM, seed=3)
    found = find_noise(x_obs, x_sim[:, None], NONE)
    assert not found.found
    assert found.share.tolist() == found.variance.tolist() == [0.0] * DIM
    assert "share their noise" in found.sentence


@pytest.mark.fixed_seeds
def test_what_cannot_be_told_is_not_asserted():
    # Own noise that is small against what theta does: moments do not show it.
    rng = torch.Generator().manual_seed(0)
    theta = torch.randn(400, 2, generator=rng, dtype=torch.float64)
    x_obs, x_sim = (
        theta + 0.05 * torch.randn(400, 2, generator=rng, dtype=torch.float64)
        for _ in range(2)
    )
    found = find_noise(x_obs, x_sim[:, None], torch.zeros(400, dtype=torch.long))
    assert not found.told
    assert "cannot be told" in found.sentence


def test_second_moments_show_noise_that_is_not_shared():
    found = find_noise(simulate(1), simulate(2)[:, None], NONE)
    assert found.found
    # All of it is noise; what is not clearly departure is none. Errors of the second
    # moments: see the code; a quarter is more than four.
    assert (found.share > 0.75).all()
    expected = 2 * NOISE**2
    assert ((found.variance / expected - 1).abs() < 0.25 + 5 * (2 / N) ** 0.5).all()
    assert "noise of its own" in found.sentence


def test_a_gain_is_no_noise():
    # Half the spread in x_obs: x_obs varies less than x_sim, as noise cannot explain.
    x_sim = simulate(1)
    assert not find_noise(0.5 * x_sim, x_sim[:, None], NONE).found


def test_the_simulators_noise_shows_what_moments_cannot():
    known = torch.full((DIM,), NOISE**2).double()
    x_obs, x_sim = simulate(1), simulate(2)[:, None]
    sets = [slice(start, start + 16) for start in range(0, N, 16)]
    with_it, without = (
        [find_noise(x_obs[few], x_sim[few], NONE[few], given).found for few in sets]
        for given in (known, None)
    )
    # Of 25 sets of 16 rows: 22 or 23, and 9 to 12; four deviations of a count.
    assert sum(with_it) > 16
    assert sum(with_it) > sum(without)


@pytest.mark.parametrize("factor", [0.5, 0.8])
def test_the_simulators_noise_may_be_known_roughly(factor):
    """It is learned from few rows, and may be wrong in one column more than in others."""
    known = NOISE**2 * factor * torch.tensor([1.0, 1.0, 1.0, 1.0, 2.0]).double()
    x_obs, x_sim = simulate(1), simulate(2)[:, None]
    sets = [slice(start, start + 16) for start in range(0, N, 16)]
    found = [find_noise(x_obs[few], x_sim[few], NONE[few], known).found for few in sets]
    assert sum(found) > 16
    # Far larger or smaller it is something else.
    without = [find_noise(x_obs[few], x_sim[few], NONE[few]).found for few in sets]
    far = [find_noise(x_obs[few], x_sim[few], NONE[few], 20 * known).found for few in sets]
    assert far == without


def test_residuals_that_repeat_are_regimes():
    few, codes = slice(0, 12), torch.arange(12) % 3
    known = torch.full((DIM,), NOISE**2).double()
    x_sim = simulate(2)[few, None]
    shifts = NOISE * 2**0.5 * normal(3, DIM, seed=5)
    assert not find_noise(x_sim[:, 0] + shifts[codes], x_sim, NONE[few], known).found


def test_spreading_simulations_undoes_the_attenuation():
    x_obs, x_sim = simulate(1), simulate(2)
    found = find_noise(x_obs, x_sim[:, None], NONE)
    spread, _ = found.undo_attenuation(x_sim, 1)

    def slope(y):
        centred, y = x_obs - x_obs.mean(dim=0), y - y.mean(dim=0)
        return torch.linalg.lstsq(centred, y).solution.diag().mean()

    # The mean of five slopes, each with an error of 0.67 / sqrt(n) / 1.1.
    error = 0.6 / N**0.5 / DIM**0.5
    assert abs(slope(x_sim) - 1 / (1 + NOISE**2)) < 4 * error
    # The noise is known to a few per cent, of which the slope inherits a quarter.
    assert abs(slope(spread) - 1) < 4 * error + 0.25 * 0.25
    torch.testing.assert_close(spread.mean(dim=0), x_sim.mean(dim=0))


def test_noise_is_spread_as_much_as_simulations():
    x_obs, x_sim = simulate(1), simulate(2)
    found = find_noise(x_obs, x_sim[:, None], NONE)
    spread, noise = found.undo_attenuation(x_sim, 1)
    coefficients = torch.linalg.lstsq(x_obs, spread).solution
    left = (spread - x_obs @ coefficients).square().mean(dim=0)
    # In closed form, with signal 1 and noise v: (1 + v) (2 v + v ** 2).
    exact = (1 + NOISE**2) * (2 * NOISE**2 + NOISE**4)
    error = exact * (2 / N) ** 0.5
    # The share of noise is known to a few per cent, of which each side inherits some.
    assert (left - exact).abs().max() < 4 * error + 0.25 * exact
    assert ((noise - left).abs() < 4 * error + 0.1 * exact).all()
    assert (noise > 1.1 * found.variance).all()


def test_nothing_is_spread_where_noise_is_shared():
    x_sim = simulate(1)
    found = find_noise(x_sim + 1.0, x_sim[:, None], NONE)
    assert torch.equal(found.undo_attenuation(x_sim, 1)[0], x_sim)


@pytest.mark.parametrize("draws", [None, 8])
def test_the_simulators_noise_is_learned_from_parameters(draws):
    x = simulate(1)
    theta = THETA
    if draws is not None:
        # Draws from the posterior at x: theta | x ~ N(0.8 x, 0.2).
        theta = 0.8 * x + 0.2**0.5 * normal(draws, N, DIM, seed=6)
    found = simulator_noise(theta, x)
    error = NOISE**2 * (2 / N) ** 0.5
    assert ((found - NOISE**2).abs() < 5 * error + 0.1 * NOISE**2).all()


def test_a_simulator_without_noise_has_none():
    theta = THETA[:, :2]
    x = torch.stack([theta[:, 0] ** 2, theta.sum(dim=1)], dim=1)
    assert (simulator_noise(theta, x) < 1e-4).all()


def counts(rate, seed):
    rng = torch.Generator().manual_seed(seed)
    return torch.poisson(rate, generator=rng)


def test_noise_of_counts_may_repeat():
    rate = torch.linspace(3, 40, N, dtype=torch.float64)[:, None].repeat(1, 2)
    found = find_noise(counts(rate, 0), counts(rate, 1)[:, None], NONE)
    # Both sides vary by theta far more than by noise: second moments do not tell.
    assert found.found or not found.told


@pytest.mark.parametrize("columns", [1, 30])
def test_counts_that_agree_in_many_columns_share_their_noise(columns):
    rate = torch.linspace(3, 40, N, dtype=torch.float64)[:, None].repeat(1, columns)
    x_sim = counts(rate, 0)
    x_obs = x_sim + (torch.arange(N) % 2)[:, None]
    found = find_noise(x_obs, x_sim[:, None], NONE)
    assert not found.found
    assert found.told or columns == 1


def test_noise_of_x_sim_is_not_evened_out_without_a_posterior():
    """A shift keeps differences; what evens out noise within a cluster does not."""
    rng = torch.Generator().manual_seed(0)
    centre = torch.where(torch.rand(400, 1, generator=rng) < 0.5, -4.0, 4.0)
    theta = centre + 0.1 * torch.randn(400, 2, generator=rng)
    x_sim = theta[:, None] + 0.5 * torch.randn(400, 3, 2, generator=rng)
    codes = torch.arange(400) % 2
    noise = 0.5 * torch.randn(400, 2, generator=rng)
    x_obs = theta + noise + torch.tensor([[1.0, 0.0], [0.0, -1.0]])[codes]
    found = fit_corrector([f"regime {code}" for code in codes], x_obs, x_sim, seed=0)
    x = torch.tensor([[4.0, 4.0], [4.5, 3.0]])
    apart = found.correct(x, ["regime 0", "regime 0"]).diff(dim=0)
    torch.testing.assert_close(apart, x.diff(dim=0), atol=1e-4, rtol=0.0)
