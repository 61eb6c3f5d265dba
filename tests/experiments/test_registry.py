"""Laws that every experiment keeps."""

import json

import pytest

from ma_sbi.experiments import Budget, Store, get_experiment
from ma_sbi.experiments.cell import Cell
from ma_sbi.experiments.registry import EXPERIMENTS
from ma_sbi.experiments.trial_experiment import EXTRA_ROWS, TrialExperiment

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
def test_listing_cells_twice_gives_the_same_cells(experiment):
    first, second = (experiment.cells(Budget()) for _ in range(2))
    assert [cell.key for cell in first] == [cell.key for cell in second]


@every
def test_a_quick_cell_is_never_taken_for_a_full_one(experiment):
    full, quick = ({c.key for c in experiment.cells(b)} for b in BUDGETS)
    # Exact numbers cost nothing, and are the same in either.
    free = {"theorem_1", "channels", "decomposition"}
    assert not full & quick or experiment.name in free


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
        line.raw is None or line.raw.paper is not None for line in experiment.lines(rows)
    )
    if experiment.cells(Budget()):
        assert experiment.figures(rows) == {}


@every
def test_every_figure_has_a_caption_that_is_a_sentence(experiment):
    for caption in experiment.captions().values():
        assert caption[0].isupper()
        assert caption.rstrip().endswith(".")


@every
def test_tables_of_methods_have_the_four_extra_rows(experiment):
    if not isinstance(experiment, TrialExperiment):
        pytest.skip("not a table of trials")
    if experiment.name in ("posteriors", "compute"):
        pytest.skip("one observation, or seconds")
    found = {cell.method for cell in experiment.cells(Budget())}
    assert found >= set(EXTRA_ROWS)
