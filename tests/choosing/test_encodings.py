"""The encoder is chosen by contexts that are left out."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import BaseEstimator

from ma_sbi import HashEncoder, fit_corrector
from ma_sbi.choosing import ENCODINGS, PROPOSALS
from ma_sbi.choosing.calibration import read_calibration
from ma_sbi.encoders import CategoryEncoder, NumberEncoder
from ma_sbi.reading import read_context

# Nine wordings of each kind: what they have in common is a word.
PLACES = ["hall", "yard", "roof", "lab", "office", "garage", "cellar", "garden", "tower"]
WORDINGS = [f"the {place} is {state}" for place in PLACES for state in ("hot", "frozen")]


@pytest.fixture(autouse=True)
def _spelling_alone(monkeypatch):
    """Leave out the encoder that depends on what is installed."""
    monkeypatch.delitem(ENCODINGS, "meaning")


def departures(context, shift, seed=0):
    x_sim = torch.randn(len(context), 2, generator=torch.Generator().manual_seed(seed))
    return x_sim + torch.as_tensor(shift, dtype=torch.float32)[:, None], x_sim


def test_a_word_in_common_is_found_in_the_spelling():
    context = WORDINGS * 6
    rng = np.random.default_rng()
    shift = [2.0 if "hot" in text else -2.0 for text in context] + rng.normal(0, 0.1, 108)
    found = fit_corrector(context, *departures(context, shift), seed=0)
    labels, spelling = found.why.read
    assert (labels.name, labels.score) == ("labels and numbers", 0.0)
    assert spelling.chosen
    assert spelling.score > 2 * spelling.error
    assert found.why.encoder == "HashEncoder()"
    assert "context read by spelling (on contexts left out: " in str(found.why)


def test_wordings_with_nothing_in_common_stay_labels():
    context = WORDINGS * 6
    rng = np.random.default_rng()
    shift = dict(zip(WORDINGS, rng.normal(0, 2, len(WORDINGS)), strict=True))
    rows = departures(context, [shift[text] for text in context])
    found = fit_corrector(context, *rows, seed=0)
    labels, spelling = found.why.read
    # One standard error is passed by chance in one of six cases; then it is small.
    assert labels.chosen or spelling.score < 3 * spelling.error


def test_one_way_to_read_is_not_compared():
    numbers = np.linspace(0, 1, 60)
    found = fit_corrector(numbers, *departures(numbers, numbers), seed=0)
    (only,) = found.why.read
    assert (only.name, only.encoder) == ("labels and numbers", "NumberEncoder()")
    assert only.score is None
    few = ["high", "low"] * 30
    found = fit_corrector(few, *departures(few, [1.0, 0.0] * 30), seed=0)
    assert [one.name for one in found.why.read] == ["labels and numbers"]


def test_an_encoder_that_is_given_is_used():
    context = WORDINGS * 6
    rows = departures(context, [1.0] * 108)
    found = fit_corrector(context, *rows, encoder=HashEncoder(dim=16), seed=0)
    assert found.why.read == ()
    assert found.why.encoder == "HashEncoder(dim=16)"


class LastWord(BaseEstimator):
    """Reads whether the text ends in "hot"."""

    def fit(self, context, y=None):
        return self

    def transform(self, context):
        return np.array([[float(str(text).endswith("hot"))] for text in context])


def test_a_new_encoder_joins_by_registering(monkeypatch):
    monkeypatch.setitem(ENCODINGS, "last word", lambda reading: LastWord())
    context = WORDINGS * 6
    shift = [2.0 if "hot" in text else -2.0 for text in context]
    found = fit_corrector(context, *departures(context, shift), seed=0)
    (chosen,) = (one for one in found.why.read if one.chosen)
    assert chosen.name == "last word"
    x = torch.zeros(2, 2)
    with pytest.warns(UserWarning, match="calibration has not seen"):
        corrected = found.correct(x, ["a pan is hot", "a pan is frozen"])
    assert corrected[0, 0] < -1 < 1 < corrected[1, 0]


def test_texts_of_a_table_are_read_as_text():
    table = pd.DataFrame(
        {"note": WORDINGS * 6, "load": np.linspace(0, 1, 108), "line": ["a", "b"] * 54}
    )
    reading = read_context(table)
    assert reading.num_wordings == len(WORDINGS)
    usual = dict(enumerate(type(e) for _, e, _ in reading.suitable_encoder().transformers))
    as_text = reading.suitable_encoder(HashEncoder(), repeated=True)
    text = dict(enumerate(type(e) for _, e, _ in as_text.transformers))
    assert usual == {0: CategoryEncoder, 1: NumberEncoder, 2: CategoryEncoder}
    assert text == {0: HashEncoder, 1: NumberEncoder, 2: HashEncoder}


class Refuses(LastWord):
    """Reads nothing."""

    def fit(self, context, y=None):
        raise ValueError("this script is unknown")


def test_an_encoder_that_refuses_the_contexts_is_left_out(monkeypatch):
    monkeypatch.setitem(ENCODINGS, "refuses", lambda reading: Refuses())
    context = WORDINGS * 6
    found = fit_corrector(context, *departures(context, [1.0] * 108), seed=0)
    *_, last = found.why.read
    assert (last.name, last.chosen, last.score) == ("refuses", False, None)
    said = "refuses not read: Refuses cannot read the context: this script is unknown"
    assert any(reason.startswith(said) for reason in found.why.reasons)


def test_if_every_encoder_refuses_the_first_says_why(monkeypatch):
    for name in ENCODINGS:
        monkeypatch.setitem(ENCODINGS, name, lambda reading: Refuses())
    context = WORDINGS * 6
    with pytest.raises(ValueError, match="this script is unknown"):
        fit_corrector(context, *departures(context, [1.0] * 108), seed=0)


def test_how_many_regimes_were_found_is_told():
    context = WORDINGS * 6
    shift = [2.0 if "hot" in text else -2.0 for text in context]
    data, _ = read_calibration(context, *departures(context, shift), None, None)
    proposal = PROPOSALS["shift by regime"]
    assert proposal.tell(proposal.fit(HashEncoder(), data, 0)) == ["2 regimes found"]
