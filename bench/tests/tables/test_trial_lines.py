"""Lines of trials: shares, intervals and labels from rows that are made by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.store import COLUMNS
from ma_sbi_bench.paper.printed import Printed
from ma_sbi_bench.tables.methods_compared import (
    DECOMPOSITION,
    HIDE_CALIBRATION,
    MAIN_RESULTS,
)
from ma_sbi_bench.tables.sweeps import CALIBRATION_SIZE, ROPE_SWEEPS
from ma_sbi_bench.tables.trial_lines import (
    PaperLine,
    in_paper,
    labelled,
    per_observation,
    view_lines,
)
from ma_sbi_bench.trials.table import View

VIEW = View("t")


def row(method, values, *, seed=0, metric="c2st", observations=3, **known):
    values = np.asarray(values, dtype=float)
    filled = dict.fromkeys(COLUMNS) | {
        "method": method,
        "task": "slcp",
        "backbone": "maf",
        "seed": seed,
        "metric": metric,
        "values": values,
        "value": values.mean(),
        "settings": {"observations": observations},
        "key": f"{method}-{seed}-{sorted(known.items())}",
    }
    return filled | known


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    made = []
    for seed in range(4):
        noise = 0.002 * rng.standard_normal(12)
        made += [
            row("npe", 0.8 + noise, seed=seed),
            row("half", 0.75 + noise, seed=seed),
            row("oracle", 0.7 + noise, seed=seed),
            row("half", -3.0 + noise, seed=seed, metric="log_score"),
        ]
    return pd.DataFrame(made)


def test_a_trial_of_all_cases_is_compared_on_those_that_others_have():
    all_cases = row("npe", np.arange(12))  # three observations in four regimes
    np.testing.assert_array_equal(per_observation(pd.Series(all_cases)), [0, 5, 10])
    some = row("npe", [0, 5, 10], settings={"observations": 3, "cases": "some"})
    np.testing.assert_array_equal(per_observation(pd.Series(some)), [0, 5, 10])


def test_a_single_observation_has_a_single_value():
    found = per_observation(pd.Series(row("npe", [1, 3, 5, 7], observation=0)))
    np.testing.assert_allclose(found, [4])


def test_a_share_is_computed_between_the_ends(rows):
    lines = {line.labels["method"]: line for line in view_lines(rows, VIEW)}
    assert lines["half"].closed.value == pytest.approx(50)
    assert lines["half"].closed.low == pytest.approx(50)  # the noise is shared
    assert lines["npe"].closed is None
    assert lines["oracle"].closed is None
    assert lines["half"].raw.low < 0.75 < lines["half"].raw.high
    assert lines["half"].log_score.value == pytest.approx(-3, abs=0.01)
    assert lines["npe"].log_score is None
    assert lines["half"].labels["task"] == "SLCP"


def test_the_paper_stands_beside_ours_with_what_it_implies(rows):
    paper = PaperLine(Printed(0.76, 3), Printed(50.0, 0), npe=0.8, oracle=0.7)
    [line] = [
        line
        for line in view_lines(rows, VIEW, paper=lambda row: paper)
        if line.labels["method"] == "half"
    ]
    assert line.closed.paper == 50.0
    assert line.closed.implied == pytest.approx(40.0)
    assert line.verdict == "reproduced"


def test_ends_are_shared_by_groups_that_do_not_have_their_own(rows):
    rows = rows.assign(n_cal=np.where(rows["method"] == "half", 100, 500))
    lines = view_lines(rows, View("t", by=["n_cal"]))
    [half] = [line for line in lines if line.labels["method"] == "half"]
    assert half.labels["n_cal"] == 100
    assert half.closed.value == pytest.approx(50)


def test_without_the_ends_there_is_no_share(rows):
    lines = view_lines(rows[rows["method"] != "oracle"], VIEW)
    assert all(line.closed is None for line in lines)


def test_a_method_that_lacks_a_seed_is_compared_on_the_others(rows):
    part = rows[~((rows["method"] == "half") & (rows["seed"] == 3))]
    [half] = [line for line in view_lines(part, VIEW) if line.labels["method"] == "half"]
    assert half.closed.value == pytest.approx(50)


def test_where_there_is_no_gap_the_share_is_blank_and_says_why():
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        [row(m, 0.7 + 0.05 * rng.standard_normal(12)) for m in ("npe", "x", "oracle")]
    )
    [line] = [line for line in view_lines(rows, VIEW) if line.labels["method"] == "x"]
    assert np.isnan(line.closed.value)
    assert "gap" in line.closed.reason
    assert line.verdict == ""


def test_lines_keep_the_order_of_groups_and_methods(rows):
    order = ("oracle", "half", "npe")
    found = [line.labels["method"] for line in view_lines(rows, VIEW, order=order)]
    assert found == ["npe - oracle", *order]


def test_the_gap_itself_is_compared_with_the_papers(rows):
    paper = PaperLine(npe=0.8, oracle=0.7)
    gap = view_lines(rows, VIEW, paper=lambda row: paper)[0]
    assert gap.raw.value == pytest.approx(0.1)
    assert gap.raw.paper == pytest.approx(0.1)
    assert gap.verdict == "reproduced"


def judged_of(half, *, method, raw, npe=0.78, oracle=0.74):
    """Judge C2ST with an interval of some half-width, which holds the paper's figure."""
    levels = {"npe": npe, "oracle": oracle, method: raw}
    spread = half * np.sqrt(48) / stats.t.ppf(0.975, 47)
    noise = spread * np.resize([-1.0, 1.0], 48) * np.sqrt(47 / 48)
    made = [
        row(name, level + noise, settings={"observations": 48, "cases": "some"})
        for name, level in levels.items()
    ]
    paper = PaperLine(Printed(raw, 3), npe=npe, oracle=oracle)
    lines = view_lines(pd.DataFrame(made), VIEW, paper=lambda row: paper)
    (line,) = [line for line in lines if line.labels["method"] == method]
    assert line.raw.half == pytest.approx(half)
    return line


@pytest.mark.parametrize(
    ("half", "verdict"), [(0.019, "reproduced"), (0.021, "too noisy"), (0.081, "too noisy")]
)
def test_c2st_is_judged_relative_to_the_gap_that_it_is_about(half, verdict):
    for method in ("npe", "oracle", "rival"):
        assert judged_of(half, method=method, raw=0.76).raw.verdict == verdict


def test_c2st_far_from_npe_is_judged_relative_to_that():
    assert judged_of(0.05, method="rival", raw=0.90).raw.verdict == "reproduced"
    assert judged_of(0.07, method="rival", raw=0.90).raw.verdict == "too noisy"
    # NPE itself is not far from itself, wherever it is.
    assert judged_of(0.05, method="npe", raw=0.90).raw.verdict == "too noisy"


def test_what_would_settle_it_follows_from_the_half_width():
    line = judged_of(0.04, method="rival", raw=0.76)
    assert (line.raw.needed, line.raw.unit) == (4 * 48, "observations")


def test_without_the_two_ends_a_metric_has_no_verdict():
    made = pd.DataFrame([row("rival", 0.7 + 0.01 * np.arange(12))])
    (line,) = view_lines(made, VIEW, paper=lambda row: PaperLine(Printed(0.7, 3)))
    assert line.verdict == ""


def test_an_infinite_value_leaves_the_papers_share_in_its_place():
    made = [
        row(m, v) for m, v in (("npe", [1, 2]), ("bad", [np.inf, 1]), ("oracle", [0, 1]))
    ]
    for one in made:
        one["settings"] = {"observations": 2, "cases": "some"}
    lines = view_lines(
        pd.DataFrame(made), VIEW, paper=lambda row: PaperLine(closed=Printed(7, 0))
    )
    (share,) = [line.closed for line in lines if line.labels["method"] == "bad"]
    assert np.isnan(share.value)
    assert share.paper == 7
    assert share.reason == "a value is infinite"


def printed_for(table, method, view=0, **known):
    known = {"backbone": "ddpm"} | known
    return in_paper(table, table.views[view], pd.Series(row(method, [0.0], **known)))


def test_the_paper_is_found_by_task_backbone_and_method():
    figure = ("main_results", "slcp", "ddpm", "", "rope_emd_aligned")
    ends = {"npe": 0.784, "oracle": 0.742}
    assert printed_for(MAIN_RESULTS, "rope_emd_aligned") == PaperLine(
        Printed(0.772, 3), Printed(28, 0), **ends, figure=figure
    )
    # One figure has one verdict: nothing stands beside the other reading of that row.
    fresh = printed_for(MAIN_RESULTS, "rope_emd")
    assert (fresh.raw, fresh.closed, fresh.half) == (None, None, None)
    assert (fresh.npe, fresh.oracle) == (0.784, 0.742)
    npe = printed_for(MAIN_RESULTS, "npe")
    assert (npe.raw, npe.closed) == (Printed(0.784, 3), None)
    on_flow = printed_for(MAIN_RESULTS, "rope_emd_aligned", backbone="maf")
    assert (on_flow.raw, on_flow.closed, on_flow.npe, on_flow.oracle) == (None,) * 4


def shared_cell(task, method):
    """Give the key of a trial that the main table has, too."""
    (cell,) = [
        one
        for one in MAIN_RESULTS.cells(Budget())
        if (one.task, one.backbone, one.method) == (task, "ddpm", method)
    ]
    return {"task": task, "key": cell.key}


def test_a_figure_that_two_tables_print_alike_is_that_of_the_main_one():
    ours = shared_cell("slcp", "ma_sbi_paper")
    main = printed_for(MAIN_RESULTS, "ma_sbi_paper", **ours)
    # 0.745 in both; only the main table prints 93 %, which is judged in both.
    assert printed_for(CALIBRATION_SIZE, "ma_sbi_paper", n_cal=500, **ours) == main
    # 93 % in both; only the main table prints 0.745.
    at = {"context": "informative"}
    assert printed_for(DECOMPOSITION, "ma_sbi_paper", **at, **ours) == main


def test_a_figure_that_is_rounded_elsewhere_says_so():
    found = printed_for(
        CALIBRATION_SIZE,
        "ma_sbi_paper",
        n_cal=500,
        metric="mse",
        **shared_cell("ddm_small_shifts", "ma_sbi_paper"),
    )
    assert (found.closed, found.note) == (Printed(101, 0), "printed as 100.6 here")
    # The metrics differ: each stays where it is printed.
    assert found.raw == Printed(0.0190, 4)


def test_figures_that_contradict_each_other_are_two():
    ours = shared_cell("gaussian_linear", "ma_sbi_paper")
    found = printed_for(CALIBRATION_SIZE, "ma_sbi_paper", n_cal=500, **ours)
    assert found.closed == Printed(99.0, 1)
    assert found.figure[0] == "calibration_size"
    # Another trial is another figure, though it is printed alike.
    other = printed_for(CALIBRATION_SIZE, "ma_sbi_paper", n_cal=500, task="slcp")
    assert other.figure[0] == "calibration_size"


def test_the_papers_deviation_over_seeds_is_its_noise():
    found = printed_for(HIDE_CALIBRATION, "npe")
    # t of ten seeds times 0.012 over the root of ten.
    assert found.half == pytest.approx(stats.t.ppf(0.975, 9) * 0.012 / 10**0.5, rel=1e-3)


def test_the_paper_is_found_at_a_point_of_a_sweep():
    found = printed_for(CALIBRATION_SIZE, "rope_emd_aligned", n_cal=100)
    assert (found.raw, found.closed) == (Printed(0.777, 3), None)
    assert (found.npe, found.oracle) == (0.786, 0.741)
    at = [
        printed_for(
            ROPE_SWEEPS, "rope_paper", view, backbone="maf", **{column: 200.0}
        ).raw.value
        for view, column in enumerate(("N_s", "N_o"))
    ]
    assert at == [0.919, 0.863]
    assert printed_for(ROPE_SWEEPS, "npe", N_s=np.nan) == PaperLine()


def test_ends_that_vary_in_the_paper_alone_are_not_compared():
    found = printed_for(CALIBRATION_SIZE, "npe", n_cal=500)
    assert (found.raw, found.npe, found.oracle) == (None, 0.784, 0.742)


def test_more_of_a_part_is_not_better():
    better = {
        method: printed_for(DECOMPOSITION, method, context="informative").better
        for method in ("ma_sbi_paper_marginal", "ma_sbi_paper_conditional", "ma_sbi_paper")
    }
    assert list(better.values()) == ["", "", "higher"]
    # With filler for text the whole is the mean shift.
    assert printed_for(DECOMPOSITION, "ma_sbi_paper", context="uninformative").better == ""


def test_the_paper_has_one_value_on_sbibms_observations():
    published = row("npe", np.arange(12.0), settings={"observations": 3, "published": True})
    np.testing.assert_array_equal(per_observation(pd.Series(published)), [5.5])


def test_columns_follow_from_settings():
    made = [
        row("rope_paper", [0.0], settings={"options": {}}),
        row("rope_paper", [0.0], settings={"options": {"num_simulations": 200}}),
        row("rope_paper", [0.0], settings={"options": {}, "unlabelled": 38}),
        row("rope", [0.0], settings={"options": {}}),
        row("rope", [0.0], settings={"options": {"gamma": 0.1, "tau": 0.9}}),
    ]
    found = labelled(pd.DataFrame(made), ["N_s", "N_o", "gamma", "tau", "method"])
    columns = {name: found[name].tolist() for name in ("N_s", "N_o", "gamma", "tau")}
    nan = float("nan")
    expected = {
        "N_s": [2000, 200, nan, nan, nan],
        "N_o": [12, nan, 50, nan, nan],
        "gamma": [nan, nan, nan, 0.5, 0.1],
        "tau": [nan, nan, nan, nan, 0.9],
    }
    for name, values in expected.items():
        np.testing.assert_array_equal(columns[name], values)
