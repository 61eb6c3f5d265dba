"""The paper's decision rule, made executable, with its reasons."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ma_sbi.correctors.bootstrap import Preflight
from ma_sbi.diagnostics.departure_family import DepartureFamily
from ma_sbi.diagnostics.information import Information
from ma_sbi.diagnostics.out_of_distribution import OutOfDistribution
from ma_sbi.diagnostics.weak_context import WeakContext
from ma_sbi_bench.methods import METHODS, NEEDS, Materials, Need

__all__ = ["Recommendation", "recommend"]

# Departures this small, in standard deviations, are rounding.
ROUNDING = 1e-6
# Beyond this share of variance within regimes a point leaves most of the departure.
MOSTLY_WITHIN = 0.5
# Below so many pairs, RoPE's and others' networks have too little to learn from.
FEW_PAIRS = 50


@dataclass(frozen=True)
class Recommendation:
    """Which method fits what there is, and why.

    Attributes:
        method: A key of ``ma_sbi_bench.methods.METHODS``.
        corrector: For MA-SBI, a class of ``ma_sbi.correctors``; None for other methods.
        departure: For MA-SBI, ``"Shift"`` or ``"Affine"``.
        inference: For MA-SBI, ``"Point"``, ``"Mixture"`` or ``"Evidence"``.
        reasons: Why, in words: the paper's rule first, then what was measured.
        alternatives: Other methods that the data allow and that did well in our
            comparisons (``docs/rivals.md``), best first.
    """

    method: str
    corrector: str | None
    departure: str | None
    inference: str | None
    reasons: tuple[str, ...]
    alternatives: tuple[str, ...]

    def __str__(self) -> str:
        what = (
            self.method if self.corrector is None else f"{self.method} ({self.corrector})"
        )
        lines = [f"recommended: {what}", *(f"- {reason}" for reason in self.reasons)]
        if self.alternatives:
            lines.append(f"also possible: {', '.join(self.alternatives)}")
        return "\n".join(lines)


def recommend(
    has: Materials | Iterable[Need],
    *,
    num_triples: int | None = None,
    contexts_repeat: bool | None = None,
    free_text: bool = False,
    information: Information | None = None,
    exclusion: Any = None,
    weak_context: WeakContext | None = None,
    preflight: Preflight | None = None,
    family: DepartureFamily | None = None,
    out_of_distribution: OutOfDistribution | None = None,
) -> Recommendation:
    """Recommend a method for what there is and what the diagnostics found.

    The paper's rule: true parameters point to RoPE or FRISBI, a context of regimes to
    MA-SBI, neither to NPE or NNPE. Where our own comparisons differ, the reasons say so.
    Every diagnostic is optional; without it the rule assumes the best.

    Args:
        has: The materials, or the kinds of material that there are; see
            ``ma_sbi_bench.methods.NEEDS``.
        num_triples: Calibration rows; those of ``has`` or ``weak_context`` if None.
        contexts_repeat: Whether contexts are regimes that recur; ``weak_context`` tells
            if None.
        free_text: Whether the context is text in free wording.
        information: What ``mutual_information`` returned.
        exclusion: What ``exclusion_test`` returned, or False for a context that leaks
            theta.
        weak_context: What :func:`weak_context` returned.
        preflight: What ``BootstrapCorrector.preflight`` returned.
        family: What :func:`departure_family` returned.
        out_of_distribution: What :func:`out_of_distribution` returned.

    Raises:
        ValueError: If a kind of material does not exist.

    Example:
        >>> print(recommend({"posterior", "context", "pairs"}).method)
        ma_sbi
    """
    if isinstance(has, Materials):
        kinds = has.has
        if num_triples is None and has.calibration is not None:
            num_triples = len(has.calibration)
    else:
        kinds = frozenset(has)
        for kind in kinds:
            if kind not in NEEDS:
                raise ValueError(f"there is no material {kind!r}; known are {list(NEEDS)}")
    if num_triples is None and weak_context is not None:
        num_triples = weak_context.num_triples
    if contexts_repeat is None and weak_context is not None:
        contexts_repeat = weak_context.contexts_repeat
    found = _Found(
        kinds,
        num_triples,
        contexts_repeat,
        free_text,
        information,
        _passes(exclusion),
        weak_context,
        preflight,
        family,
        out_of_distribution,
    )
    return found.recommend()


def _passes(exclusion: Any) -> bool:
    """Read an exclusion test, or a plain yes or no; unknown passes."""
    passed = getattr(exclusion, "passed", exclusion)
    return passed is None or bool(passed)


@dataclass
class _Found:
    """What is known; each rule adds its reasons."""

    has: frozenset[Need]
    num_triples: int | None
    contexts_repeat: bool | None
    free_text: bool
    information: Information | None
    is_clean: bool
    weak: WeakContext | None
    preflight: Preflight | None
    family: DepartureFamily | None
    unusual: OutOfDistribution | None
    reasons: list[str] = field(default_factory=list)

    def recommend(self) -> Recommendation:
        """Apply the paper's rule from top to bottom."""
        if "context" in self.has and not self.is_clean:
            self.reasons.append(
                "The context tells about theta, not only about the departure: correcting "
                "by it would remove a true effect, so it is not used."
            )
            self.has = self.has - {"context"}
        for rule in (self._with_theta, self._with_context, self._with_neither):
            recommendation = rule()
            if recommendation is not None:
                return recommendation
        raise AssertionError("the last rule always answers")

    def _with_theta(self) -> Recommendation | None:
        if "theta*" not in self.has:
            return None
        method = self._first("rope", "rope_calibration", "frisbi")
        if method is None:
            self.reasons.append(
                "There are true parameters, which the paper's rule gives to RoPE or "
                "FRISBI, but not all that they need is there (`ma-sbi methods rope`)."
            )
            return None
        self.reasons.append(
            "The paper's rule: true parameters of real observations point to RoPE or "
            "FRISBI."
        )
        self.reasons.append(
            "In our comparisons RoPE closes 84 to 93 % of the gap where the departure is "
            "structural (SIR, DDM), and FRISBI 61 % at best; FMCPE (88 to 94 %) and "
            "classifier-free guidance with the context (94 to 97 %) do as well or better."
        )
        if {"context", "pairs"} <= self.has:
            self.reasons.append(
                "Where the departure is a shift that the context names, MA-SBI closes all "
                "of the gap without true parameters, and RoPE does harm (SLCP, GL)."
            )
        if self.num_triples is not None and self.num_triples < FEW_PAIRS:
            self.reasons.append(
                f"{self.num_triples} pairs are few for a method that trains on them; "
                "compare on held-out pairs before believing it."
            )
        best = ["classifier_free", "fmcpe", "ma_sbi", "frisbi"]
        if self._context_explains():
            best.insert(0, best.pop(best.index("ma_sbi")))
        return self._answer(method, best)

    def _with_context(self) -> Recommendation | None:
        if not {"context", "posterior"} <= self.has:
            return None
        if "pairs" in self.has:
            return self._paired()
        if "simulations" in self.has:
            return self._unpaired()
        self.reasons.append(
            "There is a context, but neither simulations at the inputs of the observations "
            "nor a pool of simulations to compare them with: run the simulator."
        )
        return None

    def _paired(self) -> Recommendation | None:
        self.reasons.append(
            "The paper's rule: contexts with paired simulations point to MA-SBI."
        )
        weak = self.weak
        alternatives = ["ma_sbi_affine", "ma_sbi", "nnpe_matched", "nnpe"]
        if self.family is not None and self.family.family == "affine":
            self._say_context(weak)
            self.reasons.append(
                f"The departure depends on x: slopes add {self.family.on_x_obs} to a "
                "shift, held out. The paper's shift is the wrong family here, as on SIR, "
                "where an affine one closes 73 to 85 % and a shift does harm or closes "
                "62 %."
            )
            return self._answer("ma_sbi_affine", alternatives, "ComposedCorrector")
        if weak is not None and weak.verdict in ("nothing", "harms"):
            return self._marginal(weak)
        self._say_context(weak)
        if self._varies_within():
            if self.contexts_repeat is False:
                self.reasons.append(
                    "No context repeats: BootstrapCorrector(encoder, width='auto') lets "
                    "similar ones share their departures."
                )
            return self._answer("ma_sbi", alternatives, "BootstrapCorrector", "Mixture")
        return self._answer("ma_sbi", alternatives, "ShiftCorrector")

    def _marginal(self, weak: WeakContext) -> Recommendation | None:
        self.reasons.append(
            f"The context adds {weak.conditional} to the mean departure on held-out rows: "
            "it is too weak for a point corrector."
        )
        self.reasons.append(
            "Theorem 1 bounds correctors that read the context alone. Departures that "
            "differ by more than x varies show in x itself: weighing them by the evidence "
            "(ComposedCorrector with ResidualPools() and Evidence(log_density)) can reach "
            "the oracle with no context at all; it needs the simulations' density."
        )
        if weak.marginal.low > 0:
            self.reasons.append(
                f"The mean departure alone takes away {weak.marginal}: use the marginal "
                "part, decompose(corrector, context).marginal."
            )
            return self._answer("ma_sbi", ["nnpe_matched", "nnpe"], "MarginalCorrector")
        self.reasons.append("Nor does the mean departure help.")
        return None

    def _say_context(self, weak: WeakContext | None) -> None:
        if self.information is not None and self.information.p_value >= 0.05:
            self.reasons.append(
                f"No information of the context on the departure was found "
                f"({self.information.value:.3f} nats, p = {self.information.p_value:.2g}); "
                "without any, only the mean departure is left to correct."
            )
        if weak is not None:
            self.reasons.append(
                f"The context adds {weak.conditional} to the mean departure on held-out "
                "rows."
                + (
                    " That it helps is not shown; compare with the mean departure alone."
                    if weak.verdict == "unclear"
                    else ""
                )
            )
            if weak.num_needed is not None and not weak.enough:
                self.reasons.append(
                    f"About {weak.num_needed} triples would give 90 % of what the context "
                    f"can; there are {weak.num_triples}."
                )
        if self.free_text:
            self.reasons.append(
                "Free wording needs SentenceEncoder: the hash of the paper recovers "
                "nothing of wordings that it has not seen."
            )

    def _varies_within(self) -> bool:
        if self.preflight is not None and self.preflight.recommendation == "stochastic":
            self.reasons.append(
                f"{self.preflight.share:.1%} of departures are more than three times as "
                "long as their regime's median: the paper's signal for the stochastic "
                "variant."
            )
            return True
        if self.weak is not None and self.weak.within > MOSTLY_WITHIN:
            self.reasons.append(
                f"{self.weak.within:.0%} of the departure's variance lies within regimes, "
                "where a point corrector would be overconfident: average over the "
                "departures seen."
            )
            return True
        return False

    def _unpaired(self) -> Recommendation:
        self.reasons.append(
            "The paper's rule: a context points to MA-SBI; without simulations "
            "at the inputs of each observation, to its matching form."
        )
        self.reasons.append(
            "Matching takes theta to have the same distribution in every regime. Where "
            "regimes change theta it removes a true effect, and the data cannot tell."
        )
        if self.contexts_repeat is False:
            self.reasons.append(
                "No context repeats, and matching needs many observations of each: group "
                "the contexts into regimes first."
            )
        if self.free_text:
            self._say_context(None)
        return self._answer("ma_sbi", ["npe_rs", "nnpe", "rnpe"], "MatchingCorrector")

    def _with_neither(self) -> Recommendation:
        usual = self.unusual is not None and self.unusual.before.p_value >= 0.05
        if self.weak is not None and self.weak.size < ROUNDING:
            usual = True
            self.reasons.append("Observations and simulations are the same.")
        elif usual:
            self.reasons.append(
                "The observations cannot be told from simulations; no correction is called "
                "for that could be learned from these data."
            )
        self.reasons.append(
            "The paper's rule: with neither true parameters nor a context that helps, NPE "
            "or NNPE."
        )
        preferred = ("npe", "nnpe") if usual else ("nnpe", "npe")
        method = self._first(*preferred, "prior")
        if method == "nnpe":
            self.reasons.append(
                "NNPE and RNPE admit that the simulator may be wrong: their log scores are "
                "far above NPE's on every departure that we tried, at some cost in "
                "sharpness."
            )
        if method == "prior":
            self.reasons.append(
                "There is neither a posterior nor simulations to train one."
            )
        return self._answer(method or "prior", ["rnpe", "npe_rs", "nnpe", "npe"])

    def _context_explains(self) -> bool:
        return self.weak is not None and self.weak.total.low > 0.5

    def _first(self, *names: str) -> str | None:
        return next((name for name in names if self._possible(name)), None)

    def _possible(self, name: str) -> bool:
        return METHODS[name]().needs <= self.has

    def _answer(
        self,
        method: str,
        alternatives: list[str],
        corrector: str | None = None,
        inference: str = "Point",
    ) -> Recommendation:
        affine = method == "ma_sbi_affine"
        return Recommendation(
            method=method,
            corrector=corrector,
            departure=None if corrector is None else "Affine" if affine else "Shift",
            inference=None if corrector is None else inference,
            reasons=tuple(self.reasons),
            alternatives=tuple(
                name for name in alternatives if name != method and self._possible(name)
            ),
        )
