"""Trials: what a cell decides, and what it does not."""

import numpy as np
import pytest
import torch

from ma_sbi.posteriors.diffusion import DiffusionPosterior
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.methods import METHODS, NPE
from ma_sbi_bench.tables.methods_compared import NETWORKS
from ma_sbi_bench.tables.registry import EXPERIMENTS
from ma_sbi_bench.trials import run
from ma_sbi_bench.trials.cells import ONLY_BACKBONE, trial_cell
from ma_sbi_bench.trials.run import FORMS, backbone_of, make_method, run_trial
from ma_sbi_bench.trials.table import EXTRA_ROWS
from ma_sbi_bench.trials.world import World

QUICK = Budget(quick=True)
MAIN = EXPERIMENTS["main_results"]


def trial(method, task="gaussian_linear", backbone="maf", **known):
    return trial_cell(QUICK, task, backbone, method, **known)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return Models(tmp_path_factory.mktemp("backbones"))


def measured(cell, models):
    return {one.metric: np.array(one.values) for one in run_trial(cell, models)}


@pytest.mark.parametrize("task", ["gaussian_linear", "two_moons"])
def test_the_exact_answer_cannot_be_told_from_the_reference(task, models):
    found = measured(trial("exact", task), models)
    # One C2ST of 200 draws has a standard deviation of about 0.03.
    assert abs(found["c2st"].mean() - 0.5) < 4 * 0.03 / len(found["c2st"]) ** 0.5 + 0.01


@pytest.mark.slow
def test_the_exact_answer_without_context_weighs_the_regimes(models):
    many = {"observations": 400}
    options = {"setting": "uninformative", "shift_length": 1.0}
    known, uninformed, face_value = (
        measured(trial(method, task_options=task_options, **many, draws=10), models)[
            "log_score"
        ]
        for method, task_options in (
            ("exact", {"shift_length": 1.0}),
            ("exact", options),
            ("prior", options),
        )
    )
    # Knowing less costs something, and far less than everything.
    cost = known - uninformed
    assert cost.mean() > 3 * cost.std() / 20 > 0
    assert (uninformed - face_value).mean() > 5 * cost.mean()


def test_a_mixture_over_certain_regimes_is_the_known_regime(models):
    almost = measured(trial("exact", reliability=1 - 1e-9), models)
    known = measured(trial("exact"), models)
    np.testing.assert_allclose(almost["log_score"], known["log_score"], atol=1e-4)


@pytest.mark.slow
def test_a_shift_closes_the_gap_from_npe_to_oracle(models):
    npe, ma_sbi, oracle = (
        measured(
            trial(method, task_options={"shift_length": 1.0}, observations=400, draws=10),
            models,
        )["log_score"]
        for method in ("npe", "ma_sbi", "oracle")
    )
    # Shifts are constant within a regime: the closed form finds them exactly.
    np.testing.assert_allclose(ma_sbi, oracle, atol=1e-3)
    gap = oracle - npe
    assert gap.mean() > 3 * gap.std() / len(gap) ** 0.5


def test_the_posterior_does_not_depend_on_the_setting_of_the_task():
    plain, other = (
        backbone_of(trial("npe", task_options=options))
        for options in ({}, {"setting": "uninformative"})
    )
    assert plain.key == other.key
    assert plain.key != backbone_of(trial("npe", seed=1)).key


def test_the_same_trial_of_two_experiments_is_one_cell():
    keys = {cell.key for cell in MAIN.cells(Budget())}
    shared = [c for c in EXPERIMENTS["hide_calibration"].cells(Budget()) if c.key in keys]
    assert {cell.seed for cell in shared} == {0}
    assert {cell.backbone for cell in shared} == {"maf", "ddpm"}


def test_every_method_is_in_the_main_table_with_both_backbones():
    for backbone in ("ddpm", "maf"):
        cells = [c for c in MAIN.cells(Budget()) if c.backbone == backbone]
        expected = {m for m in METHODS if ONLY_BACKBONE.get(m, backbone) == backbone}
        for task in ("slcp", "gaussian_linear", "two_moons", "sir_delay"):
            found = {cell.method for cell in cells if cell.task == task}
            assert found >= expected | set(EXTRA_ROWS)


def test_slcp_has_the_simulations_and_the_seeds_of_the_paper():
    cells = EXPERIMENTS["hide_calibration"].cells(Budget())
    assert {cell.settings["simulations"] for cell in cells} == {100_000}
    assert {cell.seed for cell in cells} == set(range(10))


def test_slcp_has_more_observations_and_every_method_has_the_same_cases():
    sizes = {
        (cell.task, cell.settings["cases"], cell.settings["observations"])
        for cell in MAIN.cells(Budget())
        if "observations" in cell.settings
    }
    few = {(task, "some", 12) for task in ("gaussian_linear", "two_moons")}
    assert sizes == few | {("slcp", "some", 48)}


def test_where_one_regime_is_tested_there_is_nothing_to_choose():
    assert "cases" not in trial("npe", regime=1).settings
    assert "cases" not in trial("npe", observation=1).settings


def test_what_a_trial_sets_itself_goes_before_what_a_quick_run_has():
    usual, own = (
        trial("rope_paper", options=options).settings["options"]
        for options in ({}, {"num_simulations": 7})
    )
    assert usual == {"num_simulations": 100, "num_steps": 100}
    assert own == {"num_simulations": 7, "num_steps": 100}


def test_a_given_epsilon_leaves_no_grid_to_choose_from():
    assert trial("rope_sinkhorn").settings["options"] == {"grid": [0.1, 1.0]}
    given = trial("rope_sinkhorn", options={"epsilon": 0.1})
    assert given.settings["options"] == {"epsilon": 0.1}


@pytest.mark.parametrize("form", FORMS)
def test_forms_can_be_made(form):
    assert FORMS[form]().needs is not None


@pytest.mark.slow
def test_the_parts_of_the_papers_network_are_parts(models):
    whole, marginal, conditional = (
        measured(trial(f"ma_sbi_paper{part}"), models)["log_score"]
        for part in ("", "_marginal", "_conditional")
    )
    assert len({*whole, *marginal, *conditional}) == 3 * len(whole)


@pytest.mark.slow
def test_a_regime_that_cannot_have_produced_x_has_no_weight(models):
    cell = trial("exact", "sir_delay", task_options={"setting": "uninformative"})
    found = measured(cell, models)
    assert np.isfinite(found["mse"]).all()
    assert np.isfinite(found["log_score"]).all()


def test_a_diffusion_model_draws_in_few_steps_where_the_budget_says_so():
    assert "sampling_steps" not in trial("npe", backbone="ddpm").settings
    cells = [cell for cell in MAIN.cells(Budget()) if cell.task == "slcp"]
    told = {(c.method, c.backbone) for c in cells if "sampling_steps" in c.settings}
    others = {"prior", "exact"}
    assert {("npe", "ddpm"), ("ma_sbi_default", "ddpm")} < told
    assert told == {
        (c.method, "ddpm") for c in cells if c.backbone == "ddpm" and c.method not in others
    }


@pytest.mark.slow
def test_the_steps_of_a_cell_are_those_of_its_sampler(models, monkeypatch):
    """Of the posterior that is given, and of one that the method trains itself."""
    seen = []
    sample = DiffusionPosterior._ancestral

    def counting(self, *arguments):
        seen.append(len(self.steps))
        return sample(self, *arguments)

    monkeypatch.setattr(DiffusionPosterior, "_ancestral", counting)
    few = {"observations": 2, "sampling_steps": 7, "draws": 200}
    for method in ("npe", "nnpe_isotropic", "classifier_free"):
        run_trial(trial(method, backbone="ddpm", **few), models)
    assert set(seen) == {7}
    assert len(seen) >= 3


def test_a_cell_says_where_its_seconds_went(models, monkeypatch):
    # A clock that only the parts move, each by its own number of seconds.
    now = [0.0]

    def takes(seconds, work):
        def slowly(*given, **options):
            now[0] += seconds
            return work(*given, **options)

        return slowly

    monkeypatch.setattr(run.time, "process_time", lambda: now[0])
    monkeypatch.setattr(World, "of", takes(1, World.of))
    monkeypatch.setattr(NPE, "fit", takes(2, NPE.fit))
    monkeypatch.setattr(NPE, "sample", takes(4, NPE.sample))
    monkeypatch.setattr(run, "c2st_batch", takes(8, run.c2st_batch))
    found = {one.metric: one for one in run_trial(trial("npe"), models)}
    assert found["seconds"].recipe == "world, fit, sampling, metric"
    assert found["seconds"].values == (1, 2, 4, 8)


def test_what_is_called_the_papers_reads_the_papers_hash():
    for name, form in FORMS.items():
        if name.startswith("ma_sbi_paper"):
            assert form().corrector.encoder.unit_length is False
    for name in ("context_to_theta_paper", "context_to_x_paper"):
        assert FORMS[name]().encoder.unit_length is False


def test_networks_differ_in_their_hash_and_width_alone():
    made = {name: make_method(trial(name)).corrector for name in NETWORKS}
    described = {
        name: (one.encoder.unit_length, one.axes().fitting.hidden)
        for name, one in made.items()
    }
    assert described == {
        "ma_sbi_paper": (False, 128),
        "ma_sbi_paper_256": (False, 256),
        "ma_sbi_unit_hash": (True, 128),
        "ma_sbi_unit_hash_256": (True, 256),
    }


def test_rows_with_another_hash_are_not_taken_for_those_with_the_papers():
    assert trial("ma_sbi_paper").version == 2
    assert trial("ma_sbi_network").version == 2
    assert trial("ma_sbi").version == trial("npe").version == 1


def test_shifts_of_another_size_share_the_posterior_and_counts_of_more_people_do_not():
    def needed(task):
        return backbone_of(trial_cell(Budget(), task, "maf", "npe"))

    assert needed("ddm_small_shifts") == needed("ddm")
    assert needed("sir_delay_million") != needed("sir_delay")


def test_errors_on_sir_are_those_of_log_theta(models):
    cell = trial("prior", "sir_delay_million")
    theta = World.of(cell).test.theta.log().double()
    prior = torch.tensor([[0.4, 0.125]], dtype=torch.float64).log()
    found = measured(cell, models)["mse"]
    # The mean of 200 draws of the prior is off by a 14th of its deviations, 0.5 and 0.2.
    expected = (theta - prior).square().mean(dim=1).numpy()
    assert np.abs(np.sqrt(2 * found) - np.sqrt(2 * expected)).max() < 4 * 0.54 / 200**0.5
