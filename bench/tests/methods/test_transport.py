"""Semi-balanced transport: its limits in closed form, and POT where POT is stable."""

import math
import warnings

import ot
import pytest
import torch

from ma_sbi_bench.methods.transport import semi_balanced_plan

NUM_ROWS, NUM_COLUMNS = 12, 60
ROWS_EXACT = 1e-6
CONVERGED = 1e-6  # the default tolerance, as a share of mass


def distances(num_rows=NUM_ROWS, num_columns=NUM_COLUMNS):
    rng = torch.Generator().manual_seed(0)
    rows = torch.randn(num_rows, 3, generator=rng, dtype=torch.float64)
    columns = torch.randn(num_columns, 3, generator=rng, dtype=torch.float64)
    return torch.cdist(rows, columns + 1)


def relative_error(mass, count):
    return (mass * count - 1).abs().max().item()


@pytest.mark.parametrize("tau", [0.0, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("gamma", [1e-3, 0.05, 0.5, 50.0])
def test_every_row_moves_all_its_mass(gamma, tau):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows are exact even if columns have not settled
        plan = semi_balanced_plan(distances(), gamma, tau, max_iterations=500)
    assert relative_error(plan.sum(dim=1), NUM_ROWS) < ROWS_EXACT
    assert plan.isfinite().all()


@pytest.mark.parametrize("gamma", [0.02, 0.5, 50.0])
def test_tau_of_one_gives_uniform_columns(gamma):
    plan = semi_balanced_plan(distances(), gamma, 1.0)
    assert relative_error(plan.sum(dim=0), NUM_COLUMNS) < 10 * CONVERGED


def test_tau_of_zero_is_a_softmax_of_each_row():
    cost = distances()
    softmax = (-cost / 0.5).softmax(dim=1) / NUM_ROWS
    assert torch.equal(semi_balanced_plan(cost, 0.5, 0.0), softmax)
    torch.testing.assert_close(
        semi_balanced_plan(cost, 0.5, 1e-9), softmax, rtol=1e-6, atol=0.0
    )


def test_a_large_gamma_gives_a_uniform_plan():
    plan = semi_balanced_plan(distances(), 1e9, 0.9)
    uniform = torch.full_like(plan, 1 / plan.numel())
    torch.testing.assert_close(plan, uniform, rtol=1e-6, atol=0.0)


def test_a_small_gamma_gives_the_assignment_of_least_cost():
    cost = distances(8, 8)
    plan = semi_balanced_plan(cost, 0.05, 1.0)
    marginal = torch.full((8,), 1 / 8, dtype=torch.float64)
    exact = ot.emd(marginal, marginal, cost)
    # With uniform marginals, the entropies of two plans differ by at most log 8.
    assert (plan * cost).sum() <= (exact * cost).sum() + 0.05 * math.log(8)


@pytest.mark.parametrize("tau", [0.3, 0.9, 0.99])
@pytest.mark.parametrize("gamma", [0.05, 0.5])
def test_it_solves_what_pot_solves(gamma, tau):
    cost = distances()
    rho = gamma * tau / (1 - tau)
    rows = torch.full((NUM_ROWS,), 1 / NUM_ROWS, dtype=torch.float64)
    columns = torch.full((NUM_COLUMNS,), 1 / NUM_COLUMNS, dtype=torch.float64)
    oracle = ot.unbalanced.sinkhorn_unbalanced(
        rows, columns, cost, gamma, (math.inf, rho), numItermax=20_000, stopThr=1e-13
    )
    plan = semi_balanced_plan(cost, gamma, tau, tolerance=1e-10)
    assert (plan - oracle).abs().sum() < 1e-8


def test_balanced_transport_is_pots_sinkhorn():
    cost = distances()
    rows = torch.full((NUM_ROWS,), 1 / NUM_ROWS, dtype=torch.float64)
    columns = torch.full((NUM_COLUMNS,), 1 / NUM_COLUMNS, dtype=torch.float64)
    oracle = ot.sinkhorn(
        rows, columns, cost, 0.05, method="sinkhorn_log", numItermax=10_000, stopThr=1e-13
    )
    plan = semi_balanced_plan(cost, 0.05, tolerance=1e-10)
    assert (plan - oracle).abs().sum() < 1e-8


def test_costs_beyond_the_range_of_exp_leave_the_optimum_stationary():
    """Check the optimality condition, since POT's plan is zero there."""
    cost, gamma, tau = 10 * distances(), 1e-3, 0.5
    assert (cost / gamma).min() > 745  # exp(-745) is zero in float64
    plan = semi_balanced_plan(cost, gamma, tau)
    rho = gamma * tau / (1 - tau)
    # gamma log P + C + rho log(column mass) is the same along each row, where P > 0.
    mass = plan.sum(dim=0)
    slack = gamma * plan.log() + cost + rho * (mass * NUM_COLUMNS).log()
    used = plan > 1e-200
    high = slack.masked_fill(~used, -math.inf).amax(dim=1)
    low = slack.masked_fill(~used, math.inf).amin(dim=1)
    assert (high - low).max() < gamma * 1e-5


def test_a_softmax_plan_can_be_differentiated_and_others_say_no():
    cost = distances().requires_grad_()
    (semi_balanced_plan(cost, 0.5, 0.0) * cost).sum().backward()
    assert cost.grad.abs().sum() > 0
    assert not semi_balanced_plan(cost, 0.5, 0.9).requires_grad


def test_it_says_when_it_has_not_converged():
    with pytest.warns(UserWarning, match="has not converged in 1 iterations"):
        semi_balanced_plan(distances(), 1e-3, max_iterations=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.zeros(3), 0.5), "matrix"),
        ((torch.full((2, 2), torch.nan), 0.5), "finite"),
        ((torch.zeros(2, 2), 0.0), "gamma"),
        ((torch.zeros(2, 2), 0.5, 1.5), "tau"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        semi_balanced_plan(*arguments)
