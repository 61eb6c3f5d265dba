"""The pull-back: shifts from a transport of observations, averaged over neighbours."""

from dataclasses import replace

import pytest
import torch

from bench.tests.methods import gaussian
from ma_sbi_bench.methods import Calibration, PairedDepartures, RoPEEMD, RoPESinkhorn

GRID = (0.03, 0.3, 3.0)
SHIFT = torch.tensor([3.0, -1.0])


def without_noise(theta):
    return theta


def shifted(n=100):
    """Make observations that are their theta, shifted, under a simulator without noise."""
    theta = gaussian.draw(n, 1)[0]
    given = gaussian.materials(simulator=without_noise)
    return replace(given, calibration=Calibration(theta + SHIFT, theta=theta))


def test_a_common_shift_is_found_exactly_however_large():
    x = gaussian.draw(20, 5)[1] + SHIFT
    shown = RoPEEMD().fit(shifted(), seed=0).corrections(x)
    torch.testing.assert_close(shown.x[0], x - SHIFT)
    assert torch.equal(shown.log_weight, torch.zeros(1, 20))


def test_which_simulation_belongs_to_which_observation_is_not_used():
    given, x = shifted(), gaussian.draw(20, 5)[1]
    theta = given.calibration.theta.flip(0)
    flipped = replace(given, calibration=replace(given.calibration, theta=theta))
    for method in (RoPEEMD(), RoPESinkhorn(epsilon=0.1)):
        first = method.fit(given, seed=0).corrections(x).x
        torch.testing.assert_close(method.fit(flipped, seed=0).corrections(x).x, first)


def test_on_a_line_the_assignment_is_in_order():
    theta, x_obs = gaussian.draw(50, 1, dim=1)
    given = gaussian.materials(dim=1, simulator=without_noise)
    given = replace(given, calibration=Calibration(x_obs.exp(), theta=theta))
    shown = RoPEEMD(num_neighbours=1).fit(given, seed=0).corrections(x_obs.exp()).x[0]
    order = x_obs[:, 0].argsort()
    torch.testing.assert_close(shown[order, 0], theta[:, 0].sort().values)


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_the_shift_is_the_mean_of_the_neighbours(weights):
    given, x = gaussian.materials(30), gaussian.draw(4, 5)[1]
    x_obs = given.take("x_obs")
    single = RoPEEMD(num_neighbours=1).fit(given, seed=0)
    delta = x_obs - single.corrections(x_obs).x[0]
    distance, nearest = torch.cdist(x, x_obs).topk(5, largest=False)
    weight = torch.ones_like(distance) if weights == "uniform" else 1 / distance
    weight = weight / weight.sum(dim=1, keepdim=True)
    expected = x - (weight[..., None] * delta[nearest]).sum(dim=1)
    method = RoPEEMD(weights=weights).fit(given, seed=0)
    torch.testing.assert_close(method.corrections(x).x[0], expected, rtol=1e-4, atol=1e-5)


def test_a_large_epsilon_moves_every_observation_to_the_mean_simulation():
    given = shifted()
    x_obs = given.take("x_obs")
    shown = RoPESinkhorn(epsilon=1e6, num_neighbours=1).fit(given).corrections(x_obs).x[0]
    mean = given.take("theta*").mean(dim=0)
    torch.testing.assert_close(shown, mean.expand(100, -1), rtol=1e-3, atol=1e-3)


def test_a_small_epsilon_is_the_assignment():
    given, x = shifted(30), gaussian.draw(20, 5)[1]
    expected = RoPEEMD().fit(given, seed=0).corrections(x).x
    shown = RoPESinkhorn(epsilon=2e-3).fit(given, seed=0).corrections(x).x
    torch.testing.assert_close(shown, expected, rtol=0, atol=0.02)


def test_a_tuned_epsilon_is_small_where_observations_tell_simulations_apart():
    method = RoPESinkhorn(grid=GRID).fit(shifted(), seed=0)
    assert method.epsilon_ == min(method.grid)
    assert method.errors_[method.epsilon_] == min(method.errors_.values())


def test_a_tuned_epsilon_does_not_take_the_mean_simulation_for_noise():
    """With one theta for all, that would have the least squared error."""
    theta = torch.zeros(100, 2)
    x_obs = gaussian.simulate(theta, seed=1)
    calibration = Calibration(x_obs, theta=theta)
    method = RoPESinkhorn(grid=GRID).fit(
        replace(gaussian.materials(), calibration=calibration), seed=0
    )
    assert max(method.errors_, key=method.errors_.__getitem__) == max(method.grid)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (RoPEEMD(num_neighbours=101), "at most .* 100, got 101"),
        (RoPEEMD(weights="gaussian"), "weights"),
        (RoPESinkhorn(epsilon=-1.0), "epsilon"),
        (RoPESinkhorn(epsilon="tune"), "epsilon"),
        (RoPESinkhorn(grid=()), "grid"),
        (RoPEEMD(matched="paired"), "matched must be 'fresh' or 'aligned', got 'paired'"),
    ],
)
def test_bad_options_are_refused(method, message):
    with pytest.raises(ValueError, match=message):
        method.fit(shifted(), seed=0)


def aligned(n=100):
    """Make pairs of which every second one is shifted, and nothing but them."""
    theta, x_sim = gaussian.draw(n, 1)
    moved = SHIFT * (torch.arange(n) % 2)[:, None]
    given = gaussian.materials()
    pairs = Calibration(x_sim + moved, x_sim=x_sim)
    return replace(given, calibration=pairs, simulator=None), moved


def test_aligned_simulations_need_no_true_parameters():
    given, _ = aligned()
    methods = (
        RoPEEMD(matched="aligned"),
        RoPESinkhorn(epsilon=0.1, matched="aligned"),
        PairedDepartures(),
    )
    for method in methods:
        assert method.needs == {"posterior", "pairs"}
        assert method.fit(given, seed=0).corrections(given.take("x_obs")).x.isfinite().all()
    assert RoPEEMD().needs == {"posterior", "simulator", "theta*"}


def test_a_common_shift_of_noisy_pairs_is_exact_with_aligned_simulations_alone():
    """Fresh simulations have noise of their own, which is taken for a departure."""
    theta, x_sim = gaussian.draw(100, 1)
    calibration = Calibration(x_sim + SHIFT, x_sim=x_sim, theta=theta)
    given = replace(gaussian.materials(), calibration=calibration)
    x = gaussian.draw(20, 5)[1] + SHIFT
    found = {
        name: RoPEEMD(matched=name).fit(given, seed=0).corrections(x).x[0]
        for name in ("fresh", "aligned")
    }
    torch.testing.assert_close(found["aligned"], x - SHIFT)
    assert (found["fresh"] - x + SHIFT).abs().max() > 0.01


def test_paired_departures_are_averaged_as_they_are():
    given, moved = aligned()
    x_obs = given.take("x_obs")
    alone = PairedDepartures(num_neighbours=1).fit(given, seed=0).corrections(x_obs).x[0]
    torch.testing.assert_close(alone, x_obs - moved)
    five = PairedDepartures().fit(given, seed=0).corrections(x_obs).x[0]
    nearest = torch.cdist(x_obs, x_obs).topk(5, largest=False).indices
    torch.testing.assert_close(five, x_obs - moved[nearest].mean(dim=1), rtol=0, atol=1e-5)
