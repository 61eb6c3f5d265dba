"""What the paper claims in words, and what our numbers say of it.

Each claim has its criterion in its function. They were written when most numbers were
known; limits that the paper does not give (half of a gap, ten points) stand in the claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ma_sbi.experiments.claims import (
    Claim,
    Found,
    Lines,
    Outcome,
    against,
    at_least,
    at_most,
    by_verdict,
    difference,
    missing,
    percent,
    within,
)
from ma_sbi.experiments.comparing import Line

__all__ = ["CLAIMS", "judge_claims"]

Judge = Callable[[Lines], Mapping[str, Found]]
CLAIMS: list[tuple[str, str, Judge]] = []


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
    except LookupError:
        return "not run", ""
    if not found:
        return "not run", ""
    outcomes = {outcome for outcome, _ in found.values()}
    words = "; ".join(
        f"{name}: {said}" if name else said for name, (_, said) in found.items()
    )
    return (outcomes.pop() if len(outcomes) == 1 else "in part"), words


def claim(said: str, experiment: str) -> Callable[[Judge], Judge]:
    """Keep a function as the judge of a claim."""

    def keep(judge: Judge) -> Judge:
        CLAIMS.append((said, experiment, judge))
        return judge

    return keep


@claim("MA-SBI closes 87 to 101 % of the gap on all five tasks", "main_results")
def _closes_the_gap(lines: Lines) -> Mapping[str, Found]:
    found = {}
    for task in ("GL", "SLCP", "Two Moons", "SIR", "DDM"):
        labels = {"task": task, "backbone": "ddpm", "method": "ma_sbi_paper"}
        found[task] = by_verdict(lines.one(**labels)), percent(lines.share(**labels))
    return found


@claim(
    "With text alone MA-SBI is equivalent to the oracle on SLCP: within 0.02 of C2ST, "
    "ten seeds",
    "hide_calibration",
)
def _equivalent(lines: Lines) -> Mapping[str, Found]:
    found: dict[str, Found] = {}
    for name, backbone in (("flow", "maf"), ("diffusion model", "ddpm")):
        labels = {"backbone": backbone, "method": "ma_sbi_paper"}
        line = lines.one("Difference", **labels)
        number = lines.number("Difference", **labels)
        shown = line.note.startswith("yes")
        outcome: Outcome = "holds" if shown else "fails" if number.low > 0.02 else "open"
        interval = f"[{number.low:.4f}, {number.high:.4f}]"
        found[name] = outcome, f"{number.value:+.4f} {interval}, {line.note}"
    return found


@claim(
    "RoPE's Algorithm 1 with true parameters collapses on SLCP: worse than no correction",
    "hide_calibration",
)
def _rope_collapses(lines: Lines) -> Mapping[str, Found]:
    forms = {"with step 2": "rope_paper", "without": "rope_paper_ot_only"}
    shares = {
        name: lines.share(backbone="maf", method=form) for name, form in forms.items()
    }
    return {name: (at_most(one, 0.0), percent(one)) for name, one in shares.items()}


@claim("RoPE-EMD with true parameters closes 28 % on SLCP", "main_results")
def _rope_emd_helps(lines: Lines) -> Mapping[str, Found]:
    share = lines.share(task="SLCP", backbone="ddpm", method="rope_emd")
    return {"": (at_least(share, 0.0), percent(share))}


@claim("On DDM text closes more than RoPE does with true parameters", "main_results")
def _ahead_on_ddm(lines: Lines) -> Mapping[str, Found]:
    pair = [
        lines.share(task="DDM", backbone="ddpm", method=method)
        for method in ("ma_sbi_paper", "rope_emd")
    ]
    return {"": against(*pair)}


@claim("On SIR RoPE with true parameters closes more than text does", "main_results")
def _behind_on_sir(lines: Lines) -> Mapping[str, Found]:
    pair = [
        lines.share(task="SIR", backbone="ddpm", method=method)
        for method in ("rope_emd", "ma_sbi_paper")
    ]
    return {"": against(*pair)}


@claim("NPE with the context as an input collapses on SLCP", "main_results")
def _concat_collapses(lines: Lines) -> Mapping[str, Found]:
    share = lines.share(task="SLCP", backbone="ddpm", method="concat")
    return {"": (at_most(share, 0.0), percent(share))}


@claim("Flow and diffusion model agree within 5 points of the gap", "backbone_ablation")
def _backbones_agree(lines: Lines) -> Mapping[str, Found]:
    found = {}
    for task in ("GL", "SLCP", "Two Moons"):
        flow, ddpm = (
            lines.share(task=task, backbone=backbone, method="ma_sbi_paper")
            for backbone in ("maf", "ddpm")
        )
        words = f"{flow.value:.0f} and {ddpm.value:.0f} %"
        found[task] = within(difference(flow, ddpm), 5.0), words
    return found


@claim("A continuous context is learned as well: 97 % closed", "continuous_context")
def _continuous(lines: Lines) -> Mapping[str, Found]:
    found = {}
    for name, backbone in (("diffusion model", "ddpm"), ("flow", "maf")):
        line = lines.one(backbone=backbone, method="ma_sbi_paper")
        share = lines.share(backbone=backbone, method="ma_sbi_paper")
        marginal = lines.share(backbone=backbone, method="ma_sbi_marginal")
        outcome = by_verdict(line) if line.verdict else at_least(share, 80.0)
        words = f"{percent(share)}, a mean shift alone {marginal.value:.0f} %"
        found[name] = outcome, words
    return found


@claim("What the regime adds carries more than the mean shift", "decomposition")
def _conditional_carries(lines: Lines) -> Mapping[str, Found]:
    return {
        task: against(
            *(
                lines.share(task=task, context="informative", method=f"ma_sbi_paper_{part}")
                for part in ("conditional", "marginal")
            )
        )
        for task in ("SLCP", "Two Moons", "DDM")
    }


@claim("With filler for text the regime adds nothing (within 10 points)", "decomposition")
def _filler(lines: Lines) -> Mapping[str, Found]:
    found = {}
    for task in ("GL", "SLCP", "SIR", "DDM"):
        share = lines.share(
            task=task, context="uninformative", method="ma_sbi_paper_conditional"
        )
        found[task] = within(share, 10.0), percent(share)
    return found


@claim("Theorem 1 bounds the bias that can be removed, figure by figure", "theorem_1")
def _theorem(lines: Lines) -> Mapping[str, Found]:
    judged = [line for line in lines.all if line.verdict] or missing()
    good = sum(line.verdict == "reproduced" for line in judged)
    outcome: Outcome = "holds" if good == len(judged) else "in part"
    return {"": (outcome, f"{good} of {len(judged)} figures reproduced")}


@claim("The gap closed tracks I / log K exactly (within a point, K = 4)", "channels")
def _tracks_information(lines: Lines) -> Mapping[str, Found]:
    found: dict[str, Found] = {}
    for kind in ("missing", "wrong"):
        some = lines.some("K = 4", **{"context not right is": kind})
        pairs = [(line.closed or missing(), line.raw or missing()) for line in some]
        off = max(abs(closed.value - 100 * raw.value) for closed, raw in pairs)
        outcome: Outcome = "holds" if off <= 1.0 else "fails"
        found[f"contexts that are {kind}"] = outcome, f"off by up to {off:.1f} points"
    return found


@claim("The sub-Gaussian bound is sharp: ratios from 0.33 to 0.995", "sharpness")
def _sharp(lines: Lines) -> Mapping[str, Found]:
    found = {}
    for law in ("smallest of all", "largest of all"):
        line = lines.one("exact information", law=law)
        value = lines.number("exact information", law=law).value
        found[law] = by_verdict(line), f"{value:.3f}"
    return found


@claim("A context of pure noise closes nothing (within 5 points)", "noisy_context")
def _pure_noise(lines: Lines) -> Mapping[str, Found]:
    share = lines.share(p=0.0, method="ma_sbi_paper")
    return {"": (within(share, 5.0), percent(share))}


@claim("A weak context does harm: a dip of -36 % at p = 0.25", "noisy_context")
def _dip(lines: Lines) -> Mapping[str, Found]:
    share = lines.share(p=0.25, method="ma_sbi_paper")
    return {"": (at_most(share, 0.0), percent(share))}


@claim("Text closes what the calibration index cannot at new rows", "index_or_text")
def _text_over_index(lines: Lines) -> Mapping[str, Found]:
    pair = (
        lines.share(n_cal=500, method=method)
        for method in ("ma_sbi_paper", "index, new row")
    )
    return {"": against(*pair)}


@claim(
    "Text identifies regimes that the calibration never visited (half of the gap)",
    "unseen_regimes",
)
def _unseen(lines: Lines) -> Mapping[str, Found]:
    found: dict[str, Found] = {}
    for task in ("GL", "SLCP", "Two Moons"):
        some = lines.some(task=task, method="ma_sbi")
        shares = [line.closed or missing() for line in some]
        outcomes = {at_least(share, 50.0) for share in shares}
        ends = [f"{pick(one.value for one in shares):.0f}" for pick in (min, max)]
        one = outcomes.pop() if len(outcomes) == 1 else "open"
        found[task] = one, f"{' to '.join(ends)} % closed of a regime left out"
    return found


@claim("MiniLM in place of the hash changes C2ST by less than 0.02", "encoder_ablation")
def _encoders_agree(lines: Lines) -> Mapping[str, Found]:
    numbers = {
        str(line.labels["task"]): line.raw
        for line in lines.some("MiniLM minus hash")
        if line.raw is not None
    }
    return {task: (within(one, 0.02), f"{one.value:+.3f}") for task, one in numbers.items()}


@claim(
    "The network is robust to weight decay up to 1e-4 (0.02 of C2ST)", "corrector_network"
)
def _weight_decay(lines: Lines) -> Mapping[str, Found]:
    usual = lines.number(method="ma_sbi_paper")
    found: dict[str, Found] = {}
    for decay in (1e-5, 1e-4):
        number = lines.number(method="ma_sbi_network", weight_decay=decay)
        change = number.value - usual.value
        outcome: Outcome = "holds" if abs(change) < 0.02 else "fails"
        found[f"{decay:g}"] = outcome, f"{change:+.3f}"
    return found


@claim("Every benchmark passes the Exclusion Test: R² of x_sim below 0.10", "exclusion")
def _exclusion(lines: Lines) -> Mapping[str, Found]:
    found = {}
    for data in ("GL", "SLCP", "Two Moons", "SIR", "DDM"):
        number = lines.number(data=data, **{"x_sim is": "true", "R² of": "x_sim"})
        found[data] = at_most(number, 0.1), f"{abs(number.value):.3f}"
    return found


@claim("MA-SBI adds about a second to NPE", "compute")
def _cheap(lines: Lines) -> Mapping[str, Found]:
    fit = lines.number(phase="calibration fit", method="ma_sbi_paper")
    outcome: Outcome = "holds" if fit.value < 1.5 else "fails"
    return {"": (outcome, f"{fit.value:.1f} s")}


@claim("On Covid-19 counts the stochastic variant cuts the loss by 54 %", "covid")
def _covid(lines: Lines) -> Mapping[str, Found]:
    asked = {"setting": "4 countries, leave one out", "over": "NPE"}
    line = lines.one("Gains", method="stochastic", **asked)
    number = lines.number("Gains", method="stochastic", **asked)
    said = f"{number.value:.1f} % [{number.low:.1f}, {number.high:.1f}]"
    return {"": (by_verdict(line), said)}


@claim("On Evans and Hawkins' data it changes nothing: -2.8 %", "instructions")
def _instructions(lines: Lines) -> Mapping[str, Found]:
    number = lines.number("Gains", data="Evans & Hawkins (2019)", method="matched")
    if math.isnan(number.value):
        return {"": ("not run", number.reason)}
    return {"": (within(number, 0.05), f"{number.value:+.4f} nats per trial")}
