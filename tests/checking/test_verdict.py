"""Tests for the rule of ma_sbi.checking.verdict: every line of its table."""

from dataclasses import replace

import pytest

import ma_sbi
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


UNPAIRED = Facts(
    leak="untested", leak_detail="no x_sim", observations_move=True, paired=False
)


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


MARGINAL = {"marginal": ABOVE, "conditional": NONE}
OPTIONS = ("posterior=posterior", "groups=groups", "seed=3")
ADVICE = {
    "a shift": ({}, "fit_corrector"),
    "slopes": ({"affine": True}, "fit_corrector"),
    "varies within regimes": ({"within": 0.6}, "fit_corrector"),
    "all that can be given": (
        {"encoder": "encoder", "options": OPTIONS},
        "fit_corrector",
    ),
    "read by us": (
        {"encoder": "read_context(context).suitable_encoder()"},
        "fit_corrector",
    ),
    "own corrector, fitted": (
        {"own_corrector": "Mine(1)", "own_is_fitted": True},
        "Mine",
    ),
    "own corrector": ({"own_corrector": "Mine(1)"}, "Mine"),
    "the mean": (MARGINAL, "fit_corrector"),
    "the mean, all given": (
        MARGINAL | {"encoder": "encoder", "options": OPTIONS},
        "fit_corrector",
    ),
    "the mean, slopes": (MARGINAL | {"affine": True}, "fit_corrector"),
    "no pairs": (
        {"total": None, "conditional": None, "marginal": None, "paired": False},
        "fit_corrector",
    ),
    "gain not known": ({"total": None, "conditional": None}, "fit_corrector"),
    "leak": (REFUSED["leak"], None),
    "no departure": (REFUSED["no departure"], None),
    "harm": (REFUSED["harm"], None),
}


@pytest.mark.parametrize("case", ADVICE)
@pytest.mark.filterwarnings("ignore")
def test_the_advice_fits_the_verdict_and_its_code_runs(case):
    change, corrector = ADVICE[case]
    facts = replace(FINE, **change)
    advice = decide(facts).advice
    assert advice.corrector == corrector
    world = World(n=40)
    # Names that the user has: what was not given is not there.
    given = {"posterior": exact(), "context": world.context, "x_obs": world.x_obs}
    given["x_sim" if facts.paired else "x_pool"] = world.x_sim
    if facts.encoder == "encoder":
        given["encoder"] = ma_sbi.CategoryEncoder(unseen="zero")
    if "groups=groups" in facts.options:
        given["groups"] = [f"group {row // 2}" for row in range(40)]
    if facts.own_corrector:
        own = ma_sbi.ShiftCorrector(ma_sbi.CategoryEncoder())
        if facts.own_is_fitted:
            own.fit(world.context, world.x_obs, world.x_sim)
        given["corrector"] = own
    exec(advice.code, given)
    assert given["draws"].shape == (1000, 40, 2)
    # It can be copied from what is printed.
    assert str(advice).endswith(f"\n{advice.code}")


def test_true_parameters_point_to_other_methods_without_numbers():
    reasons = decide(replace(FINE, theta_known=True)).advice.reasons
    assert any("RoPE" in reason and "Results" in reason for reason in reasons)
    assert not any(character.isdigit() for reason in reasons for character in reason)


def test_the_advice_names_the_weights():
    advice = decide(replace(FINE, choice="80% shift, 20% nothing departs")).advice
    assert "80% shift, 20% nothing departs" in advice.reasons[0]


def test_without_pairs_it_names_what_is_assumed():
    advice = decide(UNPAIRED).advice
    assert "same distribution in every context" in advice.reasons[0]
    assert "simulations=x_pool" in advice.code


def test_lines_of_code_fit_a_terminal():
    facts = replace(
        FINE,
        encoder="read_context(context).suitable_encoder(SentenceEncoder())",
        options=("posterior=posterior", "groups=groups", f"seed={2**32 - 1}"),
    )
    for change in ({}, {"marginal": ABOVE, "conditional": NONE}):
        code = decide(replace(facts, **change)).advice.code
        assert max(map(len, code.splitlines())) < 80
