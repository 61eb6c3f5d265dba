"""Tests for ma_sbi_bench.plots.gains."""

import pytest

from ma_sbi.metrics import PairedGain, paired_gain
from ma_sbi_bench.plots.gains import plot_gains, plot_parts
from ma_sbi_bench.real.experiment import Part

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


def test_there_is_a_panel_for_each_setting():
    part = Part("marginal", "NPE", "marginal-only", "point")
    gain = PairedGain(1.0, 0.5, 2.0, 0.1, 0.1, 9)
    figure = plot_parts({"one": {part: gain}, "two": {part: gain}}, unit="nats")
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["one", "two"]
    assert figure.axes[0].patches[0].get_width() == 1.0
