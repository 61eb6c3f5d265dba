"""Tests for the rule: from facts to a verdict, with sentences made of their figures."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from ma_sbi.checking.facts import Change, Facts, Share, choose
from ma_sbi.checking.judging import Judgement, Score
from ma_sbi.checking.verdict import VERDICTS, decide
from ma_sbi.choosing.exchange import Exchange

FINE = Facts(
    num_rows=400,
    leak="none",
    leak_detail="No dependence was found.",
    chosen="by context",
    gain=Score(1.5, 0.1),
    adds=Score(0.6, 0.05),
    perfect=Score(1.6, 0.1),
    num_judged=400,
    scored_by="the true parameters",
    likeness=Change(1e-20, 0.4),
    mmd=Change(0.2, 0.001),
    coverage=Share(0.4, 0.79, 0.8, 0.02),
    posterior=True,
    theta_known=True,
)

REFUSED = {
    "problems": {"problems": ("x_obs and x_sim seem to be swapped.",)},
    "leak": {"leak": "found", "leak_detail": "It depends on theta.", "paired": None},
    "perhaps inferred from x_obs": {
        "leak": "found",
        "leak_detail": "It depends on theta.",
        "chosen": "common",
    },
    "nothing to compare": {"gain": None, "chosen": None, "cannot": "There is nothing."},
    "no gain": {"chosen": None, "gain": Score(0.01, 0.02)},
    "rows that are no pairs": {
        "chosen": None,
        "no_pairs": True,
        "pair_p_value": 0.3,
    },
    "perhaps further simulations": {"chosen": None, "exchange_p_value": 0.3},
    "sides that lean to swapped": {
        "chosen": None,
        "swapped_log_odds": 0.7,
        "gain": Score(0.3, 0.05),
    },
    "few rows whose sides are not told": {
        "chosen": None,
        "is_untold": True,
        "gain": Score(0.3, 0.05),
    },
    "another population": {
        "chosen": None,
        "elsewhere_p_value": 0.001,
        "gain": Score(0.05, 0.02),
    },
    "noise that is evened out": {
        "chosen": None,
        "is_blurred": True,
        "gain": Score(0.3, 0.05),
    },
    "noise that x_sim may lack": {
        "chosen": None,
        "noise_alone": True,
        "gain": Score(0.3, 0.05),
    },
    "harm": {"chosen": None, "gain": Score(-0.5, 0.02)},
    "less like simulations": {"mmd": Change(0.005, 0.517), "likeness": Change(0.3, 1e-9)},
    "a posterior that gives NaN": {"no_answer": "The posterior gives no answer."},
    "covers less": {"coverage": Share(0.70, 0.30, 0.8, 0.02)},
}

DOUBTS = {
    "a leak with pairs": {"leak": "found", "leak_detail": "It depends on theta."},
    "a leak that was not tested": {"leak": "untested", "leak_detail": "Not tested."},
    "a leak that may be there": {"leak": "suspected", "leak_detail": "p = 0.005."},
    "pools": {"paired": False, "pair_p_value": 0.4},
    "no x_sim": {"paired": None},
    "noise that cannot be told": {"noise_told": False},
    "too sure": {"coverage": Share(0.3, 0.65, 0.8, 0.02)},
    "far outside": {"outside": 0.2},
    "not predicted": {"predicted": 1e-5},
    "means that move": {"means_share": 0.3},
    "outliers": {"num_outliers": 3},
    "contexts in one group": {"unseen": True},
    "a failure": {"failures": ("A diagnostic failed.",)},
}


def test_a_correction_that_helps_is_used():
    decision = decide(FINE)
    assert decision.verdict == "use"
    assert "+1.50 ± 0.10 nats per row" in decision.reasons[0]
    assert "4.48 times as probable" in decision.reasons[0]  # exp(1.5)
    assert "it is 94% of what the posterior at x_sim" in decision.reasons[0]
    assert "the context adds +0.60 ± 0.05" in decision.reasons[0]


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case):
    decision = decide(replace(FINE, **REFUSED[case]))
    assert decision.verdict == "do not use"
    assert "answer.corrector" not in decision.advice.code


@pytest.mark.parametrize("case", DOUBTS)
def test_a_doubt_asks_for_care_and_is_named(case):
    decision = decide(replace(FINE, **DOUBTS[case]))
    assert decision.verdict == "use with care"
    assert len(decision.reasons) == 2


def test_there_are_three_reasons_at_most_and_no_doubt_is_lost():
    everything = {name: one for case in DOUBTS.values() for name, one in case.items()}
    decision = decide(replace(FINE, **everything))
    assert len(decision.reasons) == 3
    # The gain is the first. Three doubts are on leaks, two on pairs: one of each counts.
    assert len(decision.reasons) - 1 + len(decision.advice.doubts) == len(DOUBTS) - 3
    assert all(one in str(decision.advice) for one in decision.advice.doubts)
    for case in REFUSED.values():
        assert len(decide(replace(FINE, **case)).reasons) <= 3


@pytest.mark.parametrize(
    "change",
    [{"chosen": "common"}, {"adds": None, "reads_context": False}],
    ids=["common is better", "the context is not read"],
)
def test_the_common_part(change):
    assert decide(replace(FINE, **change)).verdict == "use the marginal part only"


def test_the_first_line_that_holds_decides():
    both = replace(FINE, **REFUSED["problems"], **REFUSED["leak"])
    assert "swapped" in decide(both).reasons[0]


def test_the_sharpness_of_the_posterior_is_not_blamed_on_the_correction():
    facts = replace(FINE, coverage=Share(0.30, 0.71, 0.73, 0.02))
    assert decide(facts).verdict == "use"


@pytest.mark.parametrize("p_value", [1e-23, 0.005, 0.3])
def test_likeness_is_stated_as_it_was_tested(p_value):
    facts = replace(FINE, **REFUSED["no gain"], likeness=Change(p_value))
    said = " ".join(decide(facts).reasons)
    assert f"p = {p_value:.2g}" in said
    assert ("not seen to differ" in said) == (p_value >= 0.01)


@pytest.mark.parametrize("mean", [-3.0, -0.01, 0.0, 0.01])
def test_a_gain_that_is_not_shown_is_stated_with_its_sign(mean):
    facts = replace(FINE, chosen=None, gain=Score(mean, 0.1))
    reason = decide(facts).reasons[0]
    assert f"{mean:+.2f} ± 0.10" in reason
    assert ("does harm" in reason) == (mean < -0.2)


@pytest.mark.parametrize("mean", [-0.001, 0.001])
def test_a_change_that_is_printed_as_none_does_no_harm(mean):
    reason = decide(replace(FINE, chosen=None, gain=Score(mean, 0.0))).reasons[0]
    assert f"{mean:+.2f} ± 0.00" in reason
    assert reason.startswith("A correction changes nothing")


def test_what_to_collect_follows_from_what_is_missing():
    assert decide(FINE).advice.collect == ()
    collect = " ".join(decide(replace(FINE, paired=None)).advice.collect)
    assert "x_sim" in collect
    collect = " ".join(decide(replace(FINE, noise_told=False)).advice.collect)
    assert "Several simulations" in collect
    collect = " ".join(decide(replace(FINE, few_wordings=(10, 0.8))).advice.collect)
    assert "10 wordings carry 80%" in collect


def test_the_page_of_the_documentation_names_every_verdict():
    page = Path(__file__).parents[2] / "docs" / "how_to" / "check.md"
    text = page.read_text(encoding="utf-8")
    assert all(f"**{verdict}**" in text for verdict in VERDICTS)


def test_without_pairs_at_most_the_common_part_is_used():
    facts = replace(FINE, chosen="common", may_leak=True, paired=None)
    decision = decide(facts)
    assert decision.verdict == "use the marginal part only"
    assert any("between contexts may be theta" in said for said in decision.reasons)


@pytest.mark.parametrize("gain", [Score(0.3, 0.05), Score(0.01, 0.05)], ids=str)
def test_further_simulations_are_named_and_a_gain_is_explained_by_their_noise(gain):
    facts = replace(FINE, chosen=None, exchange_p_value=0.31, gain=gain)
    reason = decide(facts).reasons[0]
    assert "could change places (p = 0.31, 400 rows)" in reason
    assert ("only evens out its noise" in reason) == (gain.low > 0)
    assert (str(gain) in reason) == (gain.low > 0)


def test_mistakes_come_before_further_simulations():
    facts = replace(FINE, chosen=None, exchange_p_value=0.3, problems=("Units differ.",))
    assert decide(facts).reasons[0] == "Units differ."


def test_likeness_does_not_contradict_that_nothing_departs():
    facts = replace(FINE, chosen=None, exchange_p_value=0.57, likeness=Change(1.9e-9))
    reasons = decide(facts).reasons
    assert reasons[0].startswith("Nothing is seen to depart")
    assert "p = 1.9e-09" in reasons[1]
    assert "x_sim may lack the simulator's noise" in reasons[1]
    assert "nothing tried here corrects" not in " ".join(reasons)


@pytest.mark.parametrize("one_run", [True, False])
def test_what_x_sim_is_was_not_checked_unless_there_are_several_runs(one_run):
    not_checked = " ".join(decide(replace(FINE, one_run=one_run)).advice.not_checked)
    assert ("one run of the simulator" in not_checked) == one_run


def test_a_posterior_that_has_no_answer_gets_no_code():
    advice = decide(replace(FINE, no_answer="It gives NaN.")).advice
    assert advice.code == ""
    assert "the posterior has to be mended" in advice.use


def test_rows_that_have_to_be_mended_get_no_code():
    advice = decide(replace(FINE, problems=("Columns are in different orders.",))).advice
    assert advice.code == ""
    assert str(advice).startswith("What to use: nothing yet: the rows have to be mended")


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        (Exchange(0.001, 0.24), "do not use"),
        (Exchange(0.04, 0.24), "use"),  # may be chance
        (Exchange(0.001, 0.001), "use"),  # not perfect, but nearer than before
    ],
)
def test_rows_that_differ_more_from_their_simulations_than_before_are_vetoed(
    after, verdict
):
    decision = decide(replace(FINE, places=(Exchange(0.004, 0.003), after)))
    assert decision.verdict == verdict
    if verdict == "do not use":
        said = "distance 0.003 before, 0.24 after, p = 0.001"
        assert any(said in reason for reason in decision.reasons)


def test_a_gain_that_noise_explains_is_not_called_none():
    facts = replace(FINE, **REFUSED["noise that is evened out"])
    reason = decide(facts).reasons[0]
    assert "may have noise" in reason
    assert str(facts.gain) in reason
    assert "not shown to help" not in reason
    none = decide(replace(facts, gain=Score(0.01, 0.02)))
    assert "not shown to help" in none.reasons[0]


def test_that_rows_are_no_pairs_is_said_before_that_nothing_gains():
    nothing = replace(FINE, chosen=None, gain=Score(0.01, 0.02))
    reasons = decide(replace(nothing, paired=False, pair_p_value=0.3)).reasons
    assert "not seen to be pairs (p = 0.3)" in reasons[0]
    assert reasons[1:] == decide(nothing).reasons


def judged(gain, **change):
    """Return as much of a judgement as the choice of an option asks for."""
    option = SimpleNamespace(name="by context", gain=gain, lost=0.1)
    fine = {
        "by_context": option,
        "common": None,
        "adds": None,
        "may_leak": False,
        "no_pairs": False,
        "is_exchangeable": False,
        "noise_alone": False,
        "is_untold": False,
        "is_elsewhere": False,
        "leans_to_swapped": None,
        "is_blurred": False,
        "surely_departs": True,
        "is_noisy": False,
        "sides_told": True,
        "num_judged": 1000,
        "num_outliers": 0,
    }
    return SimpleNamespace(**fine | change)


@pytest.mark.parametrize(
    ("change", "least"),
    [
        ({}, 0.1),
        ({"is_noisy": True}, 0.2),
        ({"is_elsewhere": True}, 0.25),
        ({"is_blurred": True}, 0.7),
    ],
    ids=["plain", "noise is known", "elsewhere", "by unknown noise"],
)
def test_how_much_a_correction_must_gain(change, least):
    """By one standard error, here 0.1; or by two above a bound."""
    assert choose(judged(Score(least + 0.01, 0.1), **change)) is not None
    assert choose(judged(Score(least - 0.01, 0.1), **change)) is None


@pytest.mark.parametrize("outliers", [0, 1])
@pytest.mark.parametrize(("p_value", "departs"), [(0.001, True), (0.002, False)])
def test_noise_that_may_be_x_sims_own_must_not_explain_a_gain(p_value, departs, outliers):
    """One exchange of 1,999 that is as far apart is too many; outliers are observed."""
    known = [None, "x_sim", None, None, None, None, 40, outliers]
    surely = Judgement(*known, exchange_p_value=p_value).surely_departs
    assert surely == (departs or outliers > 0)
    judgement = judged(Score(2.0, 0.1), is_blurred=True, surely_departs=surely)
    assert (choose(judgement) is not None) == surely


@pytest.mark.parametrize("outliers", [0, 1])
def test_sides_that_lean_to_swapped_are_no_reason_for_a_correction(outliers):
    plan = SimpleNamespace(pairing=SimpleNamespace(log_odds=0.7, swapped=None))
    option = SimpleNamespace(gain=Score(1.0, 0.1))
    known = [plan, "x_sim", option, None, None, None, 40, outliers]
    leaning = Judgement(*known).leans_to_swapped
    assert leaning == (None if outliers else 0.7)
    assert (choose(judged(Score(1.0, 0.1), leans_to_swapped=leaning)) is None) != outliers
    plan.pairing.log_odds = -0.7
    assert Judgement(*known).leans_to_swapped is None


@pytest.mark.parametrize(
    ("told", "num", "least"), [(True, 40, 0.005), (False, 1000, 0.05), (False, 40, 0.125)]
)
def test_a_gain_must_be_worth_a_correction(told, num, least):
    """More is asked where nothing shows which side is which, most of few rows."""
    rows = {"sides_told": told, "num_judged": num}
    assert choose(judged(Score(1.1 * least, 0.001), **rows)) is not None
    assert choose(judged(Score(0.9 * least, 0.001), **rows)) is None


@pytest.mark.parametrize("outliers", [0, 2])
def test_a_correction_that_makes_no_row_worse_may_gain_little(outliers):
    def chosen(gain):
        option = SimpleNamespace(name="by context", gain=Score(gain, 0.1), lost=0.001)
        return choose(judged(None, by_context=option, num_outliers=outliers))

    assert chosen(0.01) is not None
    assert (chosen(0.0) is not None) == (outliers > 0)


def test_a_small_gain_is_said_to_be_small():
    small = replace(FINE, chosen=None, gain=Score(0.02, 0.002))
    assert "gains too little to be worth it" in decide(small).reasons[0]


@pytest.mark.parametrize(
    ("adds", "reads"),
    [
        (Score(0.01, 0.02), False),
        (Score(0.03, 0.02), True),
        (Score(0.1, 0.2), True),
        (Score(-0.1, 0.02), False),
    ],
)
def test_a_context_that_is_not_seen_to_add_is_not_read(adds, reads):
    """Neither by a standard error nor by what counts."""
    options = {
        name: SimpleNamespace(name=name, gain=Score(1.0, 0.1), lost=0.1)
        for name in ("by context", "common")
    }
    judgement = judged(
        None, by_context=options["by context"], common=options["common"], adds=adds
    )
    assert choose(judgement).name == ("by context" if reads else "common")
