"""Every claim can hold and can fail, and changes from one to the other at its limit.

The limits are written down here a second time.
"""

import numpy as np
import pytest

from ma_sbi_bench.paper.comparing import Compared, Line
from ma_sbi_bench.real.covid.table import OF_LOGS
from ma_sbi_bench.tables.claims import BY_VERDICT, RULES, Criterion, Lines
from ma_sbi_bench.tables.paper_claims import CLAIMS, judge_claims
from ma_sbi_bench.tables.sharpness import SCALED

# Words of a claim, numbers with which it holds, and numbers with which it fails.
LIMITS = {
    "87 to 101 %": ([87.1], [86.9]),
    "equivalent to the oracle": ([-0.019, 0.019], [-0.021, 0.021]),
    "collapses on SLCP: worse": ([-1], [1]),
    "observations in the transport RoPE recovers": ([1], [-1]),
    "RoPE-EMD helps on SLCP": ([1], [-1]),
    "On DDM text closes more": ([1], [-1]),
    "On SIR RoPE-EMD closes more": ([1], [-1]),
    "context as an input collapses": ([-1], [1]),
    "agree within 5 points": ([-4.9, 4.9], [-5.1, 5.1]),
    "Below z = 0.3": ([0.029, -0.1], [0.031]),
    "carries more than the mean shift": ([1], [-1]),
    "With filler for text": ([-9.9, 9.9], [-10.1, 10.1]),
    "pure noise closes nothing": ([-4.9, 4.9], [-5.1, 5.1]),
    "A weak context does harm": ([-1], [1]),
    "what the calibration index cannot": ([1], [-1]),
    "MA-SBI is RoPE-EMD": ([-19.9, 19.9], [-20.1, 20.1]),
    "MiniLM in place of the hash": ([-0.019, 0.019], [-0.021, 0.021]),
    "robust to weight decay": ([-0.019, 0.019], [-0.021, 0.021]),
    "passes the Exclusion Test": ([-0.2, 0.099], [0.101]),
    "about a second": ([1.49], [1.51]),
    "gain more than a pool": ([1], [-1]),
    "Evans and Hawkins": ([-0.049, 0.049], [-0.051, 0.051]),
}
SPECIAL = (
    "It collapses alike",
    "A continuous context",
    "Theorem 1",
    "I / log K",
    "ratio reaches 0.99",
    "ratios stay from",
    "Below 0.5 nats",
    "never visited",
)
VERDICTS = ("cuts the loss by 54 %",)


def claim_of(words):
    (claim,) = (one for one in CLAIMS if words in one["claim"])
    return claim


def criteria_of(claim):
    common = {k: v for k, v in claim.items() if k not in ("claim", "experiment", "cases")}
    return [Criterion.of(common | case) for case in claim.get("cases", {"": {}}).values()]


def around(value, paper=None):
    return Compared(value, value - 1e-6, value + 1e-6, paper=paper)


def line_of(criterion, labels, value):
    kind = "closed" if criterion.figure == "share" else "raw"
    return Line(criterion.table, labels, **{kind: around(value, paper=-36.0)})


def outcome_at(criterion, value):
    """Judge where the number, or the difference, has a value."""
    lines = [line_of(criterion, criterion.labels, value)]
    for other in filter(None, (criterion.against, criterion.beside)):
        labels = {k: v for k, v in {**criterion.labels, **other}.items() if v is not None}
        lines.append(line_of(criterion, labels, 0.0))
    return criterion.judge(Lines(lines))[0]


def test_every_claim_is_tested_here():
    tested = [*LIMITS, *SPECIAL, *VERDICTS]
    assert sorted(claim_of(words)["claim"] for words in tested) == sorted(
        one["claim"] for one in CLAIMS
    )


@pytest.mark.parametrize("words", LIMITS)
def test_a_claim_holds_on_one_side_of_its_limit_and_fails_on_the_other(words):
    for criterion in criteria_of(claim_of(words)):
        assert criterion.rule in RULES
        for outcome, numbers in zip(("holds", "fails"), LIMITS[words], strict=True):
            for number in numbers:
                assert outcome_at(criterion, number) == outcome, (criterion, number)


@pytest.mark.parametrize("words", VERDICTS)
def test_a_claim_of_a_printed_figure_takes_the_verdict_on_its_line(words):
    for criterion in criteria_of(claim_of(words)):
        assert criterion.rule == BY_VERDICT
        share = criterion.figure == "share"
        outcomes = []
        for paper in (90.0, 40.0, 140.0):
            ours = Compared(90.0, 85.0, 95.0, paper=paper, better="higher")
            beside = [Line(criterion.table, {**criterion.labels, **criterion.beside}, ours)]
            known = {"closed" if share else "raw": ours}
            if share:
                beside = [Line(criterion.table, beside[0].labels, closed=ours)]
            line = Line(criterion.table, criterion.labels, **known)
            extra = beside if criterion.beside else []
            outcomes.append(criterion.judge(Lines([line, *extra]))[0])
        assert outcomes == ["holds", "holds", "fails"]


def test_a_verdict_is_that_of_the_line_whatever_its_share_says():
    # Less harm than the paper's is judged by the metric, which is worse.
    share = Compared(-87.0, -120.0, -60.0, paper=-336.0, better="higher")
    raw = Compared(0.953, 0.94, 0.966, paper=0.903, better="lower")
    lines = Lines([Line("t", {"task": "GL"}, raw=raw, closed=share)])
    assert Criterion.of({"rule": BY_VERDICT, "task": "GL"}).judge(lines)[0] == "fails"


def judged(experiment, lines):
    return {one.said: one.outcome for one in judge_claims({experiment: lines})}


def outcome(experiment, lines, words):
    (found,) = (one for said, one in judged(experiment, lines).items() if words in said)
    return found


def of_windows(over, gain, setting="4 countries, leave one out"):
    labels = {"setting": setting, "over": over, "method": "stochastic"}
    paper = 54.4 if over == "NPE" else None
    ours = Compared(gain, gain - 1, gain + 1, paper=paper, digits=1)
    return Line(f"{OF_LOGS}: gains", labels, ours)


def test_breadth_without_regimes_is_no_gain_of_the_regimes():
    known = "4 countries, leave one out, dispersion known"
    settings = ("4 countries, leave one out", known)
    lines = [of_windows("NPE", 54.0, one) for one in settings]
    lines += [of_windows("pooled", -2.0, one) for one in settings]
    assert outcome("covid", lines, "cuts the loss by 54 %") == "holds"
    assert outcome("covid", lines, "gain more than a pool") == "fails"


def of_theorem(gain, half, bound=0.4, world="one"):
    return [
        Line("t", {"correlations": world, "quantity": quantity}, raw=number)
        for quantity, number in (
            ("reduction, simulated", Compared(gain, gain - half, gain + half)),
            ("exact bound", Compared(bound, bound, bound)),
        )
    ]


# All that there is to gain is 0.4325; two per cent of it are 0.00865.
@pytest.mark.parametrize(
    ("gain", "half", "found"),
    [
        (0.30, 0.01, "holds"),
        (0.40, 0.008, "holds"),
        (0.40, 0.010, "open"),
        (0.42, 0.010, "fails"),
        (1.00, 0.010, "fails"),
    ],
)
def test_theorem_1_fails_if_more_is_gained_than_its_bound(gain, half, found):
    worlds = [*of_theorem(0.1, 0.001, world="other"), *of_theorem(gain, half)]
    assert outcome("theorem_1", worlds, "Theorem 1") == found


@pytest.mark.parametrize(("spread", "found"), [(0.019, "holds"), (0.021, "fails")])
def test_a_plateau_is_two_hundredths_wide(spread, found):
    sizes = (200, 500, 1000, 2000, 5000)
    lines = [
        Line("N_s, at N_o = 12", {"N_s": size, "method": method}, raw=around(value))
        for method in ("rope_paper", "rope_paper_ot_only")
        for size, value in zip(sizes, np.linspace(0.9, 0.9 + spread, 5), strict=True)
    ]
    assert outcome("rope_sweeps", lines, "collapses alike") == found


@pytest.mark.parametrize(
    ("off", "found"), [(0.9, "holds"), (-0.9, "holds"), (1.1, "fails"), (-1.1, "fails")]
)
def test_a_share_tracks_the_information_within_a_point(off, found):
    lines = [
        Line(
            "K = 4",
            {"context not right is": how},
            raw=around(0.5),
            closed=Compared(50 + off, 50 + off, 50 + off),
        )
        for how in ("missing", "wrong")
    ]
    assert outcome("channels", lines, "I / log K") == found


@pytest.mark.parametrize(("ratio", "found"), [(0.991, "holds"), (0.989, "fails")])
def test_a_sharp_bound_is_reached(ratio, found):
    lines = [
        Line("Ratio with the exact information", {"law": "Rademacher"}, raw=around(one))
        for one in (0.5, ratio)
    ]
    assert outcome("sharpness", lines, "reaches 0.99") == found


@pytest.mark.parametrize(
    ("low", "high", "rarer", "found"),
    [
        (0.34, 0.99, 0.331, "holds"),
        (0.34, 0.99, 0.329, "in part"),
        (0.32, 0.99, 0.329, "fails"),
        (0.34, 0.999, 0.329, "fails"),
    ],
)
def test_ratios_stay_between_the_papers(low, high, rarer, found):
    of_laws = {
        "smallest of all": (low, 0.33),
        "largest of all": (high, 0.995),
        "asymmetric, 0.02": (rarer, None),
    }
    # At the other scales all is as it should be, which says nothing.
    others = dict.fromkeys(of_laws, (0.5, None))
    lines = [
        Line(
            SCALED,
            {"scale": scale, "law": law},
            raw=Compared(value, value, value, paper=paper),
        )
        for scale, laws in ((0.33, of_laws), (1.0, others))
        for law, (value, paper) in laws.items()
    ]
    assert outcome("sharpness", lines, "ratios stay from") == found


@pytest.mark.parametrize(
    ("shares", "found"),
    [
        ({0.0: 5, 0.08: -30, 0.49: -1, 0.51: 1, 1.39: 99}, "holds"),
        ({0.08: 30, 0.51: 1}, "fails"),
        ({0.08: -30, 0.51: -1}, "fails"),
        # Without information there is nothing to judge; on one side alone neither.
        ({0.0: 5, 0.51: 1}, "not run"),
    ],
    ids=str,
)
def test_harm_below_half_a_nat_and_help_above(shares, found):
    lines = [
        Line("t", {"I": nats, "method": "ma_sbi_paper"}, closed=around(share))
        for nats, share in shares.items()
    ]
    assert outcome("noisy_context", lines, "0.5 nats") == found


@pytest.mark.parametrize(("share", "found"), [(51, "holds"), (49, "fails"), (-49, "fails")])
def test_half_of_the_gap_is_closed_in_every_regime(share, found):
    lines = [
        Line("t", {"task": task, "left_out": one, "method": "ma_sbi"}, closed=around(value))
        for task in ("GL", "SLCP", "Two Moons")
        for one, value in enumerate((99, share))
    ]
    assert outcome("unseen_regimes", lines, "never visited") == found


def test_a_continuous_context_is_judged_on_the_papers_backbone():
    def lines(paper):
        return [
            Line(
                "t",
                {"task": "slcp_continuous", "backbone": backbone, "method": method},
                closed=Compared(value, value - 2, value + 2, paper=paper),
            )
            for backbone, method, value, paper in (
                ("ddpm", "ma_sbi_paper", 97, paper),
                ("maf", "ma_sbi_paper", 20, None),
                ("ddpm", "ma_sbi_marginal", 88, None),
            )
        ]

    words = "A continuous context"
    assert outcome("continuous_context", lines(96.8), words) == "holds"
    assert outcome("continuous_context", lines(90.0), words) == "fails"
