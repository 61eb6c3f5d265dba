"""Every plot: returns axes that draw, on those of the caller if it takes some."""

import warnings

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ma_sbi import plots
from tests.plots.worlds import WHY, world

PLOTS = {
    "plot_departures": lambda w, **o: plots.plot_departures(
        w.x_obs, w.context, w.x_sim, corrector=w.corrector, **o
    ),
    "plot_observations": lambda w, **o: plots.plot_observations(
        w.x_obs, w.context, w.x_sim, w.corrector, **o
    ),
    "plot_candidates": lambda w, **o: plots.plot_candidates(
        w.corrector, w.x_obs[:1], w.context[0], **o
    ),
    "plot_tried": lambda w, **o: plots.plot_tried(WHY, **o),
    "plot_coverage": lambda w, **o: plots.plot_coverage(
        w.corrected, w.theta, w.x_obs, w.context, num_samples=20, **o
    ),
    "plot_before_after": lambda w, **o: plots.plot_before_after(
        w.corrected, w.x_obs[0], w.context[0], num_samples=50, **o
    ),
    "plot_corner": lambda w, **o: plots.plot_corner({"theta": w.theta}, **o),
}
# Those that need as many axes as there are pairs of parameters.
MANY = {"plot_before_after", "plot_corner"}


def draw(axes):
    """Render, as saving does, and return the axes as a list."""
    found = [one for one in np.ravel(np.asarray(axes, dtype=object)) if one is not None]
    found[0].figure.draw_without_rendering()
    return found


def test_every_plot_is_listed_here():
    assert set(PLOTS) == set(plots.__all__)


@pytest.mark.parametrize("name", PLOTS)
@pytest.mark.parametrize("dim", [1, 2, 5])
def test_it_returns_axes_with_labels_and_leaves_pyplot_and_the_settings_alone(name, dim):
    before = dict(mpl.rcParams)
    open_before = mpl._pylab_helpers.Gcf.get_all_fig_managers()
    state = torch.random.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axes = draw(PLOTS[name](world(dim=dim)))
    assert all(isinstance(one, Axes) for one in axes)
    figure = axes[0].figure
    labels = [one.get_xlabel() for one in axes] + [figure.get_supxlabel()]
    assert any(labels)
    assert dict(mpl.rcParams) == before
    assert mpl._pylab_helpers.Gcf.get_all_fig_managers() == open_before
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("name", sorted(set(PLOTS) - MANY))
def test_it_draws_on_the_axes_of_the_caller(name):
    figure = Figure()
    ours, other = figure.subplots(1, 2)
    drawn = PLOTS[name](world(dim=1), ax=ours)
    assert np.ravel(np.asarray(drawn, dtype=object)).tolist() == [ours]
    assert ours.has_data()
    assert not other.has_data()


@pytest.mark.parametrize("name", sorted(set(PLOTS) - MANY))
def test_what_is_no_axes_is_refused(name):
    with pytest.raises(ValueError, match=r"ax must be matplotlib axes.*got a Figure"):
        PLOTS[name](world(dim=1), ax=Figure())


@pytest.mark.parametrize("name", ["plot_departures", "plot_observations"])
def test_one_row_is_enough(name):
    draw(PLOTS[name](world(num=1)))


CONTEXTS = {
    "texts": ["warm", "cool"] * 30,
    "long and odd texts": ["$x^{ " + "word " * 50, "\x1b[31m 100 % \\frac"] * 30,
    "326 of them": [f"run {row}" for row in range(60)],
    "one": "warm",
    "numbers": [0.1 * row for row in range(60)],
    "codes": [1, 2, 3] * 20,
    "some missing": ["warm", None, "", float("nan")] * 15,
    "some numbers missing": [0.1 * row if row % 3 else None for row in range(60)],
    "all missing": [None] * 60,
    "dates": pd.date_range("2024-01-01", periods=60),
    "a table": pd.DataFrame({"day": ["dry", "wet"] * 30, "dose": [1.0, None, 2.0] * 20}),
}


@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
def test_departures_are_drawn_under_any_context(context):
    data = world()
    # A font of matplotlib's own has all letters of these contexts.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(plots.plot_departures(data.x_obs, context, data.x_sim))


def test_twenty_columns_have_twenty_panels():
    data = world(num=30, dim=20)
    axes = draw(plots.plot_departures(data.x_obs, data.context, data.x_sim))
    assert [one.get_title() for one in axes] == [f"x[{column}]" for column in range(20)]
    assert len(axes[0].figure.axes) == 20
