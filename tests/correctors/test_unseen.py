"""Tests for ma_sbi.correctors.unseen: contexts that calibration has not seen are told."""

import json
import logging
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from ma_sbi import (
    CategoryEncoder,
    CorrectedPosterior,
    HashEncoder,
    NumberEncoder,
    SentenceEncoder,
    ShiftCorrector,
    TableEncoder,
    fit_corrector,
    from_callable,
)
from ma_sbi.correctors import UnrelatedContext, UnseenContext
from ma_sbi.correctors.opposites import may_oppose
from ma_sbi.correctors.unseen import SeenContexts

HIGH, FINE = "The sensor reads high.", "All is well."
NOTES = [HIGH, FINE] * 20
X_SIM = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
X_OBS = X_SIM + torch.tensor([[0.8, 0.0], [0.0, 0.0]]).repeat(20, 1)


def posterior():
    def draw(num, x):
        return x + torch.randn(num, *x.shape)

    def log_prob(theta, x):
        return -0.5 * (theta - x).square().sum(dim=-1)

    return from_callable(draw, log_prob, batched=True)


FITTED = {
    "fit_corrector": lambda: fit_corrector(NOTES, X_OBS, X_SIM, seed=0),
    "shift": lambda: ShiftCorrector(HashEncoder()).fit(NOTES, X_OBS, X_SIM),
}
CALLS = {
    "sample": lambda corrected, x, notes: corrected.sample(50, x, notes, seed=0),
    "log_prob": lambda corrected, x, notes: corrected.log_prob(
        torch.zeros(7, len(x), 2), x, notes
    ),
    "corrections": lambda corrected, x, notes: corrected.corrections(x, notes),
    "given": lambda corrected, x, notes: corrected.given(notes[0]).sample_batched((9,), x),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", FITTED)
def test_each_call_warns_once_and_counts_rows(name, call):
    corrected = CorrectedPosterior(posterior(), FITTED[name]())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CALLS[call](corrected, X_OBS[:3], ["The sensor reads low."] * 3)
    told = [one for one in caught if issubclass(one.category, UnseenContext)]
    assert len(told) == 1
    assert str(told[0].message).startswith("3 of 3 rows have a context that calibration")
    assert told[0].filename == __file__


@pytest.mark.parametrize("name", FITTED)
def test_what_was_seen_or_is_missing_is_not_told(name):
    corrector = FITTED[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        corrector.corrections(X_OBS[:3], [HIGH, FINE, None])
    assert str(corrector.unseen([HIGH, None])) == "calibration has seen every context"


def test_numbers_outside_the_calibrated_range_are_told_and_others_are_not():
    dose = np.linspace(0, 5, 40)
    x_obs = X_SIM + torch.from_numpy(dose).float()[:, None]
    for corrector in (
        ShiftCorrector(NumberEncoder()).fit(dose, x_obs, X_SIM),
        fit_corrector(dose, x_obs, X_SIM, seed=0),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            corrector.corrections(X_SIM[:2], [0.01, 4.99])
        said = r"^2 of 3 rows .* range \(first: 7, calibrated from 0 to 5\)"
        with pytest.warns(UnrelatedContext, match=said):
            corrector.corrections(X_SIM[:3], [7.0, 3.0, -1.0])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("far", [-60.0, 13.0, 1e6])
def test_numbers_far_outside_count_as_missing_and_what_is_beside_them_stays(far):
    dose = np.linspace(0, 5, 40)
    table = pd.DataFrame({"note": [HIGH, FINE] * 20, "dose": dose})
    shift = 3.0 * (table["note"] == HIGH) + dose
    x_obs = X_SIM + torch.from_numpy(shift.to_numpy()).float()[:, None]
    encoder = TableEncoder([CategoryEncoder(), NumberEncoder()])
    for corrector in (
        ShiftCorrector(encoder).fit(table, x_obs, X_SIM),
        fit_corrector(table, x_obs, X_SIM, seed=0),
    ):
        new, gap = (
            pd.DataFrame({"note": [HIGH, FINE], "dose": [value] * 2})
            for value in (far, np.nan)
        )
        corrected = corrector.correct(X_SIM[:1].expand(2, -1), new)
        expected = corrector.correct(X_SIM[:1].expand(2, -1), gap)
        assert torch.equal(corrected, expected)
        assert (corrected[1] - corrected[0] > 1).all()
    numbers = pd.DataFrame({"dose": dose, "other": dose[::-1] ** 2})
    beside = fit_corrector(numbers, x_obs, X_SIM, seed=0)
    new, gap = (pd.DataFrame({"dose": [2.0], "other": [one]}) for one in (1e4, np.nan))
    assert torch.equal(beside.correct(X_SIM[:1], new), beside.correct(X_SIM[:1], gap))
    alone = ShiftCorrector(NumberEncoder()).fit(dose, x_obs, X_SIM)
    torch.testing.assert_close(
        alone.shift([far])[0], (x_obs - X_SIM).mean(dim=0), atol=1e-4, rtol=0
    )


def test_a_date_after_the_last_one_is_outside():
    days = pd.date_range("2024-01-01", periods=40)
    corrector = fit_corrector(pd.Series(days), X_OBS, X_SIM, seed=0)
    later = pd.Series(pd.to_datetime(["2024-01-05 12:00", "2025-01-01 12:00"]))
    with pytest.warns(UnrelatedContext, match="1 of 2 rows"):
        corrector.corrections(X_OBS[:2], later)


def test_columns_of_a_table_are_judged_by_their_kind():
    table = pd.DataFrame({"note": NOTES, "dose": np.linspace(0, 5, 40)})
    corrector = fit_corrector(table, X_OBS, X_SIM, seed=0)
    new = pd.DataFrame({"note": [HIGH, "odd", None, FINE], "dose": [1.234, 2, 3, 9.0]})
    found = corrector.unseen(new)
    assert found.new.tolist() == [False, True, False, False]
    assert found.outside.tolist() == [False, False, False, True]


def test_where_texts_do_not_repeat_a_new_one_is_logged_and_an_odd_one_warned_of(caplog):
    texts = [f"Drift of {word} upwards seen by eye" for word in map(str, range(100, 140))]
    corrector = ShiftCorrector(HashEncoder()).fit(texts, X_OBS, X_SIM)
    with warnings.catch_warnings(), caplog.at_level(logging.INFO, "ma_sbi"):
        warnings.simplefilter("error")
        corrector.corrections(X_OBS[:1], ["Drift of 140 upwards seen by eye"])
    assert "1 of 1 rows have a context" in caplog.text
    for odd in ("Drift of 140 downwards seen by eye", "Lunch was good."):
        with pytest.warns(UnseenContext):
            corrector.corrections(X_OBS[:1], [odd])


@pytest.mark.text
@pytest.mark.parametrize(
    "text", ["The sensor reads low.", "The sensor does not read high.", "It isn't high."]
)
def test_an_opposite_is_told_with_the_context_that_it_may_oppose(text):
    corrector = ShiftCorrector(SentenceEncoder()).fit(NOTES, X_OBS, X_SIM)
    with pytest.warns(UnseenContext, match=f"opposite .*'{HIGH}'"):
        corrector.corrections(X_OBS[:1], [text])


@pytest.mark.text
def test_a_text_about_something_else_is_far():
    corrector = ShiftCorrector(SentenceEncoder()).fit(NOTES, X_OBS, X_SIM)
    found = corrector.unseen(
        ["Bring cake on Friday.", "High readings of the sensor.", HIGH]
    )
    assert found.new.tolist() == [True, True, False]
    assert found.far.tolist() == [True, False, False]
    assert not found.opposed.any()


@pytest.mark.parametrize(
    ("text", "other", "opposes"),
    [
        ("reads low", "reads high", True),
        ("Reads LOW!", "it reads high", True),
        ("does not read high", "reads high", True),
        ("doesn’t read high", "reads high", True),
        ("never high", "not high", False),
        ("high and low", "high", False),
        ("reads high today", "reads high", False),
        ("notable", "able", False),
    ],
)
def test_what_may_oppose(text, other, opposes):
    assert may_oppose(text, other) is opposes
    assert may_oppose(other, text) is opposes


def test_an_x_outside_the_training_range_is_counted_by_rows():
    x_train = torch.randn(500, 2, generator=torch.Generator().manual_seed(1))
    base = from_callable(
        lambda num, x: x + torch.randn(num, *x.shape),
        lambda theta, x: -0.5 * (theta - x).square().sum(dim=-1),
        batched=True,
        x_train=x_train,
    )
    noisy = X_OBS + torch.randn(40, 2, generator=torch.Generator().manual_seed(2))
    corrected = CorrectedPosterior(base, fit_corrector(NOTES, noisy, X_SIM, seed=0))
    assert len(corrected.corrections(X_OBS[:2], NOTES[:2]).x) > 1
    x = torch.cat([X_OBS[:3], torch.full((2, 2), 90.0)])
    for call in ("sample", "log_prob"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            CALLS[call](corrected, x, NOTES[:5])
        told = [str(one.message) for one in caught if "trained on" in str(one.message)]
        assert len(told) == 1
        assert told[0].startswith("2 of 5 observations (first: row 3)")


def test_the_table_of_opposites_in_the_docs_is_that_of_the_committed_rows():
    root = Path(__file__).parents[2]
    page = (root / "docs/how_to/free_text.md").read_text(encoding="utf-8")
    rows = pd.read_csv(root / "benchmarks/results/opposites.csv")
    rows = rows[rows["calibration"] == "free text"]
    columns = ["distance", "shift", "regimes", "fit_corrector", "told"]
    means = rows.groupby("kind")[columns].mean()
    printed = [line for line in page.splitlines() if "%" in line and line.startswith("|")]
    for kind in ("paraphrase", "opposite", "negation", "amount"):
        distance, *shares = means.loc[kind]
        cells = " | ".join([f"{distance:.2f}", *(f"{share:.0%}" for share in shares)])
        cells = cells.replace("%", " %")
        assert sum(f"| {cells} |" in line for line in printed) == 1


@pytest.mark.text
def test_opposites_are_nearer_than_paraphrases_and_the_rule_finds_most():
    path = Path(__file__).parents[2] / "benchmarks/opposites.json"
    faults = json.loads(path.read_text(encoding="utf-8"))
    known = pd.Series([text for one in faults.values() for text in one["seen"]])
    seen = SeenContexts.of(known, torch.zeros(len(known), 1), SentenceEncoder())
    found = {
        kind: seen.read(pd.Series([text for one in faults.values() for text in one[kind]]))
        for kind in ("paraphrase", "opposite", "negation")
    }
    assert found["opposite"].opposed.mean() > 0.8
    assert found["negation"].opposed.mean() == 1
    assert not found["paraphrase"].opposed.any()
    assert not any(one.far.any() for one in found.values())
