"""What the paper claims in words, and what our numbers say of it.

A claim is a sentence, the experiment that tests it, and a criterion for each of its cases.
They were written when most numbers were known; limits that the paper does not give (half of
a gap, ten points) stand in the claim.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from ma_sbi_bench.paper.comparing import Line, exactly
from ma_sbi_bench.tables.claims import (
    Case,
    Claim,
    Found,
    Lines,
    Unfinished,
    alike,
    at_least,
    at_most,
    by_verdict,
    difference,
    everywhere,
    larger,
    missing,
    percent,
    share,
    together,
    within,
)

__all__ = ["CLAIMS", "judge_claims"]


def judge_claims(lines: Mapping[str, Sequence[Line]]) -> list[Claim]:
    """Judge what the paper claims, as far as it concerns some experiments.

    Args:
        lines: Lines of each experiment, by its name.
    """
    return [
        Claim(said, experiment, *_judged(cases, Lines(lines[experiment])))
        for said, (experiment, cases) in CLAIMS.items()
        if experiment in lines
    ]


def _judged(cases: Mapping[str, Case], lines: Lines) -> Found:
    try:
        found = {name: judge(lines) for name, judge in cases.items()}
    except Unfinished:
        return "not run", ""
    words = [f"{name}: {said}" if name else said for name, (_, said) in found.items()]
    return together(outcome for outcome, _ in found.values()), "; ".join(words)


def _equivalent(lines: Lines, backbone: str) -> Found:
    (line,) = lines.some("Difference", backbone=backbone, method=MA_SBI)
    one = line.raw or missing()
    words = f"{one.value:+.4f} [{one.low:.4f}, {one.high:.4f}], {line.note}"
    return within(one, 0.02), words


def _plateau(lines: Lines, method: str) -> Found:
    values = [
        lines.number("N_s, at", N_s=float(num), method=method).value
        for num in (200, 500, 1000, 2000, 5000)
    ]
    spread = exactly(max(values) - min(values))
    return within(spread, 0.02), f"{min(values):.3f} to {max(values):.3f}"


def _continuous(lines: Lines) -> Found:
    ddpm, flow = (lines.share(backbone=one, method=MA_SBI) for one in ("ddpm", "maf"))
    marginal = lines.share(backbone="ddpm", method="ma_sbi_marginal")
    return by_verdict(ddpm), (
        f"{percent(ddpm)}, where a mean shift alone closes {percent(marginal)}; with the "
        f"flow {percent(flow)}"
    )


def _theorem_1(lines: Lines) -> Found:
    gained = lines.some(quantity="reduction, closed form")
    outcomes, rounding = [], 1e-9
    for line in gained:
        pattern = line.labels["correlations"]
        exact, linear = (
            lines.number(correlations=pattern, quantity=f"{kind} bound").value
            for kind in ("exact", "linear")
        )
        gain = (line.raw or missing()).value
        outcomes.append(at_least(exactly(exact - gain), -rounding))
        outcomes.append(at_least(exactly(linear - exact), -rounding))
    held = outcomes.count("holds")
    words = f"{held} of {len(outcomes)} inequalities hold, in {len(gained)} worlds"
    return everywhere(outcomes), words


def _tracks_information(lines: Lines, channel: str) -> Found:
    some = lines.some("K = 4", **{"context not right is": channel})
    pairs = [(line.closed or missing(), line.raw or missing()) for line in some]
    off = [difference(closed, exactly(100 * raw.value)) for closed, raw in pairs]
    most = max(abs(one.value) for one in off)
    return everywhere(within(one, 1.0) for one in off), f"off by up to {most:.1f} points"


def _sharp(lines: Lines) -> Found:
    some = lines.some("exact information", law="Rademacher")
    largest = max((line.raw or missing()).value for line in some)
    return at_least(exactly(largest), 0.99), f"{largest:.4f}"


def _ratios(lines: Lines) -> Found:
    low, high = (
        lines.number("exact information", law=f"{end} of all")
        for end in ("smallest", "largest")
    )
    outcomes = at_least(low, low.paper or missing()), at_most(high, high.paper or missing())
    return everywhere(outcomes), f"{low.value:.3f} to {high.value:.3f}"


def _dip(lines: Lines) -> Found:
    one = lines.share(p=0.25, method=MA_SBI)
    return at_most(one, 0.0), f"{percent(one)} (paper -36 %)"


def _unseen(lines: Lines, task: str) -> Found:
    some = lines.some(task=task, method="ma_sbi")
    shares = [line.closed or missing() for line in some]
    low, high = (pick(one.value for one in shares) for pick in (min, max))
    return everywhere(at_least(one, 50.0) for one in shares), f"{low:.0f} to {high:.0f} %"


def _encoders_agree(lines: Lines, task: str) -> Found:
    change = lines.number("MiniLM minus hash", task=task)
    return within(change, 0.02), f"{change.value:+.3f}"


def _weight_decay(lines: Lines, decay: float) -> Found:
    usual = lines.number(method=MA_SBI).value
    change = lines.number(method="ma_sbi_network", weight_decay=decay).value - usual
    return within(exactly(change), 0.02), f"{change:+.3f}"


def _excluded(lines: Lines, data: str, stand_in: str) -> Found:
    labels = {"x_sim is": stand_in, "R² of": "x_sim"}
    number = lines.number(data=data, **labels)
    return at_most(number, 0.1), f"{number.value:.3f}"


def _cheap(lines: Lines) -> Found:
    fit = lines.number(phase="calibration fit", method=MA_SBI).value
    return at_most(exactly(fit), 1.5), f"{fit:.1f} s"


def _covid(lines: Lines) -> Found:
    labels = {"setting": "4 countries, leave one out", "over": "NPE"}
    gain = lines.number("Gains", method="stochastic", **labels)
    return by_verdict(gain), percent(gain)


def _covid_known_dispersion(lines: Lines) -> Found:
    labels = {"setting": "4 countries, leave one out, dispersion known", "over": "NPE"}
    gain, pooled = (
        lines.number("Gains", method=method, **labels)
        for method in ("stochastic", "pooled")
    )
    words = f"{percent(gain)}, and as much without context ({percent(pooled)})"
    return at_least(difference(gain, pooled), 0.0), words


def _instructions(lines: Lines) -> Found:
    gain = lines.number("Gains", data="Evans & Hawkins (2019)", method="matched")
    if math.isnan(gain.value):
        return "not run", gain.reason
    return within(gain, 0.05), f"{gain.value:+.4f} nats per trial"


MA_SBI = "ma_sbi_paper"
ROPE = {"with step 2": "rope_paper", "without": "rope_paper_ot_only"}
PARTS = ("conditional", "marginal")
SBIBM = ("GL", "SLCP", "Two Moons")
TABLE_1 = {"backbone": "ddpm"}
TEXT, FILLER = {"context": "informative"}, {"context": "uninformative"}
OURS, EMD, INDEX = ({"method": one} for one in (MA_SBI, "rope_emd", "index, new row"))
CONDITIONAL, MARGINAL = ({"method": f"{MA_SBI}_{part}"} for part in PARTS)
EXACT_CONDITIONAL, EXACT_MARGINAL = ({"method": f"ma_sbi_{part}"} for part in PARTS)
COVID = "COVID + OxCGRT"

CLAIMS: dict[str, tuple[str, Mapping[str, Case]]] = {
    "MA-SBI closes 87 to 101 % of the gap on all five tasks": (
        "main_results",
        {
            task: share(by_verdict, task=task, method=MA_SBI, **TABLE_1)
            for task in (*SBIBM, "SIR", "DDM")
        },
    ),
    "With text alone MA-SBI is equivalent to the oracle on SLCP: within 0.02 of "
    "C2ST, ten seeds": (
        "hide_calibration",
        {
            "flow": partial(_equivalent, backbone="maf"),
            "diffusion model": partial(_equivalent, backbone="ddpm"),
        },
    ),
    "RoPE's Algorithm 1 with true parameters collapses on SLCP: worse than no correction": (
        "hide_calibration",
        {
            name: share(at_most, 0, table="calibration rows", backbone="maf", method=form)
            for name, form in ROPE.items()
        },
    ),
    "It collapses alike with 200 to 5000 simulations (0.02 of C2ST)": (
        "rope_sweeps",
        {name: partial(_plateau, method=form) for name, form in ROPE.items()},
    ),
    "With 200 observations in the transport RoPE recovers in part": (
        "rope_sweeps",
        {
            name: larger({"N_o": 200.0}, {"N_o": 12.0}, "N_o, at", method=form)
            for name, form in ROPE.items()
        },
    ),
    "RoPE-EMD with true parameters helps on SLCP (28 % in Table 1)": (
        "main_results",
        {"": share(at_least, 0, task="SLCP", method="rope_emd", **TABLE_1)},
    ),
    "On DDM text closes more than RoPE does with true parameters": (
        "main_results",
        {"": larger(OURS, EMD, task="DDM", **TABLE_1)},
    ),
    "On SIR RoPE with true parameters closes more than text does": (
        "main_results",
        {"": larger(EMD, OURS, task="SIR", **TABLE_1)},
    ),
    "NPE with the context as an input collapses on SLCP": (
        "main_results",
        {"": share(at_most, 0, task="SLCP", method="concat", **TABLE_1)},
    ),
    "Flow and diffusion model agree within 5 points of the gap": (
        "backbone_ablation",
        {
            task: alike(5, {"backbone": "maf"}, {"backbone": "ddpm"}, task=task, **OURS)
            for task in SBIBM
        },
    ),
    "A continuous context is learned as well: 97 % closed": (
        "continuous_context",
        {"": _continuous},
    ),
    "What the regime adds carries more than the mean shift, on GL, SLCP, Two Moons "
    "and DDM": (
        "decomposition",
        {
            "GL, exact": larger(EXACT_CONDITIONAL, EXACT_MARGINAL, "exact", **TEXT),
            **{
                task: larger(CONDITIONAL, MARGINAL, task=task, **TEXT)
                for task in ("SLCP", "Two Moons", "DDM")
            },
        },
    ),
    "With filler for text the regime adds nothing (within 10 points)": (
        "decomposition",
        {
            "GL, exact": share(within, 10, table="exact", **EXACT_CONDITIONAL, **FILLER),
            **{
                task: share(within, 10, task=task, **CONDITIONAL, **FILLER)
                for task in ("SLCP", "SIR", "DDM")
            },
        },
    ),
    "Theorem 1 bounds how much bias can be removed": ("theorem_1", {"": _theorem_1}),
    "The gap closed tracks I / log K exactly (within a point, K = 4)": (
        "channels",
        {
            f"contexts that are {one}": partial(_tracks_information, channel=one)
            for one in ("missing", "wrong")
        },
    ),
    "The sub-Gaussian bound is sharp: its ratio reaches 0.99": (
        "sharpness",
        {"Rademacher": _sharp},
    ),
    "Its ratios stay from 0.33 to 0.995 for rho from 0.3 to 0.99": (
        "sharpness",
        {"": _ratios},
    ),
    "A context of pure noise closes nothing (within 5 points)": (
        "noisy_context",
        {"": share(within, 5, p=0.0, method=MA_SBI)},
    ),
    "A weak context does harm: a dip below zero at p = 0.25": ("noisy_context", {"": _dip}),
    "Text closes what the calibration index cannot at new rows": (
        "index_or_text",
        {"": larger(OURS, INDEX, n_cal=500)},
    ),
    "With the index for context MA-SBI is RoPE-EMD (within 20 points)": (
        "index_or_text",
        {"": alike(20, INDEX, EMD, n_cal=500)},
    ),
    "Text identifies regimes that the calibration never visited (half of the gap)": (
        "unseen_regimes",
        {task: partial(_unseen, task=task) for task in SBIBM},
    ),
    "MiniLM in place of the hash changes C2ST by less than 0.02": (
        "encoder_ablation",
        {task: partial(_encoders_agree, task=task) for task in SBIBM},
    ),
    "The network is robust to weight decay up to 1e-4 (0.02 of C2ST)": (
        "corrector_network",
        {f"{decay:g}": partial(_weight_decay, decay=decay) for decay in (1e-5, 1e-4)},
    ),
    "Every benchmark passes the Exclusion Test: R² of x_sim below 0.10": (
        "exclusion",
        {
            **{
                task: partial(_excluded, data=task, stand_in="true")
                for task in ("SLCP", "Two Moons", "SIR", "DDM")
            },
            "Covid, simulations of the prior": partial(
                _excluded, data=COVID, stand_in="prior"
            ),
            "Covid, what posteriors predict": partial(
                _excluded, data=COVID, stand_in="predicted"
            ),
        },
    ),
    "MA-SBI adds about a second to NPE (under 1.5 s)": ("compute", {"": _cheap}),
    "On Covid-19 counts the stochastic variant cuts the loss by 54 %": (
        "covid",
        {"dispersion inferred": _covid, "dispersion known": _covid_known_dispersion},
    ),
    "On Evans and Hawkins' data it changes nothing (-2.8 %; 0.05 nats per trial)": (
        "instructions",
        {"": _instructions},
    ),
}
"""Every claim, in the order of the report: its experiment, and a judge of each case.

The name of a case is empty where there is only one.
"""
