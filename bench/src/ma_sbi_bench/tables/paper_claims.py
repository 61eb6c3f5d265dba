"""What the paper claims in words (``claims.json``), and what our numbers say of it.

A claim is a sentence, the experiment that tests it, and a criterion, with what differs in
each of its cases. They were written when most numbers were known; limits that the paper
does not give (half of a gap, ten points) stand in the claim.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from operator import itemgetter
from typing import Any

from ma_sbi_bench.paper.comparing import Compared, Line, exactly
from ma_sbi_bench.tables.claims import (
    BY_VERDICT,
    RULES,
    Claim,
    Criterion,
    Found,
    Lines,
    Unfinished,
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
from ma_sbi_bench.theory import GaussianWorld

__all__ = ["CLAIMS", "judge_claims"]

CLAIMS: list[dict[str, Any]] = json.loads(
    files("ma_sbi_bench.tables").joinpath("claims.json").read_text(encoding="utf-8")
)
"""Every claim, in the order of the report.

Beside ``claim``, ``experiment`` and ``cases`` there are the attributes of a criterion, and
labels of the line that it is about. A case has those in which it differs.
"""


def judge_claims(lines: Mapping[str, Sequence[Line]]) -> list[Claim]:
    """Judge what the paper claims, as far as it concerns some experiments.

    Args:
        lines: Lines of each experiment, by its name.
    """
    return [
        Claim(one["claim"], one["experiment"], *_judged(one, lines[one["experiment"]]))
        for one in CLAIMS
        if one["experiment"] in lines
    ]


def _judged(claim: Mapping[str, Any], lines: Sequence[Line]) -> Found:
    own = ("claim", "experiment", "cases")
    common = {name: value for name, value in claim.items() if name not in own}
    try:
        found = {
            name: _judge(Criterion.of(common | case), Lines(lines))
            for name, case in claim.get("cases", {"": {}}).items()
        }
    except Unfinished:
        return "not run", ""
    words = [f"{name}: {said}" if name else said for name, (_, said) in found.items()]
    return together(outcome for outcome, _ in found.values()), "; ".join(words)


def _judge(criterion: Criterion, lines: Lines) -> Found:
    if criterion.rule in (BY_VERDICT, *RULES):
        return criterion.judge(lines)
    return SPECIAL_RULES[criterion.rule](criterion, lines)


def _plateau(criterion: Criterion, lines: Lines) -> Found:
    values = [
        lines.number(criterion.table, **criterion.labels, N_s=num).value
        for num in (200, 500, 1000, 2000, 5000)
    ]
    spread = exactly(max(values) - min(values))
    return within(spread, criterion.limit), f"{min(values):.3f} to {max(values):.3f}"


def _continuous(criterion: Criterion, lines: Lines) -> Found:
    ddpm, flow, marginal = (
        lines.share(backbone=backbone, method=method)
        for backbone, method in (
            ("ddpm", "ma_sbi_paper"),
            ("maf", "ma_sbi_paper"),
            ("ddpm", "ma_sbi_marginal"),
        )
    )
    (line,) = lines.some(backbone="ddpm", method="ma_sbi_paper", task="slcp_continuous")
    return by_verdict(line.verdict), (
        f"{percent(ddpm)}, where a mean shift alone closes {percent(marginal)}; with the "
        f"flow {percent(flow)}"
    )


def _bounded(criterion: Criterion, lines: Lines) -> Found:
    """Judge, in each world, whether what is gained in simulations stays below the bound.

    A bound that is reached cannot be seen to hold: it may be passed by the limit, a share
    of all that there is to gain.
    """
    worlds = [line.labels["correlations"] for line in lines.some(quantity="exact bound")]
    allowed = criterion.limit * GaussianWorld().full_reduction
    outcomes, largest = [], -math.inf
    for world in worlds:
        gain = lines.number(correlations=world, quantity="reduction, simulated")
        bound = lines.number(correlations=world, quantity="exact bound")
        excess = difference(gain, bound)
        outcomes.append(at_most(excess, allowed))
        largest = max(largest, excess.high)
    held = outcomes.count("holds")
    words = f"below it in {held} of {len(worlds)} worlds; at most {largest:+.4f} beyond it"
    return everywhere(outcomes), words


def _threshold(criterion: Criterion, lines: Lines) -> Found:
    """Judge whether a context does harm below some information, and helps above it."""
    some = [
        (float(line.labels["I"]), line.closed or missing())
        for line in lines.some(criterion.table, **criterion.labels)
    ]
    below = [at_most(share, 0.0) for nats, share in some if 0 < nats < criterion.limit]
    above = [at_least(share, 0.0) for nats, share in some if nats > criterion.limit]
    if not below or not above:
        missing()
    words = ", ".join(
        f"{percent(share)} at {nats:.2f}" for nats, share in sorted(some, key=itemgetter(0))
    )
    return everywhere([*below, *above]), words


def _tracks_information(criterion: Criterion, lines: Lines) -> Found:
    some = lines.some(criterion.table, **criterion.labels)
    pairs = [(line.closed or missing(), line.raw or missing()) for line in some]
    off = [difference(closed, exactly(100 * raw.value)) for closed, raw in pairs]
    most = max(abs(one.value) for one in off)
    outcome = everywhere(within(one, criterion.limit) for one in off)
    return outcome, f"off by up to {most:.1f} points"


def _reaches(criterion: Criterion, lines: Lines) -> Found:
    some = lines.some(criterion.table, **criterion.labels)
    largest = max((line.raw or missing()).value for line in some)
    return at_least(exactly(largest), criterion.limit), f"{largest:.4f}"


def _between(criterion: Criterion, lines: Lines) -> Found:
    """Judge the ends of the range where the paper's stand beside them."""
    low, high = (
        _beside_the_papers(
            lines.some(criterion.table, **criterion.labels, law=f"{end} of all")
        )
        for end in ("smallest", "largest")
    )
    outcomes = at_least(low, low.paper or missing()), at_most(high, high.paper or missing())
    return everywhere(outcomes), f"{low.value:.3f} to {high.value:.3f}"


def _beside_the_papers(lines: Sequence[Line]) -> Compared:
    numbers = (line.raw for line in lines if line.raw is not None)
    return next((one for one in numbers if one.paper is not None), None) or missing()


def _all_at_least(criterion: Criterion, lines: Lines) -> Found:
    shares = [
        line.closed or missing() for line in lines.some(criterion.table, **criterion.labels)
    ]
    low, high = (pick(one.value for one in shares) for pick in (min, max))
    outcome = everywhere(at_least(one, criterion.limit) for one in shares)
    return outcome, f"{low:.0f} to {high:.0f} %"


SPECIAL_RULES = {
    "plateau": _plateau,
    "continuous": _continuous,
    "bounded": _bounded,
    "threshold": _threshold,
    "tracks_information": _tracks_information,
    "reaches": _reaches,
    "between": _between,
    "all_at_least": _all_at_least,
}
"""Rules on several lines."""
