"""Drift diffusion: the simulator, the summary and both departures."""

import math

import pytest
import torch

from ma_sbi_bench.tasks import ddm as module
from ma_sbi_bench.tasks import get_task
from ma_sbi_bench.tasks.ddm import (
    BANDWIDTH,
    CELL,
    GRID,
    INSTRUCTIONS,
    Trials,
    ddm_log_density,
    density_summary,
    simulate_trials,
)

THETA = torch.tensor([[1.2, 1.0, 0.3]], dtype=torch.float64)


@pytest.fixture(scope="module")
def trials():
    source = torch.Generator().manual_seed(0)
    return simulate_trials(THETA, 100_000, source=source)


def times(*values):
    return torch.tensor([values], dtype=torch.float64)


def test_responses_come_after_the_time_that_is_not_spent_deciding(trials):
    v, a, tau = THETA[0].tolist()
    decision_time = trials.response_time - tau
    assert decision_time.min() > 0
    expected = a / (2 * v) * math.tanh(v * a / 2)
    error = decision_time.std().item() / decision_time.numel() ** 0.5
    assert decision_time.mean().item() == pytest.approx(expected, abs=4 * error)


@pytest.mark.parametrize("odds", [0.75, 1.0, 3.0])
def test_an_instruction_multiplies_the_odds_of_an_error(trials, odds):
    wrong = (trials.signed_times(error_odds=odds) < 0).double().mean().item()
    expected = odds / (odds + math.exp(THETA[0, 0] * THETA[0, 1]))
    error = (expected * (1 - expected) / trials.chance.numel()) ** 0.5
    assert wrong == pytest.approx(expected, abs=4 * error)


@pytest.mark.parametrize("shift", [0.12, -0.16])
def test_an_instruction_shifts_every_response_but_none_before_a_tenth_second(trials, shift):
    moved, before = trials.signed_times(response_shift=shift), trials.signed_times()
    assert torch.equal(moved > 0, before > 0)
    expected = (before.abs() + shift).clamp(min=0.1)
    torch.testing.assert_close(moved.abs(), expected)


def test_responses_that_were_sooner_stay_where_they_are():
    one = Trials(times(0.05, 0.5), times(0.0), times(0.0, 0.0))
    torch.testing.assert_close(one.signed_times(-0.3), times(0.05, 0.2))


def test_the_summary_is_a_kernel_density_at_twenty_points():
    grid = torch.tensor(GRID, dtype=torch.float64)
    kernel = torch.distributions.Normal(times(-0.7, 0.4).T, BANDWIDTH)
    expected = kernel.log_prob(grid).exp().mean(dim=0)
    torch.testing.assert_close(density_summary(times(-0.7, 0.4)), expected[None])


def test_the_summary_holds_the_mass_and_the_mean_of_the_responses(trials):
    # A sum over cells of kernels half a cell wide is off by 2 exp(-pi^2 / 2) at most.
    ripple = 2 * math.exp(-(math.pi**2) / 2)
    signed = trials.signed_times()
    summary = CELL * density_summary(signed)[0]
    assert summary.sum().item() == pytest.approx(1, abs=ripple)
    centre = summary @ torch.tensor(GRID, dtype=torch.float64)
    assert centre.item() == pytest.approx(signed.mean().item(), abs=ripple)


@pytest.mark.parametrize("name", ["ddm", "ddm_trials"])
def test_the_texts_are_the_papers(name):
    assert [regime.text for regime in get_task(name).regimes] == [
        "Balance speed and accuracy in your responses",
        "Respond as quickly as possible, even if you make mistakes",
        "Be as accurate as possible, take your time",
        "Respond as fast as you can, no time to think carefully",
    ]


def test_both_tasks_share_the_simulator():
    draws = [get_task(name).draw(40, seed=0) for name in ("ddm", "ddm_trials")]
    for field in ("theta", "x_sim", "regime"):
        assert torch.equal(*(getattr(one, field) for one in draws))


@pytest.mark.parametrize("name", ["ddm", "ddm_trials"])
def test_the_balanced_instruction_departs_from_nothing(name):
    draws = get_task(name).draw(40, seed=0)
    balanced = draws.regime == 0
    assert torch.equal(draws.x_obs[balanced], draws.x_sim[balanced])
    changed = (draws.x_obs != draws.x_sim).any(dim=1)
    assert torch.equal(changed, ~balanced)


@pytest.mark.parametrize("regime", range(len(INSTRUCTIONS)))
def test_the_shift_of_the_summary_is_the_mean_departure_of_the_trials(regime):
    task = get_task("ddm_trials", num_trials=20)
    x_sim, x_obs = task.observe(task.draw(10_000, seed=3).theta, regime, seed=3)
    effect = x_obs - x_sim
    # Both are averages over 10,000 parameter sets.
    error = effect.std(dim=0) * (2 / len(effect)) ** 0.5
    deviation = effect.mean(dim=0) - get_task("ddm").shift([regime])[0]
    assert (deviation.abs() <= 5 * error).all()


def test_the_departure_of_the_trials_depends_on_theta():
    task = get_task("ddm_trials", num_trials=5000)
    slow_and_fast = torch.tensor([[0.5, 2.0, 0.5], [3.0, 0.5, 0.1]])
    x_sim, x_obs = task.observe(slow_and_fast, 1, seed=0)
    effect = x_obs - x_sim
    assert (effect[0] - effect[1]).norm() > effect.norm(dim=1).min()


def test_a_summary_cannot_be_made_to_depart_like_trials():
    task = get_task("ddm_trials")
    with pytest.raises(ValueError, match=r"use observe\(theta, regime\)"):
        task.depart(torch.zeros(1, 20), 1)
    well_specified = get_task("ddm_trials", setting="well_specified")
    assert torch.equal(well_specified.depart(torch.ones(1, 20), 1), torch.ones(1, 20))


def test_without_a_seed_reality_still_shares_the_noise():
    task = get_task("ddm_trials")
    x_sim, x_obs = task.observe(THETA, 0)
    assert torch.equal(x_sim, x_obs)


def test_rows_beyond_one_block_are_simulated_too(monkeypatch):
    monkeypatch.setattr(module, "TRIALS_AT_ONCE", 450)
    task = get_task("ddm_trials")
    draws = task.draw(7, seed=0)
    assert torch.equal(task.simulate(draws.theta, seed=0), draws.x_sim)
    assert draws.x_sim.unique(dim=0).shape == (7, 20)
    assert torch.equal((draws.x_obs != draws.x_sim).any(dim=1), draws.regime != 0)


def test_the_shifts_are_computed_once():
    get_task("ddm")
    known = module._mean_departures.cache_info().misses
    get_task("ddm", num_trials=50, shift_scale=2.0)
    assert module._mean_departures.cache_info().misses == known


def test_small_shifts_are_a_part_of_the_shifts_on_the_same_simulations():
    whole, part = get_task("ddm"), get_task("ddm_small_shifts")
    for one, small in zip(whole.regimes, part.regimes, strict=True):
        torch.testing.assert_close(small.shift, 0.32 * one.shift)
    assert torch.equal(*(task.draw(40, seed=0).x_sim for task in (whole, part)))


@pytest.mark.parametrize("factor", [0.0, -1.0, math.inf, math.nan])
def test_the_scale_of_the_shifts_must_be_a_positive_number(factor):
    with pytest.raises(ValueError, match="shift_scale must be a positive number"):
        get_task("ddm", shift_scale=factor)


def test_more_trials_leave_less_noise():
    theta = THETA.expand(2000, -1)
    few, many = (
        get_task("ddm", num_trials=count).simulate(theta, seed=0).var(dim=0).sum()
        for count in (25, 100)
    )
    # A variance estimated from 2000 rows, over 20 coordinates: a few per cent.
    assert (few / many).item() == pytest.approx(4, rel=0.15)


@pytest.mark.parametrize("count", [0, -1, 2.5])
def test_the_number_of_trials_must_be_a_positive_integer(count):
    with pytest.raises(ValueError, match="num_trials must be a positive integer"):
        get_task("ddm", num_trials=count)


def test_there_is_no_exact_posterior():
    with pytest.raises(ValueError, match="no exact posterior is known for ddm"):
        get_task("ddm").reference(torch.zeros(1, 20), 5)


def test_the_density_of_responses_explains_the_simulated_ones(trials):
    # Shares in cells of signed time, against the integral of the density over the cell.
    edges = torch.tensor([0.35, 0.45, 0.6, 0.9, 1.5], dtype=torch.float64)
    signed = trials.signed_times()[0]
    for correct in (True, False):
        for low, high in zip(edges[:-1], edges[1:], strict=True):
            inside = torch.linspace(low, high, 2001, dtype=torch.float64)
            log_density = ddm_log_density(inside, [correct], THETA)
            share = torch.trapezoid(log_density.exp(), inside).item()
            own = signed if correct else -signed
            seen = ((own >= low) & (own < high)).double().mean().item()
            error = (share * (1 - share) / len(signed)) ** 0.5
            assert seen == pytest.approx(share, abs=4 * error)


def test_no_response_comes_before_the_decision_can_begin():
    log_density = ddm_log_density([0.2, 0.3, 0.31], [True], THETA)
    assert log_density[:2].tolist() == [-math.inf, -math.inf]
    assert math.isfinite(log_density[2])


def test_densities_broadcast_over_parameters_and_trials():
    theta = THETA.expand(5, 1, 3)
    assert ddm_log_density([0.4, 0.5], [True, False], theta).shape == (5, 2)
