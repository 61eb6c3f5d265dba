"""Tests for ma_sbi.draws."""

import sys

import numpy as np
import pandas as pd
import pytest
import torch

from ma_sbi import to_arviz, to_frame

DRAWS = torch.arange(24.0).reshape(4, 3, 2)  # four draws, three observations
NAMES = ["gain", "offset"]
LABELS = pd.Index(["a", "b", "c"], name="day")


@pytest.fixture
def xarray():
    return pytest.importorskip("xarray", reason="xarray is not installed")


def test_a_frame_has_one_row_per_draw_of_each_observation():
    frame = to_frame(DRAWS, names=NAMES, observations=LABELS)
    assert list(frame.columns) == ["observation", "draw", "gain", "offset"]
    for row in frame.itertuples():
        expected = DRAWS[row.draw, LABELS.get_loc(row.observation)]
        assert (row.gain, row.offset) == tuple(expected.tolist())
    assert len(frame) == 12


def test_a_frame_of_one_observation_has_no_labels():
    frame = to_frame(DRAWS[:, 0])
    assert list(frame.columns) == ["draw", "theta_0", "theta_1"]
    assert frame["theta_1"].tolist() == [1.0, 7.0, 13.0, 19.0]


def test_labels_keep_their_type():
    days = pd.date_range("2020-01-01", periods=3, tz="UTC")
    frame = to_frame(DRAWS, observations=days)
    assert frame["observation"].dtype == days.dtype


def test_arviz_gets_one_chain_with_names_and_labels(xarray):
    posterior = to_arviz(DRAWS, names=NAMES, observations=LABELS)
    assert isinstance(posterior, xarray.Dataset)
    assert posterior["gain"].dims == ("chain", "draw", "observation")
    found = posterior["offset"].sel(chain=0, draw=2, observation="b").item()
    assert found == DRAWS[2, 1, 1].item()
    assert to_arviz(DRAWS[:, 0])["theta_0"].dims == ("chain", "draw")


def test_arviz_summarises_the_draws(xarray):
    arviz = pytest.importorskip("arviz", reason="ArviZ is not installed")
    draws = torch.randn(200, 2, 1)
    summary = arviz.summary(to_arviz(draws, names=["gain"], observations=["a", "b"]))
    means = summary.loc[["gain[a]", "gain[b]"], "mean"].astype(float)
    # Rounded to two digits or more.
    np.testing.assert_allclose(means, draws.mean(dim=0).flatten(), atol=0.02)


def test_without_xarray_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match=r"pip install 'ma-sbi\[arviz\]'"):
        to_arviz(DRAWS)


@pytest.mark.parametrize(
    ("draws", "options", "message"),
    [
        (DRAWS[0, 0], {}, "draws must have shape"),
        (DRAWS[None], {}, "draws must have shape"),
        (DRAWS[:0], {}, "draws must have shape"),
        (DRAWS, {"names": ["gain"]}, "2 different names"),
        (DRAWS, {"names": ["gain", "gain"]}, "2 different names"),
        (DRAWS, {"names": ["gain", "draw"]}, "cannot be called 'draw'"),
        (DRAWS, {"observations": ["a", "b"]}, "3 labels"),
        (DRAWS[:, 0], {"observations": ["a"]}, "take no labels"),
    ],
    ids=["vector", "4-d", "empty", "few", "twice", "reserved", "labels", "one"],
)
def test_what_does_not_fit_is_refused(draws, options, message):
    with pytest.raises(ValueError, match=message):
        to_frame(draws, **options)
