"""Tests for ma_sbi_bench.trials.tabulated."""

import torch

from ma_sbi_bench.trials.tabulated import LOWEST, Tabulated


def log_density(x):
    return x[:, 0].sin() - x[:, 0] * x[:, 1].square()


LOWER, UPPER = torch.tensor([-1.0, -2.0]), torch.tensor([2.0, 2.0])


def test_splines_agree_with_the_density_and_its_gradient():
    table = Tabulated(log_density, LOWER, UPPER, 0.05)
    x = (LOWER + (UPPER - LOWER) * torch.rand(50, 2)).double()
    value, gradient = table.log_prob_and_gradient(x)
    torch.testing.assert_close(value, log_density(x), atol=1e-5, rtol=0)
    torch.testing.assert_close(table(x), value)
    first = x[:, 0].cos() - x[:, 1].square()
    expected = torch.stack([first, -2 * x[:, 0] * x[:, 1]], dim=1)
    torch.testing.assert_close(gradient, expected, atol=1e-3, rtol=0)


def test_what_is_impossible_is_very_improbable():
    table = Tabulated(lambda x: x[:, 0].log(), LOWER, UPPER, 0.5)
    values = table(torch.tensor([[-1.0, 0.0], [2.0, 0.0]]))
    assert values.isfinite().all()
    assert values[1] - values[0] == LOWEST
