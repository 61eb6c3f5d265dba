"""The default beside other methods: cells, scores, statistics and lines."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from bench.tests.engine.finishing import finish
from ma_sbi import HashEncoder, ShiftCorrector
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone, Measurement
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.methods import ma_sbi
from ma_sbi_bench.paper.words import captions, reasons
from ma_sbi_bench.report.tables import make_tables
from ma_sbi_bench.tables import never_worse_lines as shown
from ma_sbi_bench.tables.never_worse import (
    DEFAULT,
    LEVELS,
    WITHOUT_DENSITY,
    WORLDS,
    NeverWorse,
    coverage,
    exact_posterior,
    set_seed,
)
from ma_sbi_bench.tables.registry import EXPERIMENTS
from ma_sbi_bench.tasks import get_task
from ma_sbi_bench.trials.conditions import CONDITIONS, draw_world

QUICK = Budget(quick=True)
TABLE = NeverWorse()
METHODS = {"npe", "ma_sbi", "stochastic", DEFAULT, WITHOUT_DENSITY, "nnpe", "oracle"}


def cells_of(world, budget=QUICK, **wanted):
    return [
        cell
        for cell in TABLE.cells(budget)
        if cell.task == world
        and cell.settings["condition"]
        == wanted.get("condition", cell.settings["condition"])
        and cell.method in wanted.get("methods", (cell.method,))
    ]


@pytest.mark.slow
def test_every_method_is_tried_wherever_a_condition_has_a_meaning():
    for world in WORLDS:
        without = {"regimes 17:1:1:1", "a regime never seen"}
        expected = set(CONDITIONS) - (without if world == "slcp_continuous" else set())
        found = {cell.settings["condition"] for cell in cells_of(world, Budget())}
        assert found == expected
        for condition in found:
            found_here = cells_of(world, Budget(), condition=condition)
            methods = {cell.method for cell in found_here}
            assert methods - {"exact"} == METHODS


def test_there_are_as_many_rows_and_sets_as_the_bar_asks_for():
    for cell in TABLE.cells(Budget()):
        assert cell.settings["rows"] >= 400
        assert cell.settings["sets"] >= 5


@pytest.mark.slow
def test_methods_of_a_place_differ_in_nothing_but_the_method():
    for world in WORLDS:
        for condition in CONDITIONS:
            found = cells_of(world, Budget(), condition=condition)
            assert len({replace(cell, method="").key for cell in found}) <= 1


def test_posteriors_are_those_of_the_main_results_trained_once_for_each_world():
    main = EXPERIMENTS["main_results"]
    known = {one.key for c in main.cells(Budget()) for one in main.backbones(c)}
    by_world = {}
    for cell in TABLE.cells(Budget()):
        for one in TABLE.backbones(cell):
            by_world.setdefault((cell.task, one.kind), set()).add(one.key)
            assert one.kind in ("nnpe", "density") or one.key in known
    assert all(len(keys) == 1 for keys in by_world.values())
    assert by_world["ddm_trials", "maf"] == by_world["ddm", "maf"]
    assert by_world["slcp_continuous", "density"] == by_world["slcp", "density"]
    assert ("gaussian_linear", "maf") not in by_world
    assert ("gaussian_linear", "density") not in by_world


def test_a_density_is_trained_on_the_simulations_of_its_posterior():
    (cell,) = cells_of("slcp", Budget(), condition="start", methods=[DEFAULT])
    posterior, density = TABLE.backbones(cell)
    assert posterior == Backbone("slcp", "maf", 0, 100_000)
    same = replace(density, kind="maf", options={})
    assert same == posterior


def test_seeds_of_sets_are_used_by_no_other_table():
    seeds = {set_seed(seed, number) for seed in range(3) for number in range(10)}
    assert len(seeds) == 30
    assert min(seeds) > 1000  # tables count theirs from zero


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    cells = cells_of(
        "gaussian_linear",
        condition="20 triples",
        methods=("npe", "ma_sbi", "stochastic", "oracle", "exact"),
    )
    return finish(TABLE, tmp_path_factory.mktemp("never_worse"), cells)


def test_scores_are_the_closed_form_on_the_rows_that_all_share(finished):
    task = get_task("gaussian_linear")
    for method, data in (("npe", "x_obs"), ("oracle", "x_sim")):
        found = finished[
            (finished["method"] == method) & (finished["metric"] == "log_score")
        ]
        (values,) = found["values"]
        for number, value in enumerate(values):
            test = draw_world(
                task, CONDITIONS["20 triples"], 20, seed=set_seed(0, number)
            ).test
            posterior = torch.distributions.Normal(getattr(test, data) / 2, math.sqrt(0.05))
            expected = posterior.log_prob(test.theta).sum(dim=1).mean().item()
            assert value == pytest.approx(expected, abs=1e-4)


def test_a_cell_holds_a_score_for_each_set_and_a_share_for_each_level(finished):
    for _, row in finished.iterrows():
        num_sets = row["settings"]["sets"]
        levels = 1 if row["metric"] == "log_score" else len(LEVELS)
        assert len(row["values"]) == levels * num_sets
    shares = finished[finished["metric"] == "coverage"]
    for values in shares["values"]:
        by_level = values.reshape(len(LEVELS), -1)
        assert (np.diff(by_level, axis=0) >= 0).all()  # wider intervals hold more
    assert "exact" not in set(shares["method"])


def test_the_exact_posterior_is_that_of_the_task():
    task = get_task("gaussian_linear", dim=2)
    posterior = exact_posterior(task)
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    theta = torch.tensor([[[0.1, 0.2], [0.3, 0.4]], [[0.5, 0.6], [0.7, 0.8]]])
    normal = torch.distributions.Normal(x / 2, math.sqrt(0.05))
    torch.testing.assert_close(
        posterior.log_prob(theta, x),
        normal.log_prob(theta).sum(dim=-1),
        rtol=1e-4,
        atol=1e-4,
    )
    draws = posterior.sample(4000, x, seed=0)
    # Five standard errors of four means.
    assert (draws.mean(dim=0) - x / 2).abs().max() < 5 * math.sqrt(0.05 / 4000)


def test_coverage_counts_truths_in_central_intervals():
    draws = torch.linspace(-1, 1, 201)[:, None, None].expand(-1, 4, 1)
    theta = torch.tensor([[0.0], [0.7], [0.92], [1.5]])
    # Intervals reach to 0.5, 0.8, 0.9 and 0.95 on either side.
    torch.testing.assert_close(coverage(draws, theta), torch.tensor([0.25, 0.5, 0.5, 0.75]))


PLACE = ("slcp", "start")


def comparison(differences):
    return shown.Comparison(PLACE, DEFAULT, "npe", np.array(differences))


def test_the_test_is_a_t_test_against_the_margin():
    # Mean -0.08 above the margin of -0.02, error 0.02 / sqrt(3): t = -sqrt(48), two degrees
    # of freedom, whose distribution function is (1 + t / sqrt(2 + t^2)) / 2.
    found = comparison([-0.1, -0.12, -0.08])
    assert found.p_value == pytest.approx((1 - math.sqrt(48 / 50)) / 2)
    assert found.mean.value == pytest.approx(-0.1)
    half = 4.302653 * 0.02 / math.sqrt(3)  # the t quantile of two degrees of freedom
    assert found.mean.low == pytest.approx(-0.1 - half, rel=1e-5)


@pytest.mark.parametrize(
    ("differences", "p_value"),
    [
        ([0.0, 0.0, 0.0], 1.0),
        ([-0.5, -0.5, -0.5], 0.0),
        ([-0.02, -0.01, -0.03], 0.5),
        ([math.inf, 0.1, 0.2], 1.0),
        ([-math.inf, 0.1, 0.2], 0.0),
        ([-0.5], 1.0),
    ],
    ids=["equal", "always lower", "at the margin", "NPE fails", "default fails", "one set"],
)
def test_p_values_of_special_cases(differences, p_value):
    assert comparison(differences).p_value == pytest.approx(p_value)


def test_holm_adjusts_each_by_how_many_are_not_smaller():
    # 0.01 x 4, 0.02 x 3, 0.03 x 2 (not below the one before), 0.6 x 1.
    adjusted = shown.holm([0.03, 0.6, 0.01, 0.02])
    assert adjusted == pytest.approx([0.06, 0.6, 0.04, 0.06])
    assert shown.holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert shown.holm([]) == []


def test_a_difference_counts_as_missed_only_if_it_survives_the_adjustment():
    low = np.array([-0.1, -0.12, -0.08])  # p = 0.0101
    scores = {
        (f"world {number}", "start"): {
            DEFAULT: low if number == 0 else 0 * low,
            "npe": 0 * low,
        }
        for number in range(5)
    }
    few, many = (
        shown.compare(dict(list(scores.items())[:num]), others=["npe"]) for num in (4, 5)
    )
    assert [one.missed for one in few] == [True, False, False, False]
    assert not any(one.missed for one in many)


def test_differences_are_paired_by_set():
    scores = {PLACE: {DEFAULT: np.array([1.0, 5.0, 9.0]), "npe": np.array([0.5, 4.5, 8.5])}}
    (found,) = shown.compare(scores, others=["npe"])
    np.testing.assert_allclose(found.differences, 0.5)
    assert found.mean.low == pytest.approx(0.5)


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    """Return rows in which the default is a nat below NPE on Two Moons with 20 triples."""
    store = Store(tmp_path_factory.mktemp("made_up"))
    rng = np.random.default_rng(0)
    level = {"npe": 0.0, "oracle": 1.0, "exact": 1.0, "stochastic": 0.4, "ma_sbi": 0.2}
    for cell in TABLE.cells(Budget()):
        value = level.get(cell.method, 0.96)
        if (cell.task, cell.num_calibration, cell.method) == ("two_moons", 20, DEFAULT):
            value = -1.0
        scores = value + 1e-3 * rng.standard_normal(10)
        measured = [Measurement("log_score", tuple(scores))]
        if cell.method != "exact":
            measured.append(
                Measurement("coverage", (0.5,) * 10 + (0.8,) * 10 + (0.9,) * 20)
            )
        store.write(cell, measured, 1.0)
    return store.rows(TABLE.cells(Budget()))


@pytest.mark.slow
def test_misses_are_counted_listed_and_explained(made_up, monkeypatch):
    monkeypatch.setattr(
        shown, "reasons", lambda name: {"two_moons, 20 triples": "too few to choose from"}
    )
    lines = shown.lines(made_up)
    with_density, without = (line for line in lines if line.table == shown.SUMMARY)
    assert with_density.labels["comparisons"] == 3 * (7 * 13 - 2)
    assert with_density.labels["significantly"] == with_density.labels["on average"] == 3
    assert without.labels["significantly"] == 0
    missed = [line for line in lines if line.table == shown.LOWER]
    assert {line.labels["against"] for line in missed} == {"npe", "ma_sbi", "stochastic"}
    assert all(line.labels["condition"] == "20 triples" for line in missed)
    assert all(line.note == "too few to choose from" for line in missed)
    assert missed[0].raw.value == pytest.approx(-1.0, abs=5e-3)


def test_shares_of_the_gap_are_to_exact_bayes_in_the_gaussian_world(made_up):
    lines = [line for line in shown.lines(made_up) if line.table == shown.SHARES]
    assert len(lines) == 12  # six clean conditions, with a density and without
    for line in lines:
        assert line.closed.value == pytest.approx(96, abs=0.5)
        assert line.note == "reached"


def test_every_cell_has_a_line_and_the_bar_is_marked_there(made_up):
    lines = [line for line in shown.lines(made_up) if "method" in line.labels]
    assert len(lines) == len(TABLE.cells(Budget()))
    marked = [line for line in lines if line.note]
    assert {(line.table, line.labels["condition"]) for line in marked} == {
        ("Two Moons", "20 triples")
    }
    entries = [one for made in make_tables(lines) for row in made.rows for one in row]
    assert not [one for one in entries if one.text in ("nan", "<NA>")]
    covered = {line.labels["method"]: line.labels[shown.COVER] for line in lines}
    assert covered["npe"] == "90.0%"
    assert covered["exact"] == ""


def test_lines_need_no_default(finished):
    lines = shown.lines(finished)
    assert {line.labels["method"] for line in lines} == {
        *("npe", "ma_sbi", "stochastic", "oracle", "exact")
    }
    assert shown.figures(finished)


def test_more_seeds_are_more_sets(made_up):
    again = made_up.assign(seed=1)
    both = shown._by_place(pd.concat([made_up, again]), "log_score")
    assert len(both[PLACE]["npe"]) == 20


def test_the_figure_has_a_panel_for_each_world_and_a_row_for_each_condition(made_up):
    (figure,) = shown.figures(made_up).values()
    titles = [axis.get_title(loc="left") for axis in figure.axes if axis.get_visible()]
    assert titles == [shown.NAMES[world] for world in WORLDS]
    labels = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert labels == list(CONDITIONS)
    assert set(captions("never_worse")) == set(shown.figures(made_up))


def test_reasons_are_about_places_that_exist():
    places = {f"{c.task}, {c.settings['condition']}".lower() for c in TABLE.cells(Budget())}
    assert set(reasons("never_worse")) <= places


def test_the_default_is_given_the_density_or_none(monkeypatch):
    asked = []

    def fit(context, x_obs, x_sim, *, density, posterior, encoder, seed):
        asked.append((density, posterior is not None and encoder is None))
        return ShiftCorrector(HashEncoder()).fit(context, x_obs, x_sim, seed=seed)

    def no_density(x, *, seed=None):
        raise AssertionError("the world has one")

    monkeypatch.setattr(ma_sbi, "fit_corrector", fit)
    monkeypatch.setattr(ma_sbi, "fit_density", no_density)
    place = {"condition": "20 triples", "methods": ("ma_sbi", DEFAULT, WITHOUT_DENSITY)}
    point, with_density, without = (
        TABLE.run(cell, Models("nowhere")) for cell in cells_of("gaussian_linear", **place)
    )
    assert point[0].values == with_density[0].values == without[0].values
    x = torch.zeros(1, 5)
    evidence = get_task("gaussian_linear").log_evidence(x)
    assert [one is None or torch.equal(one(x), evidence) for one, _ in asked] == [True] * 4
    assert [one is None for one, _ in asked] == [False, False, True, True]
    assert all(given for _, given in asked)
