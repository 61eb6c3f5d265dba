"""What is drawn of observations are their numbers."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from ma_sbi import CategoryEncoder, ShiftCorrector
from ma_sbi.plots import plot_departures, plot_observations
from tests.plots.worlds import world


def lines(ax):
    return {line.get_label(): line for line in ax.lines}


def segments(ax, label):
    (found,) = [one for one in ax.collections if one.get_label() == label]
    return np.array(found.get_segments())


def tick_labels(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def test_a_context_has_its_mean_the_interval_of_student_and_nine_tenths_of_rows():
    data = world()
    axes = plot_departures(data.x_obs, data.context, data.x_sim)
    departure = (data.x_obs - data.x_sim).double().numpy()
    assert tick_labels(axes[0]) == ["warm (n = 30)", "cool (n = 30)"]
    for column, ax in enumerate(axes):
        for place in (0, 1):
            values = departure[place::2, column]
            mean = values.mean()
            interval = stats.t.interval(0.95, 29, mean, stats.sem(values))
            spread = np.quantile(values, [0.05, 0.95])
            assert lines(ax)["mean"].get_xdata()[place] == pytest.approx(mean)
            drawn = segments(ax, "its 95 % interval")[place]
            assert drawn[:, 0] == pytest.approx(interval)
            assert drawn[:, 1] == pytest.approx(place)
            drawn = segments(ax, "nine tenths of rows")[place]
            assert drawn[:, 0] == pytest.approx(spread)


def test_a_diamond_is_what_the_corrector_takes_off():
    data = world()
    corrector = ShiftCorrector(CategoryEncoder()).fit(data.context, data.x_obs, data.x_sim)
    axes = plot_departures(data.x_obs, data.context, data.x_sim, corrector=corrector)
    shift = corrector.shift(["warm", "cool"])
    for column, ax in enumerate(axes):
        taken = lines(ax)["taken off by the corrector"].get_xdata()
        assert np.array(taken) == pytest.approx(shift[:, column].numpy(), abs=1e-5)


def test_rare_contexts_are_summed_up_in_one_entry():
    x_sim = np.zeros((400, 1))
    context = ["often"] * 74 + [f"once {row}" for row in range(326)]
    x_obs = np.arange(400.0)[:, None]
    (ax,) = plot_departures(x_obs, context, x_sim, most=1)
    assert tick_labels(ax) == ["often (n = 74)", "326 other contexts (n = 326)"]
    assert lines(ax)["mean"].get_xdata().tolist() == [
        x_obs[:74].mean(),
        x_obs[74:].mean(),
    ]


def test_numbers_are_the_horizontal_axis_with_means_of_near_rows():
    hours = torch.linspace(0, 10, 80).double()
    x_sim = torch.zeros(80, 1)
    (ax,) = plot_departures(hours[:, None] ** 2, hours, x_sim)
    rows = lines(ax)["rows"]
    assert rows.get_xdata() == pytest.approx(hours.numpy())
    assert rows.get_ydata() == pytest.approx(hours.numpy() ** 2)
    means = ax.containers[0].lines[0]
    parts = np.array_split(hours.numpy(), 10)
    assert means.get_xdata() == pytest.approx([part.mean() for part in parts])
    assert means.get_ydata() == pytest.approx([(part**2).mean() for part in parts])


def test_rows_without_a_number_are_drawn_left_of_all_others():
    numbers = [None if row < 6 else float(row) for row in range(60)]
    x_obs = np.where(np.arange(60) < 6, 5.0, 0.0)[:, None]
    (ax,) = plot_departures(x_obs, numbers, np.zeros((60, 1)))
    missing = ax.containers[-1]
    assert missing.get_label() == "without a number (6)"
    assert missing.lines[0].get_ydata() == pytest.approx(5.0)
    assert missing.lines[0].get_xdata() < 6.0


def test_several_simulations_of_each_row_are_averaged():
    x_sim = np.random.default_rng(0).normal(size=(20, 7, 2))
    axes = plot_departures(np.zeros((20, 2)), ["a"] * 20, x_sim)
    drawn = [lines(ax)["mean"].get_xdata()[0] for ax in axes]
    assert drawn == pytest.approx(-x_sim.mean(axis=(0, 1)))


def test_columns_are_chosen_and_named_as_those_of_the_table():
    data = world(dim=3)
    table = pd.DataFrame(data.x_obs.numpy(), columns=["flow", "cost in $", "level"])
    axes = plot_departures(table, data.context, data.x_sim, columns=[2, 0])
    assert [ax.get_title() for ax in axes] == ["level", "flow"]
    (ax,) = plot_departures(table, data.context, data.x_sim, columns=1)
    ax.figure.draw_without_rendering()  # a lonely dollar sign is no formula


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": 2}, r"columns must be positions from 0 to 1, got 2"),
        ({"columns": []}, r"columns must be positions"),
        ({"names": ["one"]}, r"names must be 2 texts"),
        ({"names": "ab"}, r"names must be 2 texts"),
        ({"most": 0}, r"most must be a positive integer"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    data = world()
    with pytest.raises(ValueError, match=message):
        plot_departures(data.x_obs, data.context, data.x_sim, **options)


def test_as_many_axes_as_columns_are_needed():
    from matplotlib.figure import Figure

    data = world()
    with pytest.raises(ValueError, match="each of the 2 columns, got 1"):
        plot_departures(data.x_obs, data.context, data.x_sim, ax=Figure().subplots())


def test_spans_of_time_are_days_and_no_dates():
    spans = pd.Series(pd.to_timedelta(np.arange(60), unit="h"))
    x = np.random.default_rng(0).normal(size=(60, 1))
    (ax,) = plot_departures(x + 1, spans, x)
    ax.figure.draw_without_rendering()
    assert ax.get_xlabel() == "context (days)"
    # 59 hours are 2.5 days.
    assert float(ax.get_xticklabels()[-1].get_text()) < 4


def test_observations_are_drawn_as_they_are_and_as_one_of_their_candidates():
    data = world()
    ax = plot_observations(data.x_obs, data.context, data.x_sim, data.corrector)
    drawn = lines(ax)
    np.testing.assert_allclose(drawn["simulations"].get_xydata(), data.x_sim, rtol=1e-6)
    before = drawn["x_obs before"].get_xydata()
    np.testing.assert_allclose(before, data.x_obs, rtol=1e-6)
    moved = before - drawn["x_obs after"].get_xydata()
    # Under "warm" a candidate is 1 less, or the same, in all columns; never their mean.
    np.testing.assert_allclose(moved[:, 0], moved[:, 1], atol=1e-5)
    assert set(moved[1::2, 0].round(4)) == {0.0}
    assert set(moved[::2, 0].round(4)) == {0.0, 1.0}


def test_the_columns_that_change_most_are_shown():
    data = world(dim=4)

    class Third:
        def corrections(self, x, context):
            from ma_sbi.protocols import Corrections

            return Corrections.certain(x + torch.tensor([0.0, 0.1, 0.0, 5.0]))

    ax = plot_observations(data.x_obs, data.context, data.x_sim, Third())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x[1]", "x[3]")


def test_one_column_is_drawn_as_densities():
    data = world(num=200)
    ax = plot_observations(data.x_obs, data.context, data.x_sim, data.corrector, columns=1)
    bars = ax.containers[0] if ax.containers else ax.patches
    total = sum(bar.get_width() * bar.get_height() for bar in bars)
    assert total == pytest.approx(1.0)
    assert ax.get_xlabel() == "x[1]"


def test_what_is_not_shown_is_counted_in_the_legend():
    data = world(num=700)
    ax = plot_observations(data.x_obs, data.context, data.x_sim, data.corrector)
    drawn = lines(ax)
    assert len(drawn["x_obs before (1 of 3)"].get_xdata()) == 234


def test_three_columns_are_refused():
    data = world(dim=3)
    with pytest.raises(ValueError, match="one column or two"):
        plot_observations(
            data.x_obs, data.context, data.x_sim, data.corrector, columns=[0, 1, 2]
        )
