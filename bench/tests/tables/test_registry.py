"""Laws that every experiment keeps."""

import json
from configparser import ConfigParser
from pathlib import Path

import pytest

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Cell
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.paper import words
from ma_sbi_bench.paper.words import captions, reasons
from ma_sbi_bench.tables.presentation import PRESENTATIONS
from ma_sbi_bench.tables.registry import EXPERIMENTS, get_experiment

BUDGETS = [Budget(), Budget(quick=True)]
# What issue and paper name; a new experiment is added here, too.
EXPECTED = {
    "schematic",
    "main_results",
    "hide_calibration",
    "recovered_shift",
    "rope_sweeps",
    "backbone_ablation",
    "posteriors",
    "decomposition",
    "calibration_size",
    "theorem_1",
    "sharpness",
    "channels",
    "exclusion",
    "never_worse",
    "unseen_words",
    "unpaired",
    "structural",
    "advice",
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
    "training",
    "covid",
    "instructions",
}
# Of these the paper has nothing.
OURS = {"advice", "never_worse", "structural", "training", "unpaired", "unseen_words"}
every = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))


def test_all_tables_and_figures_are_there():
    assert set(EXPERIMENTS) == EXPECTED


@every
def test_names_titles_and_places_are_given(experiment):
    assert get_experiment(experiment.name) is experiment
    assert experiment.title
    assert bool(experiment.place) == (experiment.name not in OURS)
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
    rows, shown = Store(tmp_path).rows([]), PRESENTATIONS[experiment.name]
    lines = shown.lines(rows)
    assert all(line.raw is None or line.raw.paper is not None for line in lines)
    if experiment.cells(Budget()):
        assert shown.figures(rows) == {}


def test_there_are_words_of_every_experiment_and_of_nothing_else():
    parser = ConfigParser(delimiters=("=",), interpolation=None)
    parser.read(Path(words.__file__).with_name("words.ini"), encoding="utf-8")
    assert parser.sections() == list(EXPERIMENTS)
    for name in EXPERIMENTS:
        known = {"title", "place", "note"}
        known |= {f"caption.{one}" for one in captions(name)}
        known |= {f"why.{one}" for one in reasons(name)}
        assert set(parser[name]) <= known


@every
def test_every_figure_has_a_caption_that_is_a_sentence(experiment):
    for caption in PRESENTATIONS[experiment.name].captions.values():
        assert caption[0].isupper()
        assert caption.rstrip().endswith(".")


@pytest.mark.parametrize("name", ["covid", "instructions"])
def test_tables_of_real_data_have_the_extra_rows(name):
    found = {cell.method for cell in EXPERIMENTS[name].cells(Budget())}
    assert found >= {"prior", "marginal-only"}
    assert any("shuffled" in method for method in found)
