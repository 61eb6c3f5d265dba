"""Claims: what intervals say of them, and what the committed rows say."""

from pathlib import Path

import pytest

from ma_sbi.experiments import Budget, Store
from ma_sbi.experiments.claims import (
    Lines,
    against,
    at_least,
    at_most,
    difference,
    within,
)
from ma_sbi.experiments.comparing import Compared, Line
from ma_sbi.experiments.paper_claims import CLAIMS, judge_claims
from ma_sbi.experiments.registry import EXPERIMENTS

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
    assert against(number(4.0, 10.0), number(0.0, 8.0))[0] == "open"


def test_a_line_that_is_not_there_is_missing():
    lines = Lines([Line("table", {"task": "GL"}, raw=number(0, 1))])
    assert lines.number("tab", task="GL").high == 1
    for labels in ({"task": "SLCP"}, {"table": "other"}):
        with pytest.raises(LookupError):
            lines.number(**labels)
    with pytest.raises(LookupError):
        lines.share(task="GL")


def test_with_nothing_finished_nothing_is_claimed():
    claims = judge_claims(dict.fromkeys(EXPERIMENTS, ()))
    assert len(claims) == len(CLAIMS)
    assert {one.outcome for one in claims} == {"not run"}


def test_only_claims_of_the_experiments_at_hand_are_judged():
    assert {one.experiment for one in judge_claims({"theorem_1": ()})} == {"theorem_1"}


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("cells"), RESULTS)
    tested = {name: EXPERIMENTS[name] for _, name, _ in CLAIMS}
    lines = {
        name: one.lines(store.rows(one.cells(Budget()))) for name, one in tested.items()
    }
    return {(one.experiment, one.said): one for one in judge_claims(lines)}


def test_every_claim_is_judged_by_the_committed_rows_but_that_on_missing_data(judged):
    not_run = {name for (name, _), one in judged.items() if one.outcome == "not run"}
    assert not_run == {"instructions"}
    assert all(one.found for one in judged.values() if one.outcome != "not run")


def test_outcomes_follow_from_the_committed_rows(judged):
    outcomes = {said: one.outcome for (_, said), one in judged.items()}
    assert outcomes["NPE with the context as an input collapses on SLCP"] == "holds"
    tracks = "The gap closed tracks I / log K exactly (within a point, K = 4)"
    assert outcomes[tracks] == "in part"
    assert outcomes["RoPE-EMD with true parameters closes 28 % on SLCP"] == "fails"
