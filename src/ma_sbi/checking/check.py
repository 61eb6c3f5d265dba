"""One call that answers whether a correction by this context can be trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from ma_sbi.checking.encoding import Reading, read
from ma_sbi.checking.result import Check, Rows
from ma_sbi.checking.running import LEAK_SUSPECTED, Diagnosis
from ma_sbi.checking.subject import check_width, limit, validate
from ma_sbi.checking.verdict import Facts, Leak, Verdict, decide
from ma_sbi.context import distinct, is_missing
from ma_sbi.diagnostics.recommendation import Recommendation, recommend
from ma_sbi.posterior import CorrectedPosterior
from ma_sbi.protocols import Context, Encoder
from ma_sbi_bench.methods.materials import Need

__all__ = ["check"]

# Below this p-value observations differ from simulations.
UNUSUAL = 0.01
# Share of the departure that may be left.
LITTLE = 0.1
# Share of corrected observations that may lie far outside the training range.
STRAY = 0.01
# Chance of finding a leak that matters, below which finding none says little.
POWER_NEEDED = 0.8


def check(
    x_obs: Any,
    context: Context,
    *,
    x_sim: Any = None,
    theta: Any = None,
    groups: Any = None,
    posterior: Any = None,
    corrector: Any = None,
    simulator: Callable[..., Any] | None = None,
    encoder: Encoder | None = None,
    seed: int | None = None,
    show_progress: bool = False,
) -> Check:
    """Run every diagnostic that the data allow, and say what to do.

    Only ``x_sim`` and ``theta`` must not depend on the context; that the observations
    do is what a departure looks like. Whatever is corrected was corrected by what other
    rows taught, unless a fitted ``corrector`` is passed.

    Args:
        x_obs: Observations, shape ``(n, dim_x)``.
        context: One entry per observation: texts, labels, numbers or a table.
        x_sim: Simulations at the same inputs, row by row, shape ``(n, dim_x)``. Without
            them neither the gain nor, unless ``theta`` is given, a leak can be tested.
        theta: True parameters of the observations, shape ``(n, dim_theta)``.
        groups: One label per row where rows are not independent (participant, country).
        posterior: The trained posterior, or a ``CorrectedPosterior``.
        corrector: A corrector to judge instead of a closed-form shift. A fitted one must
            not have seen these rows.
        simulator: theta ``(n, dim_theta)`` to x ``(n, dim_x)``.
        encoder: Context to vectors; one that suits the context if None.
        seed: Makes the result repeatable.
        show_progress: Whether to show what is being done, on standard error.

    Raises:
        ValueError: If the rows do not match, are fewer than 20 or not finite, or the
            context says the same in all of them.

    Example:
        >>> import torch
        >>> x_sim = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
        >>> notes = ["The sensor reads high.", "All is well."] * 150
        >>> x_obs = x_sim + torch.tensor([[1.0, 0.0], [0.0, 0.0]]).repeat(150, 1)
        >>> check(x_obs, notes, x_sim=x_sim, seed=0).verdict
        'use'
    """
    if isinstance(posterior, CorrectedPosterior):
        corrector = posterior.corrector if corrector is None else corrector
        posterior = posterior.posterior
    if hasattr(posterior, "sample_batched"):
        from ma_sbi.posteriors import from_sbi

        posterior = from_sbi(posterior)
    subject = validate(x_obs, context, x_sim, theta, groups)
    check_width(subject, posterior)
    with _progress(shown=show_progress) as stage:
        stage("Reading the context")
        subject, notes = limit(subject)
        if encoder is None:
            encoder = getattr(corrector, "encoder", None)
        reading = read(subject.entries) if encoder is None else Reading(encoder)
        # A context that cannot be read is refused now, not by every diagnostic.
        clone(reading.encoder).fit(subject.entries).transform(subject.entries)
        subject = replace(
            subject,
            encoder=reading.encoder,
            posterior=posterior,
            corrector=corrector,
            simulator=simulator,
            seed=seed,
        )
        diagnosis = Diagnosis(subject, stage, notes=[*notes, *reading.notes])
        diagnosis.run()
    decision = decide(_facts(diagnosis))
    recommendation = _recommend(diagnosis, free_text=reading.free_text)
    return Check(
        verdict=decision.verdict,
        reasons=decision.reasons,
        figures=diagnosis.figures,
        recommendation=_agreeing(recommendation, decision.verdict),
        notes=tuple(diagnosis.notes),
        num_rows=len(subject.x_obs),
        num_contexts=len(distinct(subject.entries)[0]),
        dim_x=subject.x_obs.shape[1],
        rows=_rows(diagnosis),
    )


def _facts(diagnosis: Diagnosis) -> Facts:
    """Reduce the figures to what the verdict reads."""
    found = diagnosis.found
    weak, affine = found("weak_context"), found("affine")
    information, unusual = found("information"), found("out_of_distribution")
    gains = weak if affine is None else affine
    leak, detail = _leak(diagnosis)
    informative = None
    if information is not None and weak is not None:
        above = information.value > weak.min_information
        informative = bool(information.p_value <= 0.05 and above)
    departure = None
    if unusual is not None and gains is not None:
        helps = gains.total.low > 0 or gains.conditional.low > 0 or gains.marginal.low > 0
        departure = bool(unusual.before.p_value < UNUSUAL or helps)
    coverage, predicted, outside = map(
        found, ("coverage", "predictive_check", "training_range")
    )
    means, observations = found("means"), found("observations")
    after = None if unusual is None else unusual.after
    return Facts(
        leak=leak,
        leak_detail=detail,
        departure=departure,
        marginal=None if gains is None else gains.marginal,
        conditional=None if gains is None else gains.conditional,
        total=None if gains is None else gains.total,
        why_no_gain=str(diagnosis.figures["weak_context"]) if gains is None else "",
        affine=affine is not None,
        informative=informative,
        num_triples=len(diagnosis.subject.x_obs),
        # An affine corrector has slopes to learn, of which this number knows nothing.
        num_needed=None if weak is None or affine is not None else weak.num_needed,
        # What an affine corrector leaves is not what a shift leaves.
        within=None if weak is None or affine is not None else weak.within,
        usual_after=None
        if after is None
        else after.p_value >= UNUSUAL or _little_left(gains),
        covered=None if coverage is None else coverage.fine,
        explained=None if predicted is None else predicted.p_value >= UNUSUAL,
        inside_range=None
        if outside is None or outside.after is None
        else outside.after <= STRAY,
        means_move=None if means is None else means.still_move,
        observations_move=None if observations is None else observations.p_value <= 0.05,
        unseen=diagnosis.contexts_in_one_group,
    )


def _little_left(gains: Any) -> bool:
    """Tell whether what still shows is a trifle, which many rows find, too."""
    return gains is not None and gains.total.value >= 1 - LITTLE


def _leak(diagnosis: Diagnosis) -> tuple[Leak, str]:
    exclusion, power = diagnosis.found("exclusion"), diagnosis.found("leak_power")
    if exclusion is None or exclusion.passed is None:
        return "untested", (
            "Whether the context also tells theta could not be tested: "
            f"{_lower(str(diagnosis.figures['exclusion']))}"
        )
    if not exclusion.passed:
        return "found", "The context tells about theta. " + " ".join(exclusion.reasons)
    if exclusion.p_value <= LEAK_SUSPECTED:
        return "suspected", (
            f"The context may tell about theta (p = {exclusion.p_value:.2g}): below 1 %, "
            "but not so far below that chance is ruled out. Test more rows."
        )
    if power is not None and power.power < POWER_NEEDED:
        return "weak test", (
            f"No leak of theta was found, but {power}: not found is not absent."
        )
    return "none", (
        f"The context does not tell theta, as far as {exclusion.num_rows} rows can show "
        f"(p = {exclusion.p_value:.2g})."
    )


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _recommend(diagnosis: Diagnosis, *, free_text: bool) -> Recommendation | str:
    subject, found = diagnosis.subject, diagnosis.found
    # What is corrected is a posterior, even if it was not brought along.
    has: set[Need] = {"posterior", "x_obs", "context"}
    if subject.x_sim is not None:
        has.add("pairs")
    if subject.theta is not None:
        has.add("theta*")
    if subject.simulator is not None:
        has |= {"simulator", "simulations"}
    try:
        return recommend(
            has,
            free_text=free_text,
            num_triples=len(subject.x_obs),
            information=found("information"),
            exclusion=found("exclusion"),
            weak_context=found("weak_context"),
            family=found("family"),
            out_of_distribution=found("out_of_distribution"),
        )
    except Exception as error:  # noqa: BLE001 (the figures must not be lost for it)
        return f"No method could be recommended: {error}"


def _agreeing(found: Recommendation | str, verdict: Verdict) -> Recommendation | str:
    """Let the recommendation follow where the verdict rules a correction out."""
    if isinstance(found, str) or not found.method.startswith("ma_sbi"):
        return found
    if verdict == "do not use":
        reason = "No correction by this context: use the posterior as it is."
        return Recommendation("npe", None, None, None, (reason,), found.alternatives)
    if verdict == "use the marginal part only":
        reason = "Give every row the same context: only the common part is shown to help."
        departure = found.departure or "Shift"
        corrector = "ShiftCorrector" if departure == "Shift" else found.corrector
        return replace(
            found,
            corrector=corrector,
            departure=departure,
            inference="Point",
            reasons=(reason,),
        )
    return found


def _rows(diagnosis: Diagnosis) -> Rows:
    subject = diagnosis.subject
    texts = subject.entries
    if isinstance(texts, pd.DataFrame):
        texts = texts.astype(object).apply(lambda row: ", ".join(map(str, row)), axis=1)
    texts = texts.astype(object).where(~is_missing(texts), "(missing)")
    corrected = rows = None
    try:
        if diagnosis.corrected is not None:
            chosen, values = diagnosis.corrected
            corrected = values.numpy()
            full = len(chosen.x_obs) == len(subject.x_obs)
            rows = np.arange(len(subject.x_obs)) if full else diagnosis.affine_rows
    except Exception:  # noqa: BLE001 (a picture less; the figures say why)
        corrected = rows = None
    return Rows(
        texts.to_numpy(dtype=object),
        subject.x_obs.numpy(),
        None if subject.x_sim is None else subject.x_sim.numpy(),
        corrected,
        rows,
    )


@contextmanager
def _progress(*, shown: bool) -> Iterator[Callable[[str], None]]:
    """Show each step with its time, on standard error."""
    if not shown:
        yield lambda name: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        running: list[Any] = []

        def stage(name: str) -> None:
            if running:
                progress.update(running[-1], total=1, completed=1)
            running.append(progress.add_task(name, total=None))

        yield stage
