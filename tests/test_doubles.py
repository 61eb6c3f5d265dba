"""Tests for ma_sbi.doubles: what is a number, and what only looks like one."""

import warnings
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch

from ma_sbi import (
    CategoryEncoder,
    MatchingCorrector,
    ShiftCorrector,
    fit_corrector,
)
from ma_sbi.correctors.forward import ForwardCorrector
from ma_sbi.doubles import as_doubles
from ma_sbi.validation import LostPrecision, as_matrix, check_precision

NUMBERS = {
    "integers": ([1, 2], [1, 2]),
    "booleans": ([True, False], [1, 0]),
    "decimals": ([Decimal("0.1"), Decimal("2")], [0.1, 2]),
    "fractions": ([Fraction(1, 4), 2], [0.25, 2]),
    "texts": (["1e3", " +7 "], [1000, 7]),
    "objects": (np.array([1, 2.5], dtype=object), [1, 2.5]),
    "nullable": (pd.array([1, None], dtype="Int64"), [1, np.nan]),
    "huge integers that differ enough": ([10**30, 2 * 10**30], [1e30, 2e30]),
    "one number in two spellings": (["1" + "0" * 30, "1e30"], [1e30, 1e30]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_every_kind_are_read(name):
    given, doubles = NUMBERS[name]
    np.testing.assert_array_equal(as_doubles(given, "x"), doubles)


NO_NUMBERS = {
    "complex": (np.array([1 + 2j, 3]), "complex numbers"),
    "complex objects": ([Decimal(1), 1j], "type complex"),
    "dates": (np.array(["2020-01-01", "NaT"], dtype="M8[D]"), "dates"),
    "spans": (np.array([1, 2], dtype="m8[s]"), "spans of time"),
    "spans among numbers": ([Decimal(1), np.timedelta64(1, "s")], "timedelta64"),
    "timestamps": (pd.DataFrame({"t": [pd.Timestamp(0)], "x": [1.0]}), "Timestamp"),
    "NaT": (np.array([1.0, pd.NaT], dtype=object), "NaT of type NaTType"),
    "python dates": ([datetime(2020, 1, 1)], "datetime"),
    "records": (np.zeros(2, dtype=[("a", float)]), "records"),
    "texts": (["1", "high"], "'high'"),
    "dictionaries": ([{"a": 1}], "type dict"),
    "ragged": ([[1, 2], [3]], "x must hold numbers"),
    "masked": (np.ma.array([1.0, 2.0], mask=[0, 1]), "masked entries"),
    "integers that a double merges": ([2**60, 2**60 + 1], "cannot tell apart"),
    "texts that a double merges": (["1e20", "100000000000000000001"], "tell apart"),
    "decimals that a double merges": (
        [Decimal("1"), Decimal("1." + "0" * 20 + "1")],
        "1 and",
    ),
}


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_what_is_no_number_is_refused(name):
    given, said = NO_NUMBERS[name]
    with pytest.raises(ValueError, match=said):
        as_doubles(given, "x")


def test_a_huge_cell_gives_a_short_message():
    with pytest.raises(ValueError, match="x must hold numbers") as caught:
        as_doubles(["1", "\x1b[31m" * 20_000], "x")
    assert len(str(caught.value)) < 200
    assert "\x1b" not in str(caught.value)


def test_a_complex_tensor_is_refused():
    with pytest.raises(ValueError, match="x must hold numbers: got complex"):
        as_matrix(torch.ones(2, 2, dtype=torch.complex64), "x")


def test_numbers_too_large_for_single_precision_are_called_so():
    with pytest.raises(ValueError, match="too large for single precision in 1 of 2 rows"):
        as_matrix([[1.0], [1e39]], "x")


RNG = np.random.default_rng(0)
X = torch.from_numpy(RNG.normal(size=(40, 2)))
LOST = {
    "far from zero": (
        X + torch.tensor([0, 1.7e9]).double(),
        r"x_obs\[1\].*subtract a constant",
    ),
    "too large": (
        X * torch.tensor([1, 1e39], dtype=X.dtype),
        r"x_obs\[1\].*divide it by a constant",
    ),
    "too small": (
        X * torch.tensor([1, 1e-320], dtype=X.dtype),
        r"x_obs\[1\].*multiply it by a const",
    ),
    "large integers": (X.sign() + 2.0**53, r"x_obs\[0\].*subtract a constant"),
}


@pytest.mark.parametrize("name", LOST)
def test_what_single_precision_would_lose_is_refused(name):
    x, said = LOST[name]
    with pytest.raises(ValueError, match=said):
        check_precision(x_obs=x, x_sim=x)
    with pytest.raises(ValueError, match=said):
        fit_corrector(["a", "b"] * 20, x, x + 1, seed=0)


NAMED = {
    "shift": lambda x: ShiftCorrector(CategoryEncoder()).fit(["a", "b"] * 20, x, x + 1),
    "matching": lambda x: MatchingCorrector(CategoryEncoder()).fit(
        ["a", "b"] * 20, x, simulations=x + 1
    ),
    "forward": lambda x: ForwardCorrector(x.repeat(15, 1)).fit(
        ["a", "b"] * 20, x, x + 1, seed=0
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_correctors_tell_what_single_precision_would_lose(name):
    with pytest.warns(LostPrecision, match=r"x_obs\[0\] varies by .*subtract a constant"):
        NAMED[name](1.7e9 + X)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LostPrecision)
        NAMED[name](X)


KEPT = {
    "ordinary": X,
    "tiny entries in an ordinary column": X * (X.abs() > 0.5) + 1e-320,
    "constant": torch.full((40, 2), 1.7e9, dtype=torch.float64),
    "sums to one": 1 - 1.2e-16 * (X > 0).double(),
    "sums to one in single precision": (1 - 6e-8 * (X > 0)).float().double(),
    "small units": 1e-30 * X,
    "large units": 1e30 * X,
}


@pytest.mark.parametrize("name", KEPT)
def test_what_single_precision_holds_is_kept(name):
    check_precision(x_obs=KEPT[name], x_sim=None)


def test_what_varies_by_rounding_beside_what_varies_is_kept():
    settled = 5 + 1e-9 * X
    check_precision(x_obs=settled, x_sim=5 + X)
    with pytest.raises(ValueError, match="x_obs"):
        check_precision(x_obs=settled, x_sim=settled)


def test_theta_that_single_precision_would_lose_is_refused():
    with pytest.raises(ValueError, match=r"theta\[0\] varies by .*subtract a constant"):
        fit_corrector(["a", "b"] * 20, X, X + 1, theta=X + 1.7e9, seed=0)
