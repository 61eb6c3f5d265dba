"""What the paper claims in words, and what our numbers say of it.

Each claim has its criterion in its function. They were written when most numbers were
known; limits that the paper does not give (half of a gap, ten points) stand in the claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ma_sbi_bench.tables.claims import (
    Claim,
    Found,
    Lines,
    Unfinished,
    against,
    at_least,
    at_most,
    by_verdict,
    difference,
    everywhere,
    missing,
    percent,
    together,
    within,
)
from ma_sbi_bench.tables.comparing import Compared, Line, exactly

__all__ = ["CLAIMS", "judge_claims"]

Judge = Callable[[Lines], Mapping[str, Found]]
CLAIMS: list[tuple[str, str, Judge]] = []
"""What is claimed, the experiment that tests it, and what judges it."""
PAPER = "ma_sbi_paper"
ROPE = {"with step 2": "rope_paper", "without": "rope_paper_ot_only"}


def judge_claims(lines: Mapping[str, Sequence[Line]]) -> list[Claim]:
    """Judge what the paper claims, as far as it concerns some experiments.

    Args:
        lines: Lines of each experiment, by its name.
    """
    return [
        Claim(said, experiment, *_judged(judge, lines[experiment]))
        for said, experiment, judge in CLAIMS
        if experiment in lines
    ]


def _judged(judge: Judge, lines: Sequence[Line]) -> Found:
    try:
        found = judge(Lines(lines))
    except Unfinished:
        return "not run", ""
    words = [f"{name}: {said}" if name else said for name, (_, said) in found.items()]
    return together(outcome for outcome, _ in found.values()), "; ".join(words)


def claim(said: str, experiment: str) -> Callable[[Judge], Judge]:
    """Keep a function as the judge of a claim."""

    def keep(judge: Judge) -> Judge:
        CLAIMS.append((said, experiment, judge))
        return judge

    return keep


def _in_table_1(lines: Lines, task: str, method: str) -> Compared:
    """Find a share of Table 1, which is of the diffusion model."""
    return lines.share(task=task, backbone="ddpm", method=method)


@claim("MA-SBI closes 87 to 101 % of the gap on all five tasks", "main_results")
def _closes_the_gap(lines: Lines) -> Mapping[str, Found]:
    shares = {
        task: _in_table_1(lines, task, PAPER)
        for task in ("GL", "SLCP", "Two Moons", "SIR", "DDM")
    }
    return {task: (by_verdict(one), percent(one)) for task, one in shares.items()}


@claim(
    "With text alone MA-SBI is equivalent to the oracle on SLCP: within 0.02 of C2ST, "
    "ten seeds",
    "hide_calibration",
)
def _equivalent(lines: Lines) -> Mapping[str, Found]:
    found: dict[str, Found] = {}
    for name, backbone in (("flow", "maf"), ("diffusion model", "ddpm")):
        (line,) = lines.some("Difference", backbone=backbone, method=PAPER)
        number = line.raw or missing()
        interval = f"[{number.low:.4f}, {number.high:.4f}]"
        words = f"{number.value:+.4f} {interval}, {line.note}"
        found[name] = within(number, 0.02), words
    return found


@claim(
    "RoPE's Algorithm 1 with true parameters collapses on SLCP: worse than no correction",
    "hide_calibration",
)
def _rope_collapses(lines: Lines) -> Mapping[str, Found]:
    shares = {
        name: lines.share("calibration rows", backbone="maf", method=form)
        for name, form in ROPE.items()
    }
    return {name: (at_most(one, 0.0), percent(one)) for name, one in shares.items()}


@claim("It collapses alike with 200 to 5000 simulations (0.02 of C2ST)", "rope_sweeps")
def _rope_plateau(lines: Lines) -> Mapping[str, Found]:
    found: dict[str, Found] = {}
    for name, form in ROPE.items():
        values = [
            lines.number("N_s, at", N_s=float(num), method=form).value
            for num in (200, 500, 1000, 2000, 5000)
        ]
        spread = max(values) - min(values)
        words = f"{min(values):.3f} to {max(values):.3f}"
        found[name] = within(exactly(spread), 0.02), words
    return found


@claim("With 200 observations in the transport RoPE recovers in part", "rope_sweeps")
def _rope_recovers(lines: Lines) -> Mapping[str, Found]:
    found = {}
    for name, form in ROPE.items():
        many, few = (lines.share("N_o, at", N_o=num, method=form) for num in (200.0, 12.0))
        found[name] = against(many, few)
    return found


@claim("RoPE-EMD with true parameters helps on SLCP (28 % in Table 1)", "main_results")
def _rope_emd_helps(lines: Lines) -> Mapping[str, Found]:
    share = _in_table_1(lines, "SLCP", "rope_emd")
    return {"": (at_least(share, 0.0), percent(share))}


@claim("On DDM text closes more than RoPE does with true parameters", "main_results")
def _ahead_on_ddm(lines: Lines) -> Mapping[str, Found]:
    text, rope = (_in_table_1(lines, "DDM", one) for one in (PAPER, "rope_emd"))
    return {"": against(text, rope)}


@claim("On SIR RoPE with true parameters closes more than text does", "main_results")
def _behind_on_sir(lines: Lines) -> Mapping[str, Found]:
    text, rope = (_in_table_1(lines, "SIR", one) for one in (PAPER, "rope_emd"))
    return {"": against(rope, text)}


@claim("NPE with the context as an input collapses on SLCP", "main_results")
def _concat_collapses(lines: Lines) -> Mapping[str, Found]:
    share = _in_table_1(lines, "SLCP", "concat")
    return {"": (at_most(share, 0.0), percent(share))}


@claim("Flow and diffusion model agree within 5 points of the gap", "backbone_ablation")
def _backbones_agree(lines: Lines) -> Mapping[str, Found]:
    found = {}
    for task in ("GL", "SLCP", "Two Moons"):
        flow, ddpm = (
            lines.share(task=task, backbone=backbone, method=PAPER)
            for backbone in ("maf", "ddpm")
        )
        words = f"{percent(flow)} and {percent(ddpm)}"
        found[task] = within(difference(flow, ddpm), 5.0), words
    return found


@claim("A continuous context is learned as well: 97 % closed", "continuous_context")
def _continuous(lines: Lines) -> Mapping[str, Found]:
    ddpm, flow, marginal = (
        lines.share(backbone=backbone, method=method)
        for backbone, method in (
            ("ddpm", PAPER),
            ("maf", PAPER),
            ("ddpm", "ma_sbi_marginal"),
        )
    )
    words = (
        f"{percent(ddpm)}, where a mean shift alone closes {percent(marginal)}; with the "
        f"flow {percent(flow)}"
    )
    return {"": (by_verdict(ddpm), words)}


@claim(
    "What the regime adds carries more than the mean shift, on GL, SLCP, Two Moons and DDM",
    "decomposition",
)
def _conditional_carries(lines: Lines) -> Mapping[str, Found]:
    parts = ("conditional", "marginal")
    exact = (
        lines.share("exact", context="informative", method=f"ma_sbi_{part}")
        for part in parts
    )
    return {"GL, exact": against(*exact)} | {
        task: against(
            *(
                lines.share(task=task, context="informative", method=f"{PAPER}_{part}")
                for part in parts
            )
        )
        for task in ("SLCP", "Two Moons", "DDM")
    }


@claim("With filler for text the regime adds nothing (within 10 points)", "decomposition")
def _filler(lines: Lines) -> Mapping[str, Found]:
    filler = {"context": "uninformative"}
    shares = {"GL, exact": lines.share("exact", method="ma_sbi_conditional", **filler)} | {
        task: lines.share(task=task, method=f"{PAPER}_conditional", **filler)
        for task in ("SLCP", "SIR", "DDM")
    }
    return {task: (within(one, 10.0), percent(one)) for task, one in shares.items()}


@claim("Theorem 1 bounds how much bias can be removed", "theorem_1")
def _theorem(lines: Lines) -> Mapping[str, Found]:
    gained = lines.some(quantity="reduction, closed form")
    outcomes = []
    for line in gained:
        pattern = line.labels["correlations"]
        exact, linear = (
            lines.number(correlations=pattern, quantity=f"{kind} bound").value
            for kind in ("exact", "linear")
        )
        gain = (line.raw or missing()).value
        rounding = 1e-9
        outcomes.append(at_least(exactly(exact - gain), -rounding))
        outcomes.append(at_least(exactly(linear - exact), -rounding))
    held = outcomes.count("holds")
    words = f"{held} of {len(outcomes)} inequalities hold, in {len(gained)} worlds"
    return {"": (everywhere(outcomes), words)}


@claim("The gap closed tracks I / log K exactly (within a point, K = 4)", "channels")
def _tracks_information(lines: Lines) -> Mapping[str, Found]:
    found: dict[str, Found] = {}
    for kind in ("missing", "wrong"):
        some = lines.some("K = 4", **{"context not right is": kind})
        pairs = [(line.closed or missing(), line.raw or missing()) for line in some]
        off = [difference(closed, exactly(100 * raw.value)) for closed, raw in pairs]
        most = max(abs(one.value) for one in off)
        outcome = everywhere(within(one, 1.0) for one in off)
        found[f"contexts that are {kind}"] = outcome, f"off by up to {most:.1f} points"
    return found


@claim("The sub-Gaussian bound is sharp: its ratio reaches 0.99", "sharpness")
def _sharp(lines: Lines) -> Mapping[str, Found]:
    some = lines.some("exact information", law="Rademacher")
    largest = max((line.raw or missing()).value for line in some)
    return {"Rademacher": (at_least(exactly(largest), 0.99), f"{largest:.4f}")}


@claim("Its ratios stay from 0.33 to 0.995 for rho from 0.3 to 0.99", "sharpness")
def _ratios(lines: Lines) -> Mapping[str, Found]:
    low, high = (
        lines.number("exact information", law=f"{end} of all").value
        for end in ("smallest", "largest")
    )
    outcomes = at_least(exactly(low), 0.33), at_most(exactly(high), 0.995)
    return {"": (everywhere(outcomes), f"{low:.3f} to {high:.3f}")}


@claim("A context of pure noise closes nothing (within 5 points)", "noisy_context")
def _pure_noise(lines: Lines) -> Mapping[str, Found]:
    share = lines.share(p=0.0, method=PAPER)
    return {"": (within(share, 5.0), percent(share))}


@claim("A weak context does harm: a dip below zero at p = 0.25", "noisy_context")
def _dip(lines: Lines) -> Mapping[str, Found]:
    share = lines.share(p=0.25, method=PAPER)
    return {"": (at_most(share, 0.0), f"{percent(share)} (paper -36 %)")}


@claim("Text closes what the calibration index cannot at new rows", "index_or_text")
def _text_over_index(lines: Lines) -> Mapping[str, Found]:
    methods = (PAPER, "index, new row")
    return {"": against(*(lines.share(n_cal=500, method=one) for one in methods))}


@claim("With the index for context MA-SBI is RoPE-EMD (within 20 points)", "index_or_text")
def _index_is_rope(lines: Lines) -> Mapping[str, Found]:
    index, rope = (
        lines.share(n_cal=500, method=method) for method in ("index, new row", "rope_emd")
    )
    words = f"{percent(index)} and {percent(rope)}"
    return {"": (within(difference(index, rope), 20.0), words)}


@claim(
    "Text identifies regimes that the calibration never visited (half of the gap)",
    "unseen_regimes",
)
def _unseen(lines: Lines) -> Mapping[str, Found]:
    found: dict[str, Found] = {}
    for task in ("GL", "SLCP", "Two Moons"):
        some = lines.some(task=task, method="ma_sbi")
        shares = [line.closed or missing() for line in some]
        ends = [f"{pick(one.value for one in shares):.0f}" for pick in (min, max)]
        outcome = everywhere(at_least(share, 50.0) for share in shares)
        found[task] = outcome, f"{' to '.join(ends)} %"
    return found


@claim("MiniLM in place of the hash changes C2ST by less than 0.02", "encoder_ablation")
def _encoders_agree(lines: Lines) -> Mapping[str, Found]:
    numbers = {
        str(line.labels["task"]): line.raw or missing()
        for line in lines.some("MiniLM minus hash")
    }
    return {task: (within(one, 0.02), f"{one.value:+.3f}") for task, one in numbers.items()}


@claim(
    "The network is robust to weight decay up to 1e-4 (0.02 of C2ST)", "corrector_network"
)
def _weight_decay(lines: Lines) -> Mapping[str, Found]:
    usual = lines.number(method=PAPER).value
    found = {}
    for decay in (1e-5, 1e-4):
        number = lines.number(method="ma_sbi_network", weight_decay=decay)
        change = number.value - usual
        found[f"{decay:g}"] = within(exactly(change), 0.02), f"{change:+.3f}"
    return found


@claim("Every benchmark passes the Exclusion Test: R² of x_sim below 0.10", "exclusion")
def _exclusion(lines: Lines) -> Mapping[str, Found]:
    covid = "COVID + OxCGRT"
    asked = {
        **{task: (task, "true") for task in ("SLCP", "Two Moons", "SIR", "DDM")},
        "Covid, simulations of the prior": (covid, "prior"),
        "Covid, what posteriors predict": (covid, "predicted"),
    }
    found = {}
    for name, (data, stand_in) in asked.items():
        labels = {"x_sim is": stand_in, "R² of": "x_sim"}
        number = lines.number(data=data, **labels)
        found[name] = at_most(number, 0.1), f"{number.value:.3f}"
    return found


@claim("MA-SBI adds about a second to NPE (under 1.5 s)", "compute")
def _cheap(lines: Lines) -> Mapping[str, Found]:
    fit = lines.number(phase="calibration fit", method=PAPER).value
    return {"": (at_most(exactly(fit), 1.5), f"{fit:.1f} s")}


@claim("On Covid-19 counts the stochastic variant cuts the loss by 54 %", "covid")
def _covid(lines: Lines) -> Mapping[str, Found]:
    setting = "4 countries, leave one out"
    gain, told, pooled = (
        lines.number("Gains", setting=f"{setting}{more}", over="NPE", method=method)
        for more, method in (
            ("", "stochastic"),
            (", dispersion told", "stochastic"),
            (", dispersion told", "pooled"),
        )
    )
    breadth = f"{percent(told)}, and as much without context ({percent(pooled)})"
    return {
        "dispersion inferred": (by_verdict(gain), percent(gain)),
        "told": (at_least(difference(told, pooled), 0.0), breadth),
    }


@claim(
    "On Evans and Hawkins' data it changes nothing (-2.8 %; 0.05 nats per trial)",
    "instructions",
)
def _instructions(lines: Lines) -> Mapping[str, Found]:
    number = lines.number("Gains", data="Evans & Hawkins (2019)", method="matched")
    if math.isnan(number.value):
        return {"": ("not run", number.reason)}
    return {"": (within(number, 0.05), f"{number.value:+.4f} nats per trial")}
