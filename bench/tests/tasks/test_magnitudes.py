"""SIR and DDM are as large as the paper's R^2 on the context says, as far as can be."""

from pathlib import Path

import pandas as pd
import pytest

from ma_sbi.diagnostics import held_out_r2
from ma_sbi.diagnostics.exclusion import held_out_r2_error
from ma_sbi_bench import tasks
from ma_sbi_bench.tasks import get_task

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "magnitudes.csv"
CHOSEN = {
    "sir_delay_million": ("SIR", tasks.EXPOSURE),
    "ddm_small_shifts": ("DDM", tasks.SHIFT_SCALE),
}
every_choice = pytest.mark.parametrize("name", CHOSEN)


def measured(name):
    """R^2 of observations by what was varied, and which value was chosen."""
    label, value = CHOSEN[name]
    rows = pd.read_csv(RESULTS)
    rows = rows[(rows["task"] == label) & (rows["variable"] == "obs")]
    return rows.set_index("value"), value


@every_choice
def test_the_magnitude_is_the_one_nearest_to_the_paper(name):
    rows, value = measured(name)
    assert (rows["r2"] - rows["paper"]).abs().idxmin() == value


@every_choice
def test_the_task_explains_as_much_as_was_measured(name):
    rows, value = measured(name)
    draws = get_task(name).draw(4000, seed=0)
    found = held_out_r2(draws.x_obs, draws.context, seed=0)
    error = held_out_r2_error(draws.x_obs, draws.context, seed=0)
    expected = rows.loc[value]
    assert found == pytest.approx(expected["r2"], abs=4 * (error + expected["error"]))


def test_plain_counts_explain_far_less_than_the_paper_whatever_is_counted():
    rows = pd.read_csv(RESULTS)
    plain = rows[rows["task"] == "SIR, plain counts"]
    assert len(plain) > 10
    assert (plain["r2"] < plain["paper"] / 3).all()
