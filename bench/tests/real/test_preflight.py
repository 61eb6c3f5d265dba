"""Tests for ma_sbi_bench.real.preflight."""

import math

import pytest
import torch

from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.real.preflight import measure_preflight, preflight_lines


def values(tmp_path, residuals, regime, groups=None):
    measured = measure_preflight(regime, residuals, 0 * residuals, groups, 0)
    store, cell = Store(tmp_path), Cell("covid", 1, "preflight", task="ours")
    store.write(cell, measured, 0.0)
    return preflight_lines(store.rows([cell]), "data", {"ours": "Ours"})


def test_a_departure_that_the_regime_decides_is_values(tmp_path):
    rng = torch.Generator().manual_seed(0)
    noise = 0.1 * torch.randn(60, 2, generator=rng)
    sign = torch.tensor([1.0, -1.0]).repeat(30)[:, None]
    lines = values(tmp_path, sign + noise, ["calm", "storm"] * 30)
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
    lines = values(tmp_path, residuals, ["a", "a", "a", "b", "b", "b"])
    # One of six is 7.5 medians long.
    assert lines[0].raw.value == pytest.approx(100 / 6, rel=1e-4)
    assert lines[0].note.startswith("stochastic")
    assert all(math.isnan(line.raw.value) and line.raw.reason for line in lines[2:])
