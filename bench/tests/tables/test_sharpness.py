"""Tests for ma_sbi_bench.tables.sharpness."""

import math

import pytest

from bench.tests.engine.finishing import finish
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.tables.sharpness import (
    ESTIMATED,
    EXACT,
    LAWS,
    OTHERS,
    RHOS,
    Sharpness,
    figures,
    lines,
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    cells = Sharpness().cells(Budget(quick=True))
    assert [cell.method for cell in cells] == list(LAWS)
    # Two laws are enough here: one whose proxy is its variance, and another.
    some = [cell for cell in cells if cell.method in ("Rademacher", "asymmetric, 0.05")]
    return finish(Sharpness(), tmp_path_factory.mktemp("sharpness"), some)


@pytest.fixture(scope="module")
def tables(rows):
    tables = {}
    for line in lines(rows):
        tables.setdefault(line.table, {})[tuple(line.labels.values())] = line
    return tables


def test_a_law_has_variance_one(rows):
    variances = rows[rows["metric"] == "variance"]["value"]
    assert variances.tolist() == pytest.approx([1.0] * len(variances))


def test_no_exact_ratio_is_above_one_and_the_best_comes_near(tables):
    ratios = [line.raw.value for line in tables[EXACT].values()]
    assert max(ratios) <= 1
    assert tables[EXACT]["Rademacher", 0.01].raw.value == pytest.approx(1, abs=1e-3)
    assert tables[EXACT]["Rademacher", 0.1].raw.value == pytest.approx(0.995, abs=5e-4)


def test_the_ends_are_those_of_the_papers_range_of_rho(tables):
    inside = [
        line.raw.value
        for (_, rho), line in tables[EXACT].items()
        if isinstance(rho, float) and rho >= 0.3
    ]
    ends = [
        tables[EXACT][f"{end} of all", "0.3 to 0.99"] for end in ("smallest", "largest")
    ]
    assert [line.raw.value for line in ends] == [min(inside), max(inside)]
    assert [line.raw.paper for line in ends] == [0.33, 0.995]
    assert ends[1].verdict == "not reproduced"


def test_a_weak_coupling_leaves_no_estimate(tables):
    weak = tables[ESTIMATED]["Rademacher", 0.01].raw
    assert math.isnan(weak.value)
    assert "noise" in weak.reason
    strong = tables[ESTIMATED]["Rademacher", 0.99].raw
    assert strong.low < strong.value < strong.high


def test_the_variance_in_place_of_the_proxy_breaks_the_bound(tables):
    assert (
        tables[OTHERS]["asymmetric, 0.05", "variance for proxy, largest ratio"].raw.value
        > 2
    )
    rare = tables[OTHERS]["asymmetric, 0.05", "rare context that tilts the law"]
    assert rare.raw.value == pytest.approx(1, abs=1e-3)


def test_the_figure_has_a_curve_for_each_law(rows):
    figure = figures(rows)["sharpness"]
    curves = [line for line in figure.axes[0].lines if len(line.get_xdata()) == len(RHOS)]
    assert len(curves) == rows["method"].nunique()
