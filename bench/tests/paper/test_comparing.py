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
from ma_sbi_bench.paper.printed import Printed

# The paper's may lie 0.1 away, and half a unit of the last digit.
OURS = {"value": 1.0, "low": 0.9, "high": 1.1}
WITHIN, BEYOND = 0.1 + 0.0004, 0.1 + 0.0006
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
def test_the_papers_figure_lies_in_our_interval_but_for_rounding(digits):
    tolerance = Compared(**OURS, paper=1.0, digits=digits).tolerance
    assert tolerance == pytest.approx(0.1 + 0.5 * 10**-digits)


def test_each_side_of_the_interval_has_its_own_width():
    lopsided = {"value": 1.0, "low": 0.5, "high": 1.1}
    assert Compared(**lopsided, paper=0.6).verdict == "reproduced"
    assert Compared(**lopsided, paper=1.2).verdict == "not reproduced"
    # A percentile of a bootstrap may leave the value itself out.
    beside = {"value": 1.0, "low": 1.01, "high": 1.1}
    assert Compared(**beside, paper=0.999).tolerance == 0.0005


def test_only_noise_that_the_paper_prints_widens_the_interval():
    known = {"paper": 1.2, **OURS}
    assert Compared(**known).verdict == "not reproduced"
    widened = Compared(**known, paper_half=0.2)
    assert widened.tolerance == pytest.approx(math.hypot(0.1, 0.2) + 0.0005)
    assert widened.verdict == "reproduced"


@pytest.mark.parametrize(("alike", "verdict"), [(0.2, "reproduced"), (0.19, "better")])
def test_differences_that_mean_nothing_are_none(alike, verdict):
    assert Compared(**OURS, paper=1.2, better="lower", alike=alike).verdict == verdict


def test_agreement_that_could_not_have_failed_is_too_noisy():
    known = {"value": 1.0, "low": 0.75, "high": 1.25, "paper": 1.0625, "num": 48}
    assert Compared(**known, coarsest=0.25).verdict == "reproduced"
    assert Compared(**known, coarsest=0.25).needed is None
    noisy = Compared(**known, coarsest=0.125)
    assert noisy.verdict == "too noisy"
    assert noisy.needed == 4 * 48  # a quarter of the variance
    # Outside of even a wide interval is outside.
    assert Compared(**known | {"paper": 1.5}, coarsest=0.125).verdict == "not reproduced"
    assert Compared(**known, coarsest=math.nan).verdict == ""


def test_no_number_of_ours_undoes_the_papers_own_noise():
    known = {"paper": 1.05, "num": 48, **OURS}
    some = Compared(**known, coarsest=0.05, paper_half=0.03)
    assert some.needed == pytest.approx(48 * 0.1**2 / (0.05**2 - 0.03**2), abs=1.5)
    assert Compared(**known, coarsest=0.05, paper_half=0.06).needed is None


def test_a_number_without_noise_is_allowed_only_rounding():
    assert exactly(0.1234, paper=0.123).verdict == "reproduced"
    assert exactly(0.1240, paper=0.123).verdict == "not reproduced"


def test_the_noise_of_seeds_and_of_cases_is_added_up():
    # Means of seeds and of cases vary by 0.1 and 0.2, each on its own.
    seeds, cases = np.array([[-0.1], [0.1]]), np.array([[-0.2, 0.0, 0.2, 0.0]])
    found = estimate(seeds + cases)
    of_seeds, of_cases = 0.1**2, np.var(cases, ddof=1) / 4
    freedom = (of_seeds + of_cases) ** 2 / (of_seeds**2 / 1 + of_cases**2 / 3)
    half = stats.t.ppf(0.975, freedom) * math.sqrt(of_seeds + of_cases)
    assert found.half == pytest.approx(half)
    assert (found.num, found.unit) == (2, "seeds")
    found = estimate(0.1 * seeds + cases)
    assert (found.num, found.unit) == (4, "observations")


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
    share = closed_share(GapClosed(0.9, 0.8, 1.0, *GAP), Printed(93, 0), implied=92.9)
    assert (share.value, share.low, share.high) == pytest.approx((90, 80, 100))
    assert (share.paper, share.implied, share.better) == (93, 92.9, "higher")
    assert share.verdict == "reproduced"
    nothing = GapClosed(math.nan, math.nan, math.nan, *GAP, "no gap")
    blank = closed_share(nothing, Printed(93, 0))
    assert blank.reason == "no gap"
    assert blank.verdict == ""


@pytest.mark.parametrize(("digits", "verdict"), [(0, "reproduced"), (1, "better")])
def test_a_share_is_rounded_as_it_is_printed(digits, verdict):
    exact = GapClosed(0.9, 0.9, 0.9, *GAP)
    assert closed_share(exact, Printed(89.6, digits)).verdict == verdict


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


def test_a_share_is_too_noisy_beyond_fifty_points_and_half_of_it():
    def judged(low, value, high, paper):
        known = GapClosed(value, low, high, (value,), 0.05, 0.01, 0.09, 0.95)
        return closed_share(known, Printed(paper, 0), num=48)

    wide = judged(-0.8, 0.2, 0.4, 28.0)
    assert (wide.verdict, wide.needed) == ("too noisy", math.ceil(48 * (60 / 50) ** 2))
    assert judged(-0.8, 0.2, 0.4, -600.0).verdict == "better"
    assert judged(0.0, 0.2, 0.4, 28.0).verdict == "reproduced"
    assert judged(-7.0, -5.0, -3.5, -600.0).verdict == "reproduced"


def test_a_metric_decides_what_its_share_is_too_noisy_for():
    share = Compared(-20.0, -90.0, 30.0, paper=20.0, coarsest=50.0, better="higher")
    close = Compared(0.80, 0.79, 0.81, paper=0.77, coarsest=0.02, better="lower")
    assert Line("t", {}, raw=close, closed=share).verdict == "not reproduced"
    noisy = Compared(0.80, 0.75, 0.85, paper=0.77, coarsest=0.02, better="lower")
    assert Line("t", {}, raw=noisy, closed=share).judged is share


def test_less_harm_in_shares_is_judged_by_the_metric():
    share = Compared(-87.0, -120.0, -60.0, paper=-336.0, better="higher", digits=0)
    raw = Compared(0.953, 0.94, 0.966, paper=0.903, better="lower")
    assert Line("t", {}, raw=raw, closed=share).verdict == "not reproduced"
    assert Line("t", {}, closed=share).verdict == "better"
    gain = Compared(99.0, 95.0, 103.0, paper=91.0, better="higher", digits=0)
    assert Line("t", {}, raw=raw, closed=gain).verdict == "better"
