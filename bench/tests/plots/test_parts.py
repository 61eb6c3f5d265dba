"""Tests for ma_sbi_bench.plots.parts."""

from ma_sbi.metrics import PairedGain
from ma_sbi_bench.plots.parts import plot_parts
from ma_sbi_bench.real.experiment import Part


def test_there_is_a_panel_for_each_setting():
    part = Part("marginal", "NPE", "marginal-only", "point")
    gain = PairedGain(1.0, 0.5, 2.0, 0.1, 0.1, 9)
    figure = plot_parts({"one": {part: gain}, "two": {part: gain}}, unit="nats")
    assert [axis.get_title(loc="left") for axis in figure.axes] == ["one", "two"]
    assert figure.axes[0].patches[0].get_width() == 1.0
