"""The curves of coverage are the figures of ma_sbi.diagnostics.coverage."""

import numpy as np
import pytest

from ma_sbi.diagnostics import coverage
from ma_sbi.diagnostics.coverage import LEVELS
from ma_sbi.plots import plot_coverage
from ma_sbi.randomness import derive
from tests.plots.worlds import world


@pytest.mark.parametrize("with_density", [True, False])
def test_the_curves_are_those_of_the_diagnostic(with_density):
    data = world(num=100)
    options = {"num_samples": 50, "with_density": with_density}
    ax = plot_coverage(
        data.corrected,
        data.theta,
        data.x_obs,
        data.context,
        x_sim=data.x_sim,
        seed=3,
        **options,
    )
    options |= {"levels": LEVELS, "seed": derive(3, "coverage")}
    base = data.corrected.posterior
    expected = {
        "at x_sim": coverage(base, data.theta, data.x_sim, **options),
        "before correction": coverage(base, data.theta, data.x_obs, **options),
        "after correction": coverage(
            data.corrected, data.theta, data.x_obs, data.context, **options
        ),
    }
    drawn = {line.get_label(): line for line in ax.lines if line.get_marker() != "None"}
    assert list(drawn) == list(expected)
    for name, found in expected.items():
        level, share, *_ = np.array(found.expected).T
        assert drawn[name].get_xdata() == pytest.approx(level)
        assert drawn[name].get_ydata() == pytest.approx(share)
    assert len({line.get_marker() for line in drawn.values()}) == 3


def test_other_posteriors_are_refused():
    data = world()
    with pytest.raises(ValueError, match="must be a CorrectedPosterior"):
        plot_coverage(data.corrector, data.theta, data.x_obs, data.context)
