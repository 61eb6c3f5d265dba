"""Maps from simulations to observations: what is known is recovered, and well chosen."""

import math

import pytest
import torch

from ma_sbi.correctors import forward_maps
from ma_sbi.correctors.forward_maps import (
    MAPS,
    choose_map,
    fit_curve,
    fit_linear,
    fit_mixing,
)


def rng(seed):
    return torch.Generator().manual_seed(seed)


def epidemics(num, days=40, seed=0):
    """Counts of waves that peak on different days, ``(num, days)``."""
    peak = days * torch.rand(num, 1, generator=rng(seed)).double()
    rate = 40 * torch.exp(-(((torch.arange(days) - peak) / 8) ** 2))
    return torch.poisson(rate, generator=rng(seed + 1))


def lag(counts):
    return torch.nn.functional.pad(counts, (2, 0))[:, :-2]


def weekly(counts):
    """Move the counts of days 5 and 6 of each week to the day after."""
    moved = counts.clone()
    for day in range(counts.shape[1]):
        if day % 7 in (5, 6):
            moved[:, day] = 0
            monday = day + 7 - day % 7
            if monday < counts.shape[1]:
                moved[:, monday] += counts[:, day]
    return moved


@pytest.mark.parametrize("delay", [lag, weekly])
def test_a_delay_is_recovered_from_fewer_rows_than_columns(delay):
    x, new = epidemics(20), epidemics(50, seed=5)
    predict = fit_mixing(x, delay(x), x)
    # Exact but for the weak prior of a millionth.
    assert (predict(new) - delay(new)).abs().max() < 0.05


def test_days_of_a_week_are_learned_from_other_weeks():
    x, new = epidemics(8), epidemics(50, seed=5)
    x[:, 28:] = 0
    predict = fit_mixing(x, weekly(x), x)
    assert (predict(new) - weekly(new)).abs().max() < 0.05


def test_a_mixture_is_never_negative():
    x = epidemics(20)
    predict = fit_mixing(x, (x - 3 * lag(x)).clamp(min=0), x)
    assert predict(epidemics(50, seed=5)).min() >= 0


def test_a_column_without_data_is_left_as_it_is():
    x, new = epidemics(20), epidemics(50, seed=5)
    x[:, 30:] = 0
    # Every column has a gain of its own, so that none is learned from others.
    gain = 0.5 + torch.rand(40, generator=rng(2)).double()
    predict = fit_mixing(x, gain * x, x)
    torch.testing.assert_close(predict(new)[:, 30:], new[:, 30:], atol=0.05, rtol=0)


def test_signed_columns_can_be_moved():
    x = torch.randn(60, 8, generator=rng(0), dtype=torch.float64)
    new = torch.randn(50, 8, generator=rng(1), dtype=torch.float64)
    predict = fit_mixing(x, x.roll(1, dims=1), x)
    assert (predict(new) - new.roll(1, dims=1)).abs().max() < 1e-3


def test_a_linear_map_is_recovered():
    x, new = torch.randn(2, 200, 4, generator=rng(0), dtype=torch.float64)
    matrix = torch.randn(4, 4, generator=rng(1), dtype=torch.float64)
    predict = fit_linear(x, x @ matrix + 1, x)
    torch.testing.assert_close(predict(new), new @ matrix + 1, atol=1e-4, rtol=0)


@pytest.mark.parametrize("shared", [True, False])
def test_a_curve_is_recovered(shared):
    x, new = 2 * torch.rand(2, 300, 3, generator=rng(0), dtype=torch.float64)
    predict = fit_curve(x, x / (1 + x), x, shared=shared)
    # Between knots a tenth of the range apart, lines differ from the curve by at most an
    # eighth of its second derivative (2 at most) times 0.2 squared.
    assert (predict(new) - new / (1 + new)).abs().max() < 2 / 8 * 0.2**2 + 0.005


def test_curves_of_columns_can_differ():
    x = torch.rand(300, 2, generator=rng(0), dtype=torch.float64)
    both = torch.stack([x[:, 0] / (1 + x[:, 0]), x[:, 1] ** 2], dim=1)
    chosen = choose_map(x, both, x)
    assert chosen.name == "a curve in every column"


@pytest.mark.parametrize(
    ("depart", "name"),
    [
        (lambda x: x + torch.linspace(0, 3, 40).double(), "a shift"),
        (weekly, "mixing of x"),
        (lambda x: torch.log1p(weekly(torch.expm1(x))), "mixing of exp(x) - 1"),
        (lambda x: x / (1 + x), "curve in every column"),
        (lambda x: (x.sqrt() + 1).square(), "linear in the square root of x"),
    ],
    ids=["shift", "lag", "lag of logarithms", "saturation", "root"],
)
def test_the_kind_that_is_right_is_chosen(depart, name):
    x = torch.log1p(epidemics(30))
    chosen = choose_map(x, depart(x), x)
    assert chosen.name.endswith(name)


def test_a_kind_that_is_far_behind_is_given_up_after_one_fold(monkeypatch):
    x, fitted = epidemics(30), []

    def counted(name, fit):
        return lambda *data: fitted.append(name) or fit(*data)

    every = {name: (space, counted(name, fit)) for name, (space, fit) in MAPS.items()}
    monkeypatch.setattr(forward_maps, "MAPS", every)
    assert choose_map(x, weekly(x), x).name == "mixing of x"
    assert fitted.count("mixing of x") == 5
    assert fitted.count("a shift") == 1


def test_residuals_are_of_maps_that_have_not_seen_the_pair():
    x = torch.randn(40, 3, generator=rng(0), dtype=torch.float64)
    noise = torch.randn(40, 3, generator=rng(1), dtype=torch.float64)
    before = choose_map(x, x + noise, x, seed=3)
    moved = x + noise
    moved[7] += 1e-4
    after = choose_map(x, moved, x, seed=3)
    assert before.name == after.name
    torch.testing.assert_close(
        after.residuals[7], before.residuals[7] + 1e-4, atol=1e-9, rtol=0
    )


def test_errors_are_in_units_of_the_simulations():
    x = torch.randn(40, 3, generator=rng(0), dtype=torch.float64)
    y = x + 5 + torch.randn(40, 3, generator=rng(1), dtype=torch.float64) / 10
    unit = torch.tensor([1.0, 10.0, 1000.0], dtype=torch.float64)
    first, second = choose_map(x, y, x), choose_map(unit * x, unit * y, unit * x)
    assert first.name == second.name
    torch.testing.assert_close(first.errors, second.errors)


def test_spaces_of_positive_numbers_are_not_tried_on_others():
    x = torch.randn(40, 3, generator=rng(0), dtype=torch.float64)
    tried = [name for name, (space, _) in MAPS.items() if space.suits(x)]
    assert not any("log" in name or "exp" in name or "root" in name for name in tried)
    large = torch.full((2, 3), 100.0)
    assert not MAPS["mixing of exp(x) - 1"][0].suits(large)
    assert MAPS["linear in log(1 + x)"][0].suits(large)


def test_a_single_column_has_a_map():
    x = torch.rand(40, 1, generator=rng(0), dtype=torch.float64)
    chosen = choose_map(x, 2 * x, x)
    assert math.sqrt(chosen.errors.mean()) < 1e-2
