"""The advice of the check: cells, scores, verdicts and lines."""

import math

import pytest

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Measurement
from ma_sbi_bench.engine.models import Models
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.tables import advice as module
from ma_sbi_bench.tables.advice import (
    ADVICE,
    LEAD,
    LEAD_ERROR,
    NOTHING,
    ONE_FOR_ALL,
    ORACLE,
    POOL_FOR_ALL,
    SAID,
    WITH_CONTEXT,
    Advice,
    fit_options,
    score,
    what_is_given,
    world_of,
)
from ma_sbi_bench.tables.advice_lines import VERDICTS, Judged, judge, lines
from ma_sbi_bench.trials.drawn_worlds import KINDS, draw_world

TABLE = Advice()
NOWHERE = Models("nowhere")
SEED = 4000
# In these what is known of theta is more than the posterior at the simulation says.
THETA_ELSEWHERE = ("population", "leak", "leak and shift", "leak, no pairs")


def measured(kind, number=0, rows=200):
    cell = TABLE.cell(
        "check", task=kind, seed=SEED, settings={"number": number, "rows": rows}
    )
    return TABLE.run(cell, NOWHERE)


def test_there_are_at_least_two_hundred_worlds_of_every_kind():
    cells = TABLE.cells(Budget())
    assert len(cells) >= 200
    assert {cell.task for cell in cells} == set(KINDS)
    assert all(cell.settings["rows"] == 2000 for cell in cells)


def test_a_quick_run_shows_no_world_of_the_table():
    full, quick = (
        {(cell.task, cell.settings["number"]) for cell in TABLE.cells(budget)}
        for budget in (Budget(), Budget(quick=True))
    )
    assert not full & quick


@pytest.mark.slow
def test_a_cell_scores_the_advice_and_every_option():
    found = measured("few rows")
    options = {one.recipe for one in found if one.metric == LEAD}
    assert {NOTHING, WITH_CONTEXT, ONE_FOR_ALL} <= options
    assert {one.recipe for one in found if one.metric == "score"} == {
        *options,
        ADVICE,
        ORACLE,
    }
    assert all(math.isfinite(value) for one in found for value in one.values)
    (said,) = (one.recipe for one in found if one.metric == SAID)
    assert said


@pytest.mark.parametrize("kind", [one for one in KINDS if one not in THETA_ELSEWHERE])
def test_nothing_is_better_than_the_posterior_at_the_simulation(kind):
    world = draw_world(kind, 0, seed=SEED)
    fresh = world.fresh(2000)
    scores = world.simulator.posterior_log_prob(fresh.theta[None], fresh.latent)[0]
    lead = scores - score(world, None, fresh, NOTHING)
    assert lead.mean() >= -3 * lead.std() / math.sqrt(len(lead))


@pytest.mark.filterwarnings("ignore")
def test_a_certain_shift_is_corrected_to_the_oracle():
    world = next(
        one
        for one in (draw_world("label", number, seed=SEED) for number in range(50))
        if one.departure.jitter == 0 and one.num_rows < 200 and one.departure.size > 1
    )
    rows, fresh = world.calibration(), world.fresh(500)
    options = fit_options(world, rows, what_is_given(world, rows), 0)
    oracle = world.simulator.posterior_log_prob(fresh.theta[None], fresh.latent)[0]
    found = score(world, options[WITH_CONTEXT], fresh, WITH_CONTEXT)
    assert (oracle - found).mean().abs() < 0.05


@pytest.mark.filterwarnings("ignore")
def test_rows_that_are_no_pairs_may_be_taken_as_a_pool():
    for kind, expected in (("other parameters", True), ("few rows", False)):
        world = next(
            one
            for one in (draw_world(kind, number, seed=SEED) for number in range(50))
            if one.num_rows < 60
        )
        rows = world.calibration()
        options = fit_options(world, rows, what_is_given(world, rows), 0)
        assert (POOL_FOR_ALL in options) == expected


def test_what_is_given_is_what_the_check_takes(monkeypatch):
    worlds = [draw_world("true theta", number, seed=SEED) for number in range(20)]
    given = [what_is_given(world, world.calibration()) for world in worlds]
    assert all({"posterior", "theta"} <= set(one) for one in given)
    monkeypatch.setattr(module, "check", lambda x_obs, context, *, x_sim, seed: None)
    assert what_is_given(worlds[0], worlds[0].calibration()) == {}


def test_a_check_that_refuses_advises_no_correction(monkeypatch):
    def refuse(*args, **options):
        raise ValueError("too few rows")

    monkeypatch.setattr(module, "check", refuse)
    found = measured("few rows", rows=50)
    (said,) = (one for one in found if one.metric == SAID)
    assert (said.recipe, said.values) == ("refused: too few rows", (0.0,))
    assert {one.recipe: one.values[0] for one in found if one.metric == LEAD}[NOTHING] == 0


@pytest.mark.parametrize(
    ("nothing", "context", "for_all", "corrects", "verdict"),
    [
        (0.0, 0.3, 0.2, "nothing", "right"),
        (0.0, -0.04, 0.2, "nothing", "right"),
        (0.0, -0.06, 0.2, "nothing", "too strict"),
        (0.5, -0.06, 0.0, "all rows alike", "too strict"),
        (0.5, 0.0, -0.06, "by context", "too lenient"),
        (0.5, 0.0, -0.06, "all rows alike", "too lenient"),
        (-0.04, 0.0, 0.0, "by context", "right"),
        (-0.06, 0.0, 0.0, "by context", "harmful"),
        (-0.06, -2.0, -1.0, "by context", "harmful"),
    ],
)
def test_advice_is_judged_by_what_it_loses(nothing, context, for_all, corrects, verdict):
    leads = {NOTHING: nothing, WITH_CONTEXT: context, ONE_FOR_ALL: for_all}
    assert judge(leads, corrects=corrects) == verdict


NAMES = {
    "swapped": "do not use: x_obs and x_sim seem to be swapped: x_sim behaves as ...",
    "columns": "do not use: Columns of x_obs and x_sim seem to be in different orders.",
    "units": "do not use: x_obs and x_sim seem to have different units.",
    "shuffled": "do not use: Rows of x_obs and x_sim are not seen to be pairs (p = 1).",
}


def judged(kind, said, corrects="nothing"):
    """Advice in a world where a correction by context would have gained by luck."""
    leads = {NOTHING: 0.0 if corrects == "nothing" else 1.0, WITH_CONTEXT: -1.0}
    errors = dict.fromkeys(leads, 0.01)
    world = draw_world(kind, 0, seed=SEED)
    return Judged(kind, 0, world, leads, errors, corrects, said)


@pytest.mark.parametrize("kind", NAMES)
def test_a_refusal_that_names_what_was_mixed_up_is_right(kind):
    found = judged(kind, NAMES[kind])
    assert found.refuses
    assert found.verdict == "right"
    assert found.by_score == "too strict"


@pytest.mark.parametrize("kind", NAMES)
def test_sides_that_may_be_swapped_are_named_for_swapped_sides_only(kind):
    found = judged(kind, "do not use: x_obs and x_sim may be swapped (log odds 1.4).")
    assert found.refuses == (kind == "swapped")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("swapped", "do not use: A correction is not shown to help."),
        ("swapped", NAMES["units"]),
        ("units", NAMES["columns"]),
        ("columns", NAMES["swapped"]),
        # Control runs are pairs, although nothing shows it.
        ("control run", NAMES["shuffled"]),
        ("shuffled", "do not use: Nothing is seen to depart."),
        ("label", NAMES["swapped"]),
    ],
)
def test_a_refusal_with_another_reason_is_too_strict(kind, said):
    found = judged(kind, said)
    assert not found.refuses
    assert found.verdict == "too strict"


def test_a_correction_of_rows_that_were_mixed_up_is_no_refusal():
    found = judged("swapped", NAMES["swapped"], corrects="all rows alike")
    assert not found.refuses
    assert found.verdict == "too strict"


@pytest.fixture
def made_up(tmp_path):
    """Return rows in which the advice is harmful in one world, and else right.

    Swapped sides are refused by name in two worlds; in one a correction would have gained.
    """
    store = Store(tmp_path)
    cells = TABLE.cells(Budget())
    refused = [place for place, cell in enumerate(cells) if cell.task == "swapped"][:2]
    for place, cell in enumerate(cells):
        leads = {NOTHING: -0.2 if place == 0 else 0.1, WITH_CONTEXT: 0.0}
        found = [Measurement(SAID, (2.0,), "use: it helps")]
        if place in refused:
            leads = {NOTHING: 0.0, WITH_CONTEXT: -1.0 if place == refused[0] else 1.0}
            found = [Measurement(SAID, (0.0,), NAMES["swapped"])]
        for name, lead in leads.items():
            found += [
                Measurement(LEAD, (lead,), name),
                Measurement(LEAD_ERROR, (0.01,), name),
            ]
        store.write(cell, found, 1.0)
    return store.rows(cells)


def test_worlds_are_counted_by_kind_and_what_is_wrong_is_listed(made_up):
    by_table = {}
    for line in lines(made_up):
        by_table.setdefault(line.table, []).append(line)
    summary, kinds, _, wrong = by_table.values()
    counts = {line.labels["advice"]: line.labels["worlds"] for line in summary}
    total = len(TABLE.cells(Budget()))
    assert counts == {
        "right": total - 1,
        "right by the score alone": total - 2,
        "too lenient": 0,
        "too strict": 0,
        "harmful": 1,
    }
    assert [line.note for line in summary] == [
        "bar: 95%; reached",
        "2 worlds are refused because rows were mixed up or are no pairs; in 1 of them "
        "some correction would have gained",
        "",
        "",
        "bar: none; missed",
    ]
    assert [line.labels["kind"] for line in kinds] == list(KINDS)
    assert sum(line.labels[one] for line in kinds for one in VERDICTS) == total
    (only,) = wrong
    assert only.labels["kind"] == next(iter(KINDS))
    assert only.labels["gain over nothing"] == "-0.20 ± 0.01"
    assert only.labels["said"] == "use: it helps"


def test_the_cost_follows_the_number_of_rows():
    cells = TABLE.cells(Budget())
    costs = [TABLE.cost(cell) for cell in cells]
    largest = max(cells, key=lambda cell: world_of(cell).num_rows)
    assert TABLE.cost(largest) == max(costs)
