"""The decision rule, case by case, and names that exist."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch

import ma_sbi.correctors
from ma_sbi.correctors import Preflight
from ma_sbi.diagnostics import (
    Estimate,
    departure_family,
    mutual_information,
    out_of_distribution,
    recommend,
    weak_context,
)
from ma_sbi_bench.methods import METHODS, NEEDS, Calibration, Materials
from ma_sbi_bench.tasks import get_task

CONTEXT = {"posterior", "context", "pairs", "x_obs"}
THETA = {"posterior", "simulator", "theta*", "unlabelled", "x_obs"}


def weak(conditional, marginal=0.3, within=0.1, **changes):
    """A result with given gains, from a world that has some."""
    rows = get_task("gaussian_linear").draw(40, seed=0)
    found = weak_context(rows.context, rows.x_obs, rows.x_sim, seed=0)
    half = 0.05

    def around(value):
        return Estimate(value, value - half, value + half)

    return replace(
        found,
        conditional=around(conditional),
        marginal=around(marginal),
        total=around(conditional + marginal),
        within=within,
        **changes,
    )


NO_INFORMATION = mutual_information(
    torch.randn(60, 2, generator=torch.Generator().manual_seed(0)),
    ["a", "b"] * 30,
    num_permutations=50,
    seed=0,
)
HARMS = weak(-0.2)
HELPS = weak(0.6)


@pytest.mark.parametrize(
    ("has", "options", "method", "corrector"),
    [
        (THETA, {}, "rope", None),
        (THETA - {"unlabelled"}, {}, "rope_calibration", None),
        (THETA | CONTEXT, {}, "rope", None),
        (CONTEXT, {}, "ma_sbi", "ShiftCorrector"),
        (CONTEXT, {"weak_context": HELPS}, "ma_sbi", "ShiftCorrector"),
        (CONTEXT, {"weak_context": HARMS}, "ma_sbi", "MarginalCorrector"),
        (CONTEXT, {"weak_context": weak(0.3, within=0.8)}, "ma_sbi", "BootstrapCorrector"),
        (CONTEXT, {"weak_context": weak(-0.2, marginal=-0.1)}, "npe", None),
        (
            CONTEXT | {"simulations"},
            {"weak_context": weak(-0.2, marginal=-0.1)},
            "nnpe",
            None,
        ),
        (
            {"posterior", "context", "x_obs", "simulations"},
            {},
            "ma_sbi",
            "MatchingCorrector",
        ),
        (CONTEXT, {"exclusion": False}, "npe", None),
        (CONTEXT | {"simulations"}, {"exclusion": False}, "nnpe", None),
        ({"posterior", "x_obs"}, {}, "npe", None),
        ({"simulations", "x_obs"}, {}, "nnpe", None),
        (set(), {}, "prior", None),
    ],
)
def test_the_rule(has, options, method, corrector):
    found = recommend(has, **options)
    assert found.method == method
    assert found.corrector == corrector
    assert found.method in str(found)
    assert len(found.reasons) >= 1


def test_a_departure_that_depends_on_x_gets_an_affine_corrector():
    x_sim = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    family = departure_family(["a", "b"] * 100, 1.5 * x_sim + 1, x_sim, seed=0)
    # It varies within regimes, too, but because of x.
    found = recommend(CONTEXT, family=family, weak_context=weak(0.3, within=0.8))
    assert (found.method, found.departure) == ("ma_sbi_affine", "Affine")
    assert any("wrong family" in reason for reason in found.reasons)


def test_an_affine_departure_needs_no_context():
    x_sim = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    family = departure_family(["a", "b"] * 100, 1.5 * x_sim + 1, x_sim, seed=0)
    found = recommend(CONTEXT, family=family, weak_context=HARMS)
    assert found.method == "ma_sbi_affine"


def test_no_departure_at_all_is_left_to_npe():
    rows = get_task("slcp", setting="well_specified").draw(60, seed=0)
    none = weak_context(rows.context, rows.x_obs, rows.x_sim, seed=0)
    found = recommend(CONTEXT | {"simulations"}, weak_context=none)
    assert found.method == "npe"
    assert any("are the same" in reason for reason in found.reasons)


def test_residuals_far_out_call_for_the_stochastic_variant():
    lengths = torch.ones(40, 1)
    lengths[0] = 10.0
    preflight = Preflight.of(lengths, torch.zeros(40, dtype=torch.long))
    found = recommend(CONTEXT, preflight=preflight)
    assert (found.corrector, found.inference) == ("BootstrapCorrector", "Mixture")


def test_what_looks_like_a_simulation_is_left_alone():
    x_sim = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    usual = out_of_distribution(x_sim[:50], x_sim[50:], seed=0)
    found = recommend({"posterior", "simulations"}, out_of_distribution=usual)
    assert found.method == "npe"
    assert any("cannot be told from simulations" in reason for reason in found.reasons)


def test_our_evidence_is_told_beside_the_papers_rule():
    found = recommend(THETA | CONTEXT | {"simulations"}, weak_context=HELPS)
    assert found.method == "rope"
    assert found.alternatives[0] == "ma_sbi"
    assert {"fmcpe", "classifier_free"} <= set(found.alternatives)
    assert found.reasons[0].startswith("The paper's rule")
    assert any("RoPE does harm" in reason for reason in found.reasons)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"free_text": True}, "SentenceEncoder"),
        ({"information": NO_INFORMATION}, "No information"),
        ({"weak_context": HARMS}, "Evidence"),
        ({"weak_context": weak(0.03)}, "not shown"),
        ({"weak_context": weak(0.3, num_needed=999)}, "About 999 triples"),
        ({"exclusion": False}, "remove a true effect"),
        (
            {"contexts_repeat": False, "weak_context": weak(0.3, within=0.8)},
            "width='auto'",
        ),
    ],
    ids=["text", "information", "weak", "unclear", "few", "leak", "no regimes"],
)
def test_the_reasons_say(options, words):
    assert any(words in reason for reason in recommend(CONTEXT, **options).reasons)


def test_few_pairs_are_named():
    reasons = recommend(THETA, num_triples=12).reasons
    assert any("12 pairs are few" in reason for reason in reasons)


def test_every_answer_names_what_exists_and_can_be_run():
    results = [{}, {"weak_context": HELPS}, {"weak_context": HARMS}, {"exclusion": False}]
    kinds = [kind for kind in NEEDS if kind != "diffusion"]
    for size in range(len(kinds) + 1):
        for has in combinations(kinds, size):
            for options in results:
                found = recommend(has, **options)
                for name in (found.method, *found.alternatives):
                    assert name in METHODS
                    assert name == found.method or METHODS[name]().needs <= set(has)
                if found.corrector is None:
                    assert METHODS[found.method]().needs <= set(has)
                for name in (found.corrector, found.departure, found.inference):
                    assert name is None or name in ma_sbi.correctors.__all__


def test_an_exclusion_test_is_read():
    class Exclusion:
        def __init__(self, passed):
            self.passed = passed

    assert recommend(CONTEXT, exclusion=Exclusion(True)).method == "ma_sbi"
    assert recommend(CONTEXT, exclusion=Exclusion(None)).method == "ma_sbi"
    assert recommend(CONTEXT, exclusion=Exclusion(False)).method == "npe"


def test_materials_are_read(exact_gaussian):
    rows = get_task("gaussian_linear").draw(30, seed=0)
    materials = Materials(
        prior=get_task("gaussian_linear").prior,
        calibration=Calibration(rows.x_obs, rows.context, rows.x_sim, rows.theta),
        simulator=get_task("gaussian_linear").simulate,
        posterior=exact_gaussian,
        unlabelled=rows.x_obs,
    )
    found = recommend(materials)
    assert found.method == "rope"
    assert any("30 pairs are few" in reason for reason in found.reasons)


def test_a_material_that_does_not_exist_is_named():
    with pytest.raises(ValueError, match="there is no material 'theta'"):
        recommend({"theta"})
