"""Tests for the rule of ma_sbi.checking.verdict: every line of its table."""

from dataclasses import replace

import pytest

import ma_sbi.correctors
from ma_sbi.checking import Facts, decide
from ma_sbi.checking.verdict import VERDICTS
from ma_sbi.diagnostics import Gain
from tests.worlds import World, exact

ABOVE, NONE, BELOW = (
    Gain(0.5, 0.4, 0.6),
    Gain(0.0, -0.1, 0.1),
    Gain(-0.5, -0.6, -0.4),
)
FINE = Facts(
    leak="none",
    leak_detail="It does not depend on theta.",
    departure=True,
    marginal=NONE,
    conditional=ABOVE,
    total=ABOVE,
    affine=False,
    informative=True,
    num_triples=500,
    num_needed=50,
    within=0.1,
    usual_after=True,
    covered=True,
    explained=True,
    inside_range=True,
    means_move=False,
    observations_move=True,
)


def test_all_fine_is_a_plain_yes():
    assert decide(FINE).verdict == "use"


def test_what_could_not_be_tested_of_the_posterior_is_no_doubt():
    untested = dict.fromkeys(
        ("usual_after", "covered", "explained", "inside_range", "means_move", "within")
    )
    assert decide(replace(FINE, **untested)).verdict == "use"


DOUBTS = {
    "leak suspected": {"leak": "suspected", "leak_detail": "It may depend on theta."},
    "weak leak test": {"leak": "weak test", "leak_detail": "too few rows"},
    "leak untested": {"leak": "untested", "leak_detail": "no x_sim"},
    "only both parts together": {"conditional": NONE, "marginal": NONE},
    "affine": {"affine": True},
    "little information": {"informative": False},
    "few triples": {"num_needed": 501},
    "mostly within contexts": {"within": 0.6},
    "still unusual": {"usual_after": False},
    "outside the range": {"inside_range": False},
    "does not cover": {"covered": False},
    "does not predict": {"explained": False},
    "means still move": {"means_move": True},
}


@pytest.mark.parametrize("doubt", DOUBTS)
def test_each_doubt_alone_asks_for_care_and_is_named(doubt):
    decision = decide(replace(FINE, **DOUBTS[doubt]))
    assert decision.verdict == "use with care"
    assert len(decision.reasons) == 2  # the gain and the doubt


REFUSED = {
    "leak": {"leak": "found", "leak_detail": "It depends on theta."},
    "no departure": {"departure": False},
    "harm": {"total": BELOW, "conditional": BELOW},
    "not shown to help": {"total": NONE, "conditional": NONE},
    "not shown to help, the context does": {"total": NONE},
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_refused(reason):
    assert decide(replace(FINE, **REFUSED[reason])).verdict == "do not use"


def test_no_departure_is_good_news():
    assert "good news" in decide(replace(FINE, departure=False)).reasons[0]


def test_a_leak_is_refused_before_anything_else():
    leaking = replace(
        FINE, leak="found", leak_detail="It depends on theta.", departure=False
    )
    assert decide(leaking).reasons[0] == "It depends on theta."


def test_a_leak_leaves_the_part_that_does_not_read_the_context():
    leaking = replace(FINE, leak="found", marginal=ABOVE)
    assert "may be used" in decide(leaking).reasons[-1]


@pytest.mark.parametrize("conditional", [NONE, BELOW], ids=["nothing", "harm"])
@pytest.mark.parametrize("total", [ABOVE, NONE, BELOW], ids=["gain", "none", "loss"])
def test_a_context_that_adds_nothing_leaves_the_marginal_part(conditional, total):
    facts = replace(FINE, marginal=ABOVE, conditional=conditional, total=total)
    assert decide(facts).verdict == "use the marginal part only"


def test_the_marginal_part_carries_its_doubts():
    facts = replace(FINE, marginal=ABOVE, conditional=NONE, leak="suspected")
    facts = replace(facts, leak_detail="It may depend on theta.", usual_after=False)
    reasons = decide(facts).reasons
    assert "It may depend on theta." in reasons
    assert "still do not look" in reasons[-1]


def test_too_few_triples_are_named_where_the_context_may_help():
    facts = replace(FINE, marginal=ABOVE, num_needed=900)
    maybe = replace(facts, conditional=Gain(0.05, -0.1, 0.2))
    assert "about 900" in decide(maybe).reasons[1]
    never = replace(facts, conditional=Gain(-0.05, -0.2, 0.1))
    assert not any("900" in reason for reason in decide(never).reasons)


UNPAIRED = Facts(leak="untested", leak_detail="no x_sim", observations_move=True)


def test_without_pairs_the_most_is_care():
    assert decide(UNPAIRED).verdict == "use with care"
    assert decide(replace(UNPAIRED, leak="none")).verdict == "use with care"


def test_without_pairs_moving_means_may_be_theta():
    reasons = decide(replace(UNPAIRED, means_move=True)).reasons
    assert any("remove a true effect" in reason for reason in reasons)


def test_without_pairs_observations_that_do_not_vary_leave_nothing_to_correct():
    assert decide(replace(UNPAIRED, observations_move=False)).verdict == "do not use"


def test_without_pairs_a_leak_is_refused():
    assert decide(replace(UNPAIRED, leak="found")).verdict == "do not use"


def test_the_page_of_the_documentation_names_every_verdict():
    from pathlib import Path

    page = Path(__file__).parents[2] / "docs" / "how_to" / "check.md"
    text = page.read_text(encoding="utf-8")
    assert all(f"**{verdict}**" in text for verdict in VERDICTS)


WITHIN = {"within": 0.6}
ADVICE = {
    "a shift": ({}, "ShiftCorrector", "Shift", "Point"),
    "slopes": ({"affine": True}, "ComposedCorrector", "Affine", "Point"),
    "varies within regimes": (WITHIN, "BootstrapCorrector", "Shift", "Mixture"),
    "varies, no regimes": (
        WITHIN | {"contexts_repeat": False, "encoder": "HashEncoder()"},
        "BootstrapCorrector",
        "Shift",
        "Mixture",
    ),
    # It varies within regimes, too, but because of x.
    "slopes, varies": ({"affine": True} | WITHIN, "ComposedCorrector", "Affine", "Point"),
    "a table": ({"encoder": "encoder_for(context)"}, "ShiftCorrector", "Shift", "Point"),
    "own corrector": (
        {"own_corrector": "Mine(1)", "own_is_fitted": True},
        "Mine",
        None,
        None,
    ),
    "the mean": (
        {"marginal": ABOVE, "conditional": NONE},
        "ShiftCorrector",
        "Shift",
        "Point",
    ),
    "the mean, slopes": (
        {"marginal": ABOVE, "conditional": NONE, "affine": True},
        "ComposedCorrector",
        "Affine",
        "Point",
    ),
    "no pairs": (
        {"total": None, "conditional": None, "marginal": None},
        "MatchingCorrector",
        "Shift",
        "Point",
    ),
    "leak": (REFUSED["leak"], None, None, None),
    "no departure": (REFUSED["no departure"], None, None, None),
    "harm": (REFUSED["harm"], None, None, None),
}


@pytest.mark.parametrize("case", ADVICE)
@pytest.mark.filterwarnings("ignore")
def test_the_advice_fits_the_verdict_and_its_code_runs(case):
    change, corrector, departure, inference = ADVICE[case]
    advice = decide(replace(FINE, **change)).advice
    assert (advice.corrector, advice.departure, advice.inference) == (
        corrector,
        departure,
        inference,
    )
    world = World(n=40)
    given = {
        "posterior": exact(),
        "context": world.context,
        "x_obs": world.x_obs,
        "x_sim": world.x_sim,
        "x_pool": world.x_sim,
    }
    if change.get("own_corrector"):
        given["corrector"] = ma_sbi.ShiftCorrector(ma_sbi.CategoryEncoder()).fit(
            world.context, world.x_obs, world.x_sim
        )
    exec(advice.code, given)
    assert given["draws"].shape == (1000, 40, 2)
    # It can be copied from what is printed.
    assert str(advice).endswith(f"\n{advice.code}")


def test_true_parameters_point_to_other_methods_without_numbers():
    reasons = decide(replace(FINE, theta_known=True)).advice.reasons
    assert any("RoPE" in reason and "Results" in reason for reason in reasons)
    assert not any(character.isdigit() for reason in reasons for character in reason)


def test_contexts_that_do_not_repeat_are_shared_by_similarity():
    facts = replace(FINE, within=0.6, contexts_repeat=False)
    assert "width='auto'" in decide(facts).advice.code


def test_matching_names_what_it_assumes():
    facts = replace(UNPAIRED, contexts_repeat=False)
    reasons = decide(facts).advice.reasons
    assert "same distribution in every context" in reasons[0]
    assert "into regimes" in reasons[1]
