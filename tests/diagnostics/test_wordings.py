"""Tests for ma_sbi.diagnostics.wordings: regimes behind free text."""

import numpy as np
import pandas as pd
import pytest
import torch

import ma_sbi
from ma_sbi import HashEncoder
from ma_sbi.checking.inputs import prepare
from ma_sbi.diagnostics import dependence_test
from ma_sbi.diagnostics.wordings import (
    MISSING,
    Wordings,
    learning_rows,
    regimes_of_rows,
)

# Ten wordings of each of four notes.
SAID = {
    "high": (
        "The sensor reads high.;Readings are above the reference.;All values come out too "
        "large.;The gauge overstates what is there.;Numbers on the display exceed the "
        "standard.;We get more signal than expected.;Offset upwards on every channel.;The "
        "output sits over the true level.;Measured values are inflated today.;The meter "
        "shows too much."
    ),
    "dim": (
        "The lamp is old and weak.;Light source has lost half of its power.;The bulb is "
        "fading.;Illumination is poor today.;Lamp intensity dropped a lot.;The beam is "
        "faint.;Source close to the end of its life.;Not much light reaches the sample.;"
        "The lamp needs replacing, it glows dimly.;Weak illumination during the run."
    ),
    "fine": (
        "All is well.;Nothing to report.;Everything works as usual.;Routine run without "
        "problems.;The instrument behaved normally.;No issues today.;Standard conditions, "
        "all good.;A normal day.;Operation as expected.;Everything in order."
    ),
    "wet": (
        "It rained and the cell was damp.;Humidity was very high in the lab.;Water "
        "condensed on the window.;Moist air entered the chamber.;The desiccant is used "
        "up.;Damp weather, fog on the optics.;Condensation inside the housing.;"
        "The room was humid all morning.;Drops of water on the lens.;Wet sample holder."
    ),
}
WORDINGS = {name: said.split(";") for name, said in SAID.items()}
SHIFT = np.array([[1.0, 0.5], [-0.5, 0.3], [0.0, 0.0], [0.2, -1.0]])
GAIN = np.array([[0.4, 0.0], [-0.5, -0.5], [0.0, 0.0], [0.0, 0.5]])


class Notes:
    """Rows whose departure is affine, with a label and with one of ten wordings of it."""

    def __init__(self, n=400, seed=0, gain=1.0):
        rng = np.random.default_rng(seed)
        self.x_sim = rng.normal(size=(n, 2))
        regime, wording = rng.integers(4, size=n), rng.integers(10, size=n)
        noise = 0.1 * rng.normal(size=(n, 2))
        departure = SHIFT[regime] + gain * GAIN[regime] * self.x_sim + noise
        self.x_obs = self.x_sim + departure
        self.regime = regime
        self.labels = np.array(list(WORDINGS))[regime]
        self.texts = [
            WORDINGS[label][which]
            for label, which in zip(self.labels, wording, strict=True)
        ]

    def wordings(self):
        codes, texts = pd.factorize(np.array(self.texts, dtype=object))
        vectors = HashEncoder().fit(texts).transform(texts)
        return Wordings(codes, list(texts), torch.from_numpy(np.asarray(vectors)))

    def find(self, **options):
        rows = torch.from_numpy(self.x_obs), torch.from_numpy(self.x_sim)
        return regimes_of_rows(self.wordings(), *rows, **options)


def agree(found, regime):
    """Share of rows in the regime that most of their label are in, one to one."""
    table = pd.crosstab(found, regime).to_numpy()
    best = table.argmax(axis=1)
    return table.max(axis=1).sum() / table.sum() if len(set(best)) == len(best) else 0.0


@pytest.fixture(scope="module")
def notes():
    return Notes()


@pytest.fixture(scope="module")
def answers(notes):
    rows = {"x_sim": notes.x_sim, "seed": 0}
    return {
        name: ma_sbi.check(notes.x_obs, context, **rows)
        for name, context in {"labels": notes.labels, "texts": notes.texts}.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("context", ["labels", "texts"])
def test_texts_are_judged_as_labels_are(answers, context):
    found = answers[context]
    assert found.results["family"].family == "affine"
    assert found.verdict == "use", found


def test_information_of_texts_is_that_of_their_labels(answers):
    labels, texts = (answers[name].results["information"] for name in answers)
    # Each estimate's own 95 % interval holds the other.
    assert labels.low <= texts.value <= labels.high
    assert texts.low <= labels.value <= texts.high


def test_pictures_show_regimes_not_wordings(answers):
    assert len(set(answers["texts"].rows.context)) == 4


@pytest.mark.parametrize("gain", [0.0, 1.0], ids=["shift", "affine"])
@pytest.mark.parametrize("seed", [1, 2])
def test_regimes_are_those_behind_the_wordings(seed, gain):
    notes = Notes(n=200, seed=seed, gain=gain)
    found = notes.find()
    # The truth is known; a few wordings occur once, and are told by their spelling only.
    assert agree(found, notes.regime) > 0.95


def test_texts_that_tell_nothing_have_no_regimes(notes):
    shuffled = Notes()
    shuffled.texts = list(np.random.default_rng(1).permutation(notes.texts))
    assert shuffled.find() is None


def test_a_row_has_no_part_in_its_own_regime(notes):
    # Its departure becomes that of another regime, and its wording keeps its regime.
    moved = Notes()
    moved.x_obs[0] = moved.x_sim[0] + SHIFT[(moved.regime[0] + 1) % 4]
    before, after = notes.find(), moved.find()
    assert after[0] == before[0]


def test_rows_that_are_tested_have_no_part_in_their_regimes(notes):
    learn = learning_rows(len(notes.x_obs), seed=0)
    rest = np.setdiff1d(np.arange(len(notes.x_obs)), learn)
    other = Notes()
    other.x_obs[rest] += 5 * np.random.default_rng(2).normal(size=other.x_obs[rest].shape)
    other.x_sim[rest] -= 3
    same = notes.find(learn=learn)[rest], other.find(learn=learn)[rest]
    np.testing.assert_array_equal(*same)


def test_a_text_that_is_missing_is_its_own_regime(notes):
    gaps = Notes()
    gaps.texts[:20] = [None] * 20
    wordings = notes.wordings()
    wordings.codes[:20] = MISSING
    rows = torch.from_numpy(gaps.x_obs), torch.from_numpy(gaps.x_sim)
    found = regimes_of_rows(wordings, *rows)
    assert (found == MISSING).nonzero()[0].tolist() == list(range(20))


@pytest.mark.parametrize("departs", [False, True])
def test_labelling_is_advised_where_few_wordings_have_regimes(notes, departs):
    few = Notes()
    few.texts = [WORDINGS[label][which % 2] for which, label in enumerate(few.labels)]
    x_obs = few.x_obs if departs else few.x_sim
    subject = prepare(x_obs, few.texts, x_sim=few.x_sim, seed=0)
    assert subject.few_wordings == ((8, 1.0) if departs else None)


def test_few_labels_are_taken_as_they_are(notes):
    subject = prepare(notes.x_obs, notes.labels, x_sim=notes.x_sim, seed=0)
    assert subject.wordings is None


def test_a_table_has_regimes_in_place_of_its_texts(notes):
    table = pd.DataFrame({"hour": np.arange(400) % 24 * 1.0, "note": notes.texts})
    subject = prepare(notes.x_obs, table, x_sim=notes.x_sim, seed=0)
    read = subject.by_regime.entries
    assert list(read.columns) == ["hour", "note"]
    assert read["note"].nunique() == 4
    np.testing.assert_array_equal(read["hour"], table["hour"])


@pytest.mark.slow
def test_the_leak_test_keeps_its_level_with_texts():
    # Texts say nothing, and departures are a curve in x_sim, which no regression explains:
    # a regime is a range of x_sim. Tested on the rows that regimes are learned from, 97 %
    # of such worlds are refused, and 20 % if each row alone has no part in its regime.
    # 60 worlds have a standard error of 2.8 points at 5 %; three of them are allowed for.
    level, worlds, n, refused = 0.05, 60, 120, 0
    for seed in range(worlds):
        notes = Notes(n=n, seed=seed)
        notes.texts = list(np.random.default_rng(seed + 1000).permutation(notes.texts))
        notes.x_obs = notes.x_sim + np.exp(notes.x_sim)
        learn = learning_rows(n, seed)
        rest = np.setdiff1d(np.arange(n), learn)
        found = notes.find(learn=learn)
        if found is not None:
            told = [f"regime {one}" for one in found[rest]]
            options = {"num_permutations": 99, "seed": seed}
            refused += dependence_test(notes.x_sim[rest], told, **options).p_value <= level
    assert refused / worlds <= level + 3 * (level * (1 - level) / worlds) ** 0.5


def test_two_tests_of_texts_share_their_level(notes):
    subject = prepare(notes.x_obs, notes.texts, x_sim=notes.x_sim, seed=0)
    options = {"num_permutations": 99, "seed": 0}
    texts = dependence_test(
        subject.x_sim, subject.entries, encoder=subject.encoder, **options
    )
    some, regimes = subject.x_sim[subject.blind.rows], subject.blind.context
    by_regime = dependence_test(some, regimes, **options)
    both = dependence_test(
        subject.x_sim,
        subject.entries,
        encoder=subject.encoder,
        blind=subject.blind,
        **options,
    )
    assert both.p_value == min(1.0, 2 * min(texts.p_value, by_regime.p_value))
    assert by_regime.num_rows == len(subject.blind.rows) == 300


@pytest.mark.slow
def test_a_leak_of_regimes_is_found_behind_texts(notes):
    leaking = Notes()
    leak = np.where(leaking.regime > 1, 0.6, 0.0)[:, None] * [1.0, 0.0]
    rows = {"x_sim": leaking.x_sim + leak, "seed": 0}
    found = ma_sbi.check(leaking.x_obs + leak, leaking.texts, **rows)
    assert found.verdict != "use"
    assert found.results["exclusion"].p_value <= 0.01
