"""Laws that every description of trials keeps."""

import pickle
import subprocess
import sys
from importlib.resources import files

import numpy as np
import pytest

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Measurement
from ma_sbi_bench.engine.store import COLUMNS, Store
from ma_sbi_bench.paper import printed as paper_printed
from ma_sbi_bench.paper.printed import printed, read_printed
from ma_sbi_bench.paper.words import captions
from ma_sbi_bench.report.tables import make_tables
from ma_sbi_bench.tables import special_lines, trial_lines
from ma_sbi_bench.tables.presentation import PRESENTATIONS
from ma_sbi_bench.tables.registry import EXPERIMENTS
from ma_sbi_bench.tables.trial_figures import FIGURES
from ma_sbi_bench.tasks import get_task
from ma_sbi_bench.trials import table as trial_table
from ma_sbi_bench.trials.cells import CONTINUOUS, EXACT_MEAN
from ma_sbi_bench.trials.run import FORMS
from ma_sbi_bench.trials.table import EXTRA_ROWS, TrialTable

TABLES = [one for one in EXPERIMENTS.values() if isinstance(one, TrialTable)]
BUDGETS = {
    "full": Budget(),
    "quick": Budget(quick=True),
    "three seeds": Budget(seeds=3),
}
# What the paper prints and no line shows, by metric.
NOT_SHOWN = {
    "margin": "it is the limit of our test of equivalence",
    "threshold": "it is the limit of a claim",
}
every = pytest.mark.parametrize("table", TABLES, ids=lambda one: one.name)
budgets = pytest.mark.parametrize("budget", BUDGETS.values(), ids=list(BUDGETS))


@every
@budgets
def test_every_cell_has_a_method_that_takes_its_options(table, budget):
    made = set()
    for cell in table.cells(budget):
        form = cell.settings.get("form", cell.method)
        options = cell.settings.get("options", {})
        if form == "exact" or cell.backbone == EXACT_MEAN or (form, str(options)) in made:
            continue
        made.add((form, str(options)))
        assert FORMS[form](**options).needs is not None


@every
@budgets
def test_keys_are_unique(table, budget):
    keys = [cell.key for cell in table.cells(budget)]
    assert len(set(keys)) == len(keys)


@every
@budgets
def test_what_a_cell_costs_does_not_decide_what_it_measures(table, budget, monkeypatch):
    before = table.cells(budget)
    costs = [table.cost(cell) for cell in before]
    dearer = {form: 1e6 + number for number, form in enumerate(FORMS)}
    monkeypatch.setattr(trial_table, "SECONDS", dearer)
    after = table.cells(budget)
    assert [cell.key for cell in after] == [cell.key for cell in before]
    if table.name != "continuous_context":  # its cells name no form
        assert costs != [table.cost(cell) for cell in after]


@every
def test_a_description_survives_the_way_to_another_process(table):
    copy = pickle.loads(pickle.dumps(table))  # noqa: S301 (as the engine does)
    keys = [cell.key for cell in table.cells(Budget())]
    assert [cell.key for cell in copy.cells(Budget())] == keys


@every
def test_every_label_is_a_column_a_rule_or_an_option(table):
    options = {
        name for c in table.cells(Budget()) for name in c.settings.get("options", ())
    }
    known = {*COLUMNS, *trial_lines.LABEL_RULES, *options}
    for view in table.views:
        assert {*view.by, *view.ends} <= known
        assert view.axis in ("", *view.by)
    if table.curves is not None:
        assert {*table.curves.over} <= known


@every
def test_only_methods_that_are_tried_are_ordered_drawn_or_shown(table):
    tried = {cell.method for cell in table.cells(Budget())}
    named = {*table.order, *table.neutral}
    if table.curves is not None:
        named |= {*table.curves.methods, *table.curves.levels}
    for view in table.views:
        named |= {*view.swept}
    assert named <= tried


@every
def test_a_method_whose_seeds_are_not_repeated_is_tried_in_its_block(table):
    for block in table.grid:
        methods = {method for point in block.points for method in point.methods}
        left_out = {one for some in block.not_quick.values() for one in some}
        assert {*block.once} | left_out <= methods


@every
def test_a_figure_has_a_caption_and_a_caption_a_figure(table):
    ways = [table.name in FIGURES, table.curves is not None]
    assert len(captions(table.name)) == sum(ways) <= 1


@every
def test_tables_of_methods_have_the_four_extra_rows(table):
    if table.name == "posteriors":
        pytest.skip("one observation, of which the exact posterior is drawn")
    assert {cell.method for cell in table.cells(Budget())} >= {*EXTRA_ROWS}


@every
def test_an_exact_answer_is_asked_only_of_tasks_that_have_one(table):
    asked = {c.task for c in table.cells(Budget()) if c.method == "exact"}
    assert all(get_task(task).has_evidence for task in asked)


def test_every_regime_is_left_out_once():
    table = EXPERIMENTS["unseen_regimes"]
    for task in {cell.task for cell in table.cells(Budget())}:
        found = {cell.regime for cell in table.cells(Budget()) if cell.task == task}
        assert found == set(range(len(get_task(task).regimes)))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return rows of a table, whatever the numbers are: as many as a trial has cases."""
    rng, store = np.random.default_rng(0), Store(tmp_path_factory.mktemp("made_up"))

    def rows(table):
        for cell in table.cells(Budget()):
            if cell not in store:
                store.write(cell, list(made_up(cell, rng)), 1.0)
        return store.rows(table.cells(Budget()))

    return rows


def made_up(cell, rng):
    if cell.backbone == EXACT_MEAN:
        yield Measurement("closed", (0.5,))
        return
    level = {"npe": 0.9, "oracle": 0.6}.get(cell.method, 0.7)
    values = tuple(level + 0.01 * rng.random(num_cases(cell)))
    yield Measurement("mse" if "rows" in cell.settings else "c2st", values)
    if "keep_draws" in cell.settings:
        yield Measurement("draws", tuple(rng.random(800)))
    if cell.task == CONTINUOUS and cell.method.startswith("ma_sbi"):
        yield Measurement("shift_error", tuple(rng.random(19)))
        yield Measurement("shift_error_of_set", (1.0, 2.0))


def num_cases(cell):
    settings = cell.settings
    some = "cases" in settings
    if "rows" in settings:
        return settings["rows"] // (2 if some else 1)
    each = settings.get("intensities", 4)  # or regimes
    if cell.observation is not None:
        return each
    return settings["observations"] * (1 if some or cell.regime is not None else each)


@pytest.mark.slow
@every
def test_every_trial_has_a_line_and_every_share_its_ends(table, finished):
    rows, shown = finished(table), PRESENTATIONS[table.name]
    lines = shown.lines(rows)
    entries = [one for made in make_tables(lines) for row in made.rows for one in row]
    assert not [one for one in entries if one.text in ("nan", "<NA>")]
    named = {line.labels["method"] for line in lines if "method" in line.labels}
    assert named - {"npe - oracle"} == {cell.method for cell in table.cells(Budget())}
    if table.name not in ("posteriors", "well_specified"):  # without an oracle, or a gap
        shares = [
            line.closed
            for line in lines
            if line.labels.get("method") == "ma_sbi_marginal" and line.raw is not None
        ]
        measured = [one for one in shares if one is not None]
        assert measured
        assert all(60 < one.value < 73 for one in measured)


@every
def test_a_line_has_one_cell_for_each_seed(table, finished):
    rows = finished(table)
    rows = rows[rows["metric"].isin(trial_lines.METRICS)]
    for view in table.views:
        shown = trial_lines.shown_in(view, rows)
        ends = shown[shown["method"].isin(("npe", "oracle"))]
        for part, by in ((shown, view.by), (ends, view.ends)):
            assert not part.duplicated([*by, "method", "seed"]).any()


@every
def test_figures_are_those_that_have_captions(table, finished):
    shown = PRESENTATIONS[table.name]
    assert set(shown.figures(finished(table))) == set(shown.captions)
    assert shown.figures(Store("nowhere").rows([])) == {}


@pytest.mark.slow
@every
def test_every_number_of_the_paper_reaches_a_line_or_has_a_reason(
    table, finished, monkeypatch
):
    reached = set()

    def recorded(name, metric, *, task="", backbone="", method="", axis=""):
        reached.add((name, metric, task, backbone, method, axis))
        return printed(name, metric, task=task, backbone=backbone, method=method, axis=axis)

    for where in (paper_printed, special_lines):
        monkeypatch.setattr(where, "printed", recorded)
    PRESENTATIONS[table.name].lines(finished(table))
    there = {key for key in paper_csv() if key[0] == table.name}
    assert {key for key in there - reached if key[1] not in NOT_SHOWN} == set()
    assert not {key for key in there & reached if key[1] in NOT_SHOWN}


def test_every_reason_is_about_a_number_of_the_paper():
    assert {*NOT_SHOWN} <= {metric for _, metric, *_ in paper_csv()}


def paper_csv():
    text = files("ma_sbi_bench.paper").joinpath("paper.csv").read_text(encoding="utf-8")
    return read_printed(text)


@pytest.mark.slow
def test_running_a_cell_loads_no_figures():
    code = (
        "import sys, ma_sbi_bench.tables.methods_compared, ma_sbi_bench.tables.sweeps; "
        "print([name for name in sys.modules if 'plots' in name and 'ma_sbi' in name])"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
