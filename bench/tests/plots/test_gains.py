"""Tests for ma_sbi_bench.plots.gains."""

import pytest

from ma_sbi.metrics import paired_gain
from ma_sbi_bench.plots.gains import plot_gains

GAINS = {
    (scope, method): paired_gain([1.0, 2.0, 3.0], [0.5, 1.0 - shift, 2.0])
    for shift, scope in enumerate(("all", "GBR"))
    for method in ("point", "stochastic")
}


def test_every_scope_has_a_row_and_every_method_a_colour():
    (ax,) = plot_gains(GAINS, ["stochastic", "point"], over="NPE").axes
    assert [label.get_text() for label in ax.get_yticklabels()] == ["all", "GBR"]
    assert ax.get_legend_handles_labels()[1] == ["stochastic", "point"]
    points = ax.containers[0].lines[0].get_xdata()
    assert points.tolist() == pytest.approx(
        [GAINS["all", "stochastic"].gain, GAINS["GBR", "stochastic"].gain]
    )


def test_a_method_without_a_gain_is_named():
    with pytest.raises(ValueError, match="among point, stochastic, got magic"):
        plot_gains(GAINS, ["magic"], over="NPE")
