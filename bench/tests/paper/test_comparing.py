"""Tests for ma_sbi_bench.paper.comparing."""

import math

import numpy as np
import pytest
from scipy import stats

from ma_sbi.metrics import GapClosed
from ma_sbi_bench.paper.comparing import (
    Compared,
    Line,
    closed_share,
    estimate,
    exactly,
    implied_share,
)

# Half-width 0.1: the two may differ by 0.1414 and half a unit of the last digit.
OURS = {"value": 1.0, "low": 0.9, "high": 1.1}
WITHIN, BEYOND = 0.1414 + 0.0004, 0.1414 + 0.0010
VERDICTS = {
    "the same": ({"paper": 1.0}, "reproduced"),
    "within noise, worse": ({"paper": 1 - WITHIN, "better": "lower"}, "reproduced"),
    "within noise, better": ({"paper": 1 + WITHIN, "better": "lower"}, "reproduced"),
    "lower is better": ({"paper": 1 + BEYOND, "better": "lower"}, "better"),
    "lower was better": ({"paper": 1 - BEYOND, "better": "lower"}, "not reproduced"),
    "higher is better": ({"paper": 1 - BEYOND, "better": "higher"}, "better"),
    "higher was better": ({"paper": 1 + BEYOND, "better": "higher"}, "not reproduced"),
    "neither is better": ({"paper": 1 + BEYOND}, "not reproduced"),
    "rounded to tenths": ({"paper": 1 + BEYOND, "digits": 1}, "reproduced"),
    "not in the paper": ({"paper": None}, ""),
    "no interval": ({"paper": 1.0, "low": math.nan, "high": math.nan}, ""),
    "half an interval": ({"paper": 1.0, "low": math.nan}, ""),
    "endless interval": ({"paper": 1.0, "high": math.inf}, ""),
    "blank": ({"paper": 1.0, "value": math.nan}, ""),
    "infinite": ({"paper": 1.0, "value": -math.inf, "better": "lower"}, ""),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_verdict_follows_the_rule(name):
    given, verdict = VERDICTS[name]
    assert Compared(**OURS | given).verdict == verdict


@pytest.mark.parametrize("digits", [0, 1, 3])
def test_tolerance_is_noise_of_both_and_rounding(digits):
    tolerance = Compared(**OURS, paper=1.0, digits=digits).tolerance
    assert tolerance == pytest.approx(math.sqrt(2) * 0.1 + 0.5 * 10**-digits)


def test_with_more_cases_than_the_paper_the_noise_is_mostly_the_papers():
    tolerance = Compared(**OURS, paper=1.0, more_cases=4.0).tolerance
    assert tolerance == pytest.approx(math.hypot(0.1, 2 * 0.1) + 0.0005)


def test_a_number_without_noise_is_allowed_only_rounding():
    assert exactly(0.1234, paper=0.123).verdict == "reproduced"
    assert exactly(0.1240, paper=0.123).verdict == "not reproduced"


def test_few_seeds_widen_an_interval_by_as_much_as_they_matter():
    rng = np.random.default_rng(0)
    cases, seeds = rng.normal(size=(1, 40)), rng.normal(size=(3, 1))
    half = [
        (one.high - one.low) / 2
        for one in (estimate(cases), estimate(cases + 1e-9 * seeds), estimate(seeds.T))
    ]
    assert half[1] == pytest.approx(half[0], rel=1e-6)
    both = estimate(1e-9 * cases + seeds)
    assert (both.high - both.low) / 2 == pytest.approx(half[2], rel=1e-6)


def test_the_verdict_rests_on_the_share_else_on_the_metric():
    share, metric = Compared(**OURS, paper=1.0), Compared(**OURS, paper=9.0)
    blank = Compared(math.nan, paper=93.0, reason="no gap")
    assert Line("t", {}, raw=metric, closed=share).judged is share
    found = Line("t", {}, raw=metric, closed=blank)
    assert found.judged is metric
    assert found.verdict == metric.verdict
    assert Line("t", {}, closed=blank).judged is None


def test_estimate_has_the_t_interval():
    values = np.random.default_rng(0).normal(3.0, 2.0, size=7)
    ours = estimate(values, paper=3.0, better="lower")
    low, high = stats.t.interval(0.95, 6, loc=values.mean(), scale=stats.sem(values))
    assert (ours.value, ours.low, ours.high) == pytest.approx((values.mean(), low, high))
    assert (ours.paper, ours.better) == (3.0, "lower")


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        ([2.0], 2.0),
        ([1.0, -math.inf], -math.inf),
        ([1.0, math.nan], math.nan),
        ([], math.nan),
    ],
    ids=str,
)
def test_too_few_or_infinite_values_have_no_interval(values, mean):
    ours = estimate(values, paper=1.0)
    assert ours.value == pytest.approx(mean, nan_ok=True)
    assert math.isnan(ours.low)
    assert math.isnan(ours.high)
    assert ours.verdict == ""


@pytest.mark.parametrize(
    ("npe", "method", "oracle", "share"),
    [
        (0.784, 0.745, 0.742, 92.857),
        (0.5, 0.5, 0.4, 0.0),
        (0.5, 0.6, 0.4, -100.0),
        (None, 0.5, 0.4, None),
        (0.5, None, 0.4, None),
        (0.5, 0.5, None, None),
        (0.5, 0.5, 0.5, None),
    ],
)
def test_implied_share_is_the_share_of_raw_values(npe, method, oracle, share):
    found = implied_share(npe, method, oracle)
    assert found is None if share is None else found == pytest.approx(share, abs=1e-3)


GAP = ((0.9,), 0.1, 0.05, 0.15, 0.95)  # what a share is of, beside its value


def test_closed_share_is_in_per_cent_and_keeps_the_reason():
    share = closed_share(GapClosed(0.9, 0.8, 1.0, *GAP), paper=93, implied=92.9)
    assert (share.value, share.low, share.high) == pytest.approx((90, 80, 100))
    assert (share.paper, share.implied, share.better) == (93, 92.9, "higher")
    assert share.verdict == "reproduced"
    blank = closed_share(GapClosed(math.nan, math.nan, math.nan, *GAP, "no gap"), paper=93)
    assert blank.reason == "no gap"
    assert blank.verdict == ""


SAME, WORSE = Compared(**OURS, paper=1.0), Compared(**OURS, paper=9.0)
BLANK = Compared(math.nan, paper=9.0)


@pytest.mark.parametrize(
    ("raw", "closed", "verdict"),
    [
        (SAME, WORSE, "not reproduced"),
        (WORSE, SAME, "reproduced"),
        (SAME, BLANK, "reproduced"),
        (SAME, None, "reproduced"),
        (None, SAME, "reproduced"),
        (None, None, ""),
    ],
)
def test_a_line_is_judged_by_its_share_else_by_its_metric(raw, closed, verdict):
    assert Line("Table", {"method": "npe"}, raw=raw, closed=closed).verdict == verdict


def test_agreement_that_noise_would_hide_anything_in_is_no_agreement():
    wide = GapClosed(0.2, -3.0, 0.9, (0.2,), 0.05, 0.01, 0.09, 0.95)
    assert closed_share(wide, paper=28.0).verdict == "too noisy"
    assert closed_share(wide, paper=-600.0).verdict == "better"
    narrow = GapClosed(0.2, 0.0, 0.4, (0.2,), 0.05, 0.01, 0.09, 0.95)
    assert closed_share(narrow, paper=28.0).verdict == "reproduced"
    harmful = GapClosed(-5.0, -7.0, -3.5, (-5.0,), 0.05, 0.01, 0.09, 0.95)
    assert closed_share(harmful, paper=-600.0).verdict == "reproduced"


def test_less_harm_in_shares_is_judged_by_the_metric():
    share = Compared(-87.0, -120.0, -60.0, paper=-336.0, better="higher", digits=0)
    raw = Compared(0.953, 0.94, 0.966, paper=0.903, better="lower")
    assert Line("t", {}, raw=raw, closed=share).verdict == "not reproduced"
    assert Line("t", {}, closed=share).verdict == "better"
    gain = Compared(99.0, 95.0, 103.0, paper=91.0, better="higher", digits=0)
    assert Line("t", {}, raw=raw, closed=gain).verdict == "better"
