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
    RARER_LAWS,
    RHOS,
    SCALED,
    Sharpness,
    figures,
    lines,
)
from ma_sbi_bench.theory import ModalDeparture


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    cells = Sharpness().cells(Budget(quick=True))
    assert [cell.method for cell in cells] == list(LAWS)
    # Two laws are enough here: one whose proxy is its variance, and another.
    cells += [one for one in Sharpness().cells(Budget()) if "scale" in one.settings]
    laws = ("Rademacher", "asymmetric, 0.05", *RARER_LAWS)
    some = [cell for cell in cells if cell.method in laws]
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
    assert [line.raw.paper for line in ends] == [None, None]


def test_the_ratio_depends_on_the_scale_of_the_departure(tables):
    found = {key: line.raw.value for key, line in tables[SCALED].items()}
    assert found[0.33, "Rademacher", 0.3] == pytest.approx(0.995, abs=5e-4)
    small, one, large = (
        found[0.1, "Rademacher", 0.3],
        tables[EXACT]["Rademacher", 0.3].raw.value,
        found[4.0, "Rademacher", 0.3],
    )
    assert small > 0.999
    assert small > one > large
    assert max(found.values()) <= 1


def test_a_scaled_departure_is_one_with_a_context_that_is_less_noisy(tables):
    """Twice the departure with rho is the departure with twice the odds of the signal."""
    for scale in (0.5, 2.0):
        odds = scale * 0.3 / math.sqrt(1 - 0.09)
        rho = odds / math.hypot(1, odds)
        expected = ModalDeparture([-1.0, 1.0]).couple(rho).ratio
        shown = tables[SCALED][scale, "Rademacher", 0.3].raw.value
        assert shown == pytest.approx(expected, rel=1e-5)


def test_the_papers_range_stands_beside_the_scale_that_its_largest_ratio_fixes(tables):
    beside = {
        key: line for key, line in tables[SCALED].items() if line.raw.paper is not None
    }
    ends = "0.3 to 0.99"
    assert set(beside) == {
        (0.33, "smallest of all", ends),
        (0.33, "largest of all", ends),
    }
    largest = beside[0.33, "largest of all", ends]
    assert largest.raw.paper == 0.995
    assert largest.raw.value == pytest.approx(0.995, abs=5e-4)
    # What fixes the scale cannot disagree, and nobody knows the paper's modes.
    assert {line.verdict for line in beside.values()} == {""}


def test_the_smallest_ratio_depends_on_how_rare_the_rarest_mode_is(tables):
    found = {key: line.raw for key, line in tables[SCALED].items() if key[0] == 0.33}
    ratios = [
        found[0.33, law, 0.3].value
        for law in ("Rademacher", "asymmetric, 0.05", "asymmetric, 0.02")
    ]
    assert ratios == sorted(ratios, reverse=True)
    smallest = found[0.33, "smallest of all", "0.3 to 0.99"]
    # That of the laws that all scales have; only the rarer one passes the paper's.
    assert ratios[2] < smallest.paper < smallest.value == ratios[1]


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
    assert len(curves) == len(set(rows["method"]) & set(LAWS))
