"""Observations far outside those of calibration are told of, and no others."""

import warnings

import pytest
import torch

from ma_sbi import CategoryEncoder, ShiftCorrector, fit_corrector, load_corrector
from ma_sbi.correctors.observed_range import ObservedRange
from ma_sbi.exceptions import OutsideCalibration

N = 60
X = torch.randn(N, 3, generator=torch.Generator().manual_seed(0))
NOTES = ["dry", "wet"] * (N // 2)


@pytest.mark.parametrize("times", [1000.0, 0.001])
def test_other_units_are_told_once(times):
    corrector = fit_corrector(NOTES, 20 + X, 20 + X, seed=0)
    with pytest.warns(OutsideCalibration, match="60 of 60 observations") as caught:
        corrector.correct(times * (20 + X), NOTES)
    assert len(caught) == 1
    assert corrector.far_outside(times * (20 + X)).all()


def test_far_smaller_numbers_are_told_where_calibration_was_around_zero():
    corrector = ShiftCorrector(CategoryEncoder()).fit(NOTES, X, X)
    smaller = X * torch.tensor([1.0, 1.0, 0.001])
    assert corrector.far_outside(smaller).all()
    assert not corrector.far_outside(smaller[:5]).any()
    with pytest.warns(OutsideCalibration, match="in column 2 is larger than") as caught:
        corrector.correct(smaller, NOTES)
    assert len(caught) == 1


def test_few_small_numbers_and_zeros_are_no_other_unit():
    known = ObservedRange.of(X)
    assert known.far_smaller(0.001 * X).all()
    assert not known.far_smaller(0.001 * X[:9]).any()
    assert not known.far_smaller(0.0 * X).any()
    assert not known.far_smaller(0.1 * X).any()
    counts = torch.tensor([0.0, 0.0, 4.0]).repeat(20)[:, None]
    assert ObservedRange.of(counts).size.item() == 4.0


def test_a_regime_of_small_numbers_is_no_other_unit():
    day, night = 100 + X[:, :1], 1 + 0.1 * X[:, :1]
    known = ObservedRange.of(torch.cat([day, day, night]))
    assert not known.far_smaller(night).any()
    assert ObservedRange.of(torch.cat([day] * 60 + [night])).far_smaller(night).all()


def test_what_is_like_calibration_is_not_told_of():
    corrector = ShiftCorrector(CategoryEncoder()).fit(NOTES, X, X)
    new = torch.randn(2000, 3, generator=torch.Generator().manual_seed(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        corrector.correct(new, ["dry"] * 2000)
    assert not corrector.far_outside(new).any()


def test_the_range_is_saved(tmp_path):
    corrector = fit_corrector(NOTES, X, X, seed=0)
    corrector.save(tmp_path / "model")
    again = load_corrector(tmp_path / "model")
    assert again.far_outside([[0.0, 0.0, 0.0], [0.0, 0.0, 300.0]]).tolist() == [False, True]


def test_a_gross_row_of_calibration_does_not_widen_the_range():
    x = torch.cat([X, torch.full((1, 3), 1e6)])
    known = ObservedRange.of(x)
    assert torch.equal(known.high, X.amax(dim=0))
    assert known.far(torch.full((1, 3), 1e3)).all()


def test_counts_that_are_mostly_zero_have_their_whole_range():
    x = torch.zeros(N, 1)
    x[3] = 7.0
    known = ObservedRange.of(x)
    assert known.high.item() == 7.0
    assert not known.far(torch.tensor([[9.0]])).any()


def test_few_rows_have_no_range():
    assert not ObservedRange.of(X[:4]).far(1e9 * X).any()
