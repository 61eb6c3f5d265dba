"""Laws that every experiment keeps."""

import json

import numpy as np
import pytest
from ma_sbi_bench.trials.experiment import EXTRA_ROWS, TrialExperiment

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell, Measurement
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.real.experiment import RealExperiment
from ma_sbi_bench.report.tables import make_tables
from ma_sbi_bench.tables.presentation import PRESENTATIONS
from ma_sbi_bench.tables.registry import EXPERIMENTS, get_experiment
from ma_sbi_bench.tasks import get_task
from ma_sbi_bench.trials.world import World

BUDGETS = [Budget(), Budget(quick=True)]
# What issue and paper name; a new experiment is added here, too.
EXPECTED = {
    "schematic",
    "main_results",
    "hide_calibration",
    "rope_sweeps",
    "backbone_ablation",
    "posteriors",
    "decomposition",
    "calibration_size",
    "theorem_1",
    "sharpness",
    "channels",
    "exclusion",
    "continuous_context",
    "noisy_context",
    "index_or_text",
    "unseen_regimes",
    "well_specified",
    "encoder_ablation",
    "corrector_network",
    "sinkhorn_epsilon",
    "nnpe_scale",
    "compute",
    "covid",
    "instructions",
}
every = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))


def test_all_tables_and_figures_are_there():
    assert set(EXPERIMENTS) == EXPECTED


@every
def test_names_titles_and_places_are_given(experiment):
    assert get_experiment(experiment.name) is experiment
    assert experiment.title
    assert experiment.place
    assert experiment.version >= 1


@every
@pytest.mark.parametrize("budget", BUDGETS, ids=["full", "quick"])
def test_cells_are_distinct_and_can_be_written_as_json(experiment, budget):
    cells = experiment.cells(budget)
    assert len({cell.key for cell in cells}) == len(cells)
    for cell in cells:
        assert Cell(**json.loads(json.dumps(vars(cell)))).key == cell.key


@every
def test_the_cost_of_every_cell_can_be_guessed_and_its_posteriors_named(experiment):
    for cell in experiment.cells(Budget()):
        assert experiment.cost(cell) >= 0
        assert all(one.num_simulations > 0 for one in experiment.backbones(cell))


@every
def test_listing_cells_twice_gives_the_same_cells(experiment):
    first, second = (experiment.cells(Budget()) for _ in range(2))
    assert [cell.key for cell in first] == [cell.key for cell in second]


@every
def test_a_quick_cell_is_never_taken_for_a_full_one(experiment):
    full, quick = ({c.key: c for c in experiment.cells(b)} for b in BUDGETS)
    # Exact numbers cost nothing, and are the same in either.
    assert all(full[key].backbone == "exact mean" for key in full.keys() & quick.keys())


@every
def test_more_seeds_add_cells_and_keep_the_others(experiment):
    few, many = (
        {c.key for c in experiment.cells(Budget(quick=True, seeds=n))} for n in (1, 2)
    )
    assert few <= many


@every
def test_with_nothing_finished_there_is_nothing_to_show(experiment, tmp_path):
    rows = Store(tmp_path).rows([])
    assert all(
        line.raw is None or line.raw.paper is not None
        for line in PRESENTATIONS[experiment.name].lines(rows)
    )
    if experiment.cells(Budget()):
        assert PRESENTATIONS[experiment.name].figures(rows) == {}


@every
def test_every_figure_has_a_caption_that_is_a_sentence(experiment):
    for caption in PRESENTATIONS[experiment.name].captions.values():
        assert caption[0].isupper()
        assert caption.rstrip().endswith(".")


@every
def test_tables_of_methods_have_the_four_extra_rows(experiment):
    if experiment.name in ("posteriors", "compute"):
        pytest.skip("one observation, or seconds")
    extra = {TrialExperiment: EXTRA_ROWS, RealExperiment: ("prior", "marginal-only")}
    expected = [rows for kind, rows in extra.items() if isinstance(experiment, kind)]
    if not expected:
        pytest.skip("no table of methods")
    found = {cell.method for cell in experiment.cells(Budget())}
    assert found >= set(*expected)
    assert any("shuffled" in method for method in found)


trials = pytest.mark.parametrize(
    "experiment",
    [
        one
        for one in EXPERIMENTS.values()
        if isinstance(one, TrialExperiment) and one.name != "compute"
    ],
    ids=lambda one: one.name,
)


@trials
def test_an_exact_answer_is_asked_only_of_tasks_that_have_one(experiment):
    asked = {c.task for c in experiment.cells(Budget()) if c.method == "exact"}
    assert all(get_task(task).has_evidence for task in asked)


@trials
def test_every_trial_has_a_line_and_every_share_its_ends(experiment, tmp_path):
    """Whatever the numbers are: made up here, as many as a trial has cases."""
    rng, store = np.random.default_rng(0), Store(tmp_path)
    cells = [c for c in experiment.cells(Budget()) if c.experiment == "trial"]
    for cell in cells:
        level = {"npe": 0.9, "oracle": 0.6}.get(cell.method, 0.7)
        values = tuple(level + 0.01 * rng.random(num_cases(cell)))
        metric = "mse" if "rows" in cell.settings else "c2st"
        measured = [Measurement(metric, values)]
        if "keep_draws" in cell.settings:
            measured.append(Measurement("draws", tuple(rng.random(800))))
        store.write(cell, measured, 1.0)
    lines = PRESENTATIONS[experiment.name].lines(store.rows(cells))
    assert set(PRESENTATIONS[experiment.name].figures(store.rows(cells))) == set(
        PRESENTATIONS[experiment.name].captions
    )
    shown = [row for table in make_tables(lines) for row in table.rows]
    assert not [entry for row in shown for entry in row if entry.text in ("nan", "<NA>")]
    named = {line.labels["method"] for line in lines if "method" in line.labels}
    assert named - {"npe - oracle"} == {cell.method for cell in cells}
    if "oracle" in {cell.method for cell in cells} and experiment.name != "posteriors":
        methods = [one for one in lines if one.labels.get("method") == "ma_sbi_marginal"]
        assert methods
        assert all(60 < one.closed.value < 73 for one in methods)


NUM_CASES = {}  # a world takes a while, and many trials share one


def num_cases(cell):
    of = (cell.task, cell.observation, cell.regime, cell.settings.get("cases"))
    if of not in NUM_CASES:
        NUM_CASES[of] = len(World.of(cell).test.theta)
    return NUM_CASES[of]
