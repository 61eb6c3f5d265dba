"""Tests for ma_sbi_bench.real.parts."""

import math

import pytest
import torch

from ma_sbi.metrics import PairedGain
from ma_sbi.protocols import Corrections
from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.real.parts import (
    conditional_part,
    gain_in_per_cent,
    measure_preflight,
    preflight_lines,
)

ZERO = torch.zeros(1, 3)


def test_the_parts_of_a_shift_add_up_to_it():
    x = torch.arange(6.0).reshape(3, 2)
    whole = Corrections(x[None] - 5.0, ZERO, ZERO)
    marginal = Corrections(x[None] - 2.0, ZERO, ZERO)
    conditional = conditional_part(x, whole, marginal)
    torch.testing.assert_close(conditional.x, x[None] - 3.0)


def test_a_gain_in_per_cent_is_of_the_size_of_the_baseline():
    # A loss may be negative: -2 that falls to -3 has gained 50 %.
    gain = PairedGain(1.0, 0.5, 2.0, relative=0.5, p_value=0.1, num_cases=9)
    found = gain_in_per_cent(gain)
    assert (found.value, found.low, found.high) == (50.0, 25.0, 100.0)
    lost = PairedGain(-1.0, -2.0, -0.5, relative=-0.5, p_value=0.1, num_cases=9)
    found = gain_in_per_cent(lost)
    assert (found.value, found.low, found.high) == (-50.0, -100.0, -25.0)


def foretold(tmp_path, residuals, regime, groups=None):
    measured = measure_preflight(regime, residuals, 0 * residuals, groups, 0)
    store, cell = Store(tmp_path), Cell("covid", 1, "preflight")
    store.write(cell, measured, 0.0)
    return preflight_lines(store.rows([cell]), {"data": "ours"})


def test_a_departure_that_the_regime_decides_is_foretold(tmp_path):
    rng = torch.Generator().manual_seed(0)
    noise = 0.1 * torch.randn(60, 2, generator=rng)
    sign = torch.tensor([1.0, -1.0]).repeat(30)[:, None]
    lines = foretold(tmp_path, sign + noise, ["calm", "storm"] * 30)
    outlying, within, information, marginal, conditional, total = (
        line.raw.value for line in lines
    )
    assert outlying == 0.0
    assert lines[0].note.startswith("point")
    assert within < 5
    assert information == pytest.approx(math.log(2), abs=0.05)
    # The two shifts cancel. Where a fold holds more of one, the others' mean leans to the
    # other, which does a little harm.
    assert -10 < marginal < 1
    assert min(conditional, total) > 95


def test_too_few_observations_leave_lines_blank(tmp_path):
    residuals = torch.tensor([[1.0], [1.2], [9.0], [1.0], [1.1], [1.0]])
    lines = foretold(tmp_path, residuals, ["a", "a", "a", "b", "b", "b"])
    # One of six is 7.5 medians long.
    assert lines[0].raw.value == pytest.approx(100 / 6, rel=1e-4)
    assert lines[0].note.startswith("stochastic")
    assert all(math.isnan(line.raw.value) and line.raw.reason for line in lines[2:])
