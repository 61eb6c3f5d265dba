"""Claims: what intervals say of them, and what the committed rows say."""

from pathlib import Path

import pytest

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.paper.comparing import Compared, Line
from ma_sbi_bench.tables.claims import (
    BY_VERDICT,
    RULES,
    Criterion,
    Lines,
    Unfinished,
    at_least,
    at_most,
    difference,
    everywhere,
    together,
    within,
)
from ma_sbi_bench.tables.paper_claims import CLAIMS, SPECIAL_RULES, judge_claims
from ma_sbi_bench.tables.presentation import PRESENTATIONS
from ma_sbi_bench.tables.registry import EXPERIMENTS

RESULTS = Path(__file__).parents[2] / "results"


def number(low, high):
    return Compared((low + high) / 2, low, high)


@pytest.mark.parametrize(
    ("judge", "outcomes"),
    [
        (at_least, ["holds", "open", "fails"]),
        (at_most, ["fails", "open", "holds"]),
    ],
)
def test_a_limit_is_above_within_or_below_the_interval(judge, outcomes):
    found = [judge(number(1.0, 3.0), limit) for limit in (0.5, 2.0, 3.5)]
    assert found == outcomes


def test_a_number_is_near_zero_far_from_it_or_neither():
    ends = [(-1.0, 1.0), (-1.0, 3.0), (2.5, 3.0), (-9.0, -8.0)]
    assert [within(number(*one), 2.0) for one in ends] == [
        "holds",
        "open",
        "fails",
        "fails",
    ]


def test_a_difference_has_the_noise_of_both():
    found = difference(number(4.0, 10.0), number(0.0, 8.0))
    assert (found.value, found.low, found.high) == (3.0, -2.0, 8.0)


def test_shares_are_judged_one_by_one_or_in_pairs():
    ends = {"GL": (4.0, 10.0), "SLCP": (0.0, 8.0), "DDM": (20.0, 30.0)}
    lines = Lines([Line("t", {"task": task}, closed=number(*ends[task])) for task in ends])

    def judge(rule, task, **known):
        return Criterion.of({"rule": rule, "task": task, **known}).judge(lines)

    assert judge("at_least", "GL", limit=15.0) == ("fails", "7 % [4, 10]")
    assert judge("at_most", "SLCP", limit=9.0) == ("holds", "4 % [0, 8]")
    slcp = {"task": "SLCP"}
    pair = judge("at_least", "GL", against=slcp)
    assert pair == ("open", "7 % [4, 10] against 4 % [0, 8]")
    assert judge("at_least", "DDM", against=slcp)[0] == "holds"
    alike = judge("within", "GL", limit=9.0, against=slcp)
    assert alike == ("holds", "7 % [4, 10] and 4 % [0, 8]")


def test_numbers_are_shown_by_a_template_and_may_be_taken_without_noise():
    lines = Lines(
        [
            Line("t", {"method": "a", "size": 3}, raw=number(0.9, 1.3), note="remark"),
            Line("t", {"method": "b"}, raw=number(0.8, 1.0)),
            Line("t", {"method": "c"}, raw=Compared(float("nan"), reason="no data")),
        ]
    )
    known = {"rule": "at_least", "method": "a", "size": 3, "figure": "number"}
    shown = {"shown": "{one.value:.1f}, {note}", "limit": 1.0}
    assert Criterion.of(known | shown).judge(lines) == ("open", "1.1, remark")
    exact = {"figure": "value", "shown": "{judged.value:+.1f}"}
    other = {"against": {"method": "b", "size": None}}
    assert Criterion.of(known | exact | other).judge(lines) == ("holds", "+0.2")
    absent = Criterion("at_most", figure="number", labels={"method": "c"})
    assert absent.judge(lines) == ("not run", "no data")


def test_a_line_that_is_not_there_is_missing():
    lines = Lines([Line("table", {"task": "GL"}, raw=number(0, 1))])
    assert lines.number("tab", task="GL").high == 1
    for labels in ({"task": "SLCP"}, {"table": "other"}):
        with pytest.raises(Unfinished):
            lines.number(**labels)
    with pytest.raises(Unfinished):
        lines.share(task="GL")


def test_labels_of_several_lines_are_refused():
    twice = Lines([Line("one", {"task": "GL"}), Line("two", {"task": "GL"})])
    with pytest.raises(ValueError, match="2 lines"):
        twice.number(task="GL")


@pytest.mark.parametrize(
    ("outcomes", "joint", "in_all"),
    [
        (["holds", "holds"], "holds", "holds"),
        (["holds", "open"], "in part", "open"),
        (["holds", "fails"], "in part", "fails"),
        (["fails", "open"], "fails", "fails"),
        (["open", "not run"], "open", "open"),
    ],
)
def test_what_holds_on_some_tasks_holds_in_part(outcomes, joint, in_all):
    assert together(outcomes) == joint
    assert everywhere(outcomes) == in_all


def test_what_has_no_number_is_open():
    unknown = Compared(float("nan"))
    assert {judge(unknown, 1.0) for judge in (at_least, at_most, within)} == {"open"}


def test_with_nothing_finished_nothing_is_claimed():
    claims = judge_claims(dict.fromkeys(EXPERIMENTS, ()))
    assert len(claims) == len(CLAIMS)
    assert {one.outcome for one in claims} == {"not run"}


def test_every_case_of_a_claim_has_a_rule_that_is_known():
    known = {BY_VERDICT, *RULES, *SPECIAL_RULES}
    for claim in CLAIMS:
        assert claim["experiment"] in EXPERIMENTS
        cases = claim.get("cases", {"": {}}).values()
        assert {(claim | case)["rule"] for case in cases} <= known


def test_only_claims_of_given_experiments_are_judged():
    assert {one.experiment for one in judge_claims({"theorem_1": ()})} == {"theorem_1"}


def judged(experiments, folder):
    """Judge by the committed rows."""
    store = Store(folder, RESULTS)
    lines = {
        name: PRESENTATIONS[name].lines(store.rows(EXPERIMENTS[name].cells(Budget())))
        for name in experiments
    }
    return {claim.said: claim for claim in judge_claims(lines)}


def find(claims, words):
    (found,) = (claim for said, claim in claims.items() if words in said)
    return found


def test_a_title_is_not_mistaken_for_a_longer_one():
    short, long = (Line(title, {"task": "GL"}) for title in ("Gains", "Gains in per cent"))
    assert Lines([short, long]).some("Gains") == [short]
    assert Lines([long]).some("Gains") == [long]


@pytest.mark.slow
def test_outcomes_follow_from_the_committed_rows(tmp_path):
    claims = judged(["main_results", "channels", "rope_sweeps"], tmp_path)
    assert find(claims, "context as an input").outcome == "holds"
    assert find(claims, "I / log K").outcome == "in part"
    assert find(claims, "recovers in part").outcome == "open"
    assert find(claims, "all five tasks").found.startswith("GL: ")


@pytest.mark.slow
def test_every_claim_is_judged_by_the_committed_rows_but_that_on_missing_data(tmp_path):
    claims = judged({one["experiment"] for one in CLAIMS}, tmp_path)
    (not_run,) = (said for said, one in claims.items() if one.outcome == "not run")
    assert "Evans and Hawkins" in not_run
    assert all(one.found for one in claims.values())


def test_claims_on_sir_quote_the_diffusion_model_and_the_flow():
    quoted = {}
    for claim in CLAIMS:
        for case in claim.get("cases", {"": {}}).values():
            known = {**claim, **case}
            if (known["experiment"], known.get("task")) == ("main_results", "SIR"):
                shown = known | known.get("beside", {})
                found = {known["backbone"], shown["backbone"]}
                quoted.setdefault(claim["claim"], set()).update(found)
    assert len(quoted) == 2
    assert all(backbones == {"ddpm", "maf"} for backbones in quoted.values())
