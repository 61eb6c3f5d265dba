"""One call: from calibration data to a corrector that knows what it does not know."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ma_sbi.choosing.calibration import (
    FEWEST_ROWS,
    Calibration,
    Simulations,
    read_calibration,
)
from ma_sbi.choosing.choice import Choice, choose
from ma_sbi.choosing.chosen import ChosenCorrector
from ma_sbi.choosing.encodings import choose_encoder, tabulate
from ma_sbi.choosing.features import describe
from ma_sbi.choosing.held_out import HeldOut, hold_out
from ma_sbi.choosing.outliers import Outliers
from ma_sbi.choosing.pairing import NotPaired, Pairing, examine_pairs
from ma_sbi.choosing.plan import Plan, Weighing
from ma_sbi.choosing.population import ELSEWHERE, energy_p_value, prior_p_value
from ma_sbi.choosing.proposals import (
    NOTHING,
    PROPOSALS,
    BaseProposal,
    Nothing,
)
from ma_sbi.choosing.reference import AnyReference, DensityReference, Reference
from ma_sbi.choosing.targets import (
    Observations,
    Predicted,
    SimulatedData,
    Target,
    by_posterior,
)
from ma_sbi.choosing.why import NOT_READ, Read, Tried, Why
from ma_sbi.context import distinct
from ma_sbi.correctors.forward import OtherUnits, about_spreads, why_unusable
from ma_sbi.correctors.likelihood import BoundedDensity, ShiftLikelihood
from ma_sbi.correctors.matching import MOST_UNLIKE, MatchingAssumption, about_units
from ma_sbi.display.progress import say, showing
from ma_sbi.labels import column_names, match_columns, match_rows
from ma_sbi.minilm import embedded_once
from ma_sbi.nan import not_drawn, refuse
from ma_sbi.protocols import (
    AmortizedPosterior,
    ArrayLike,
    Context,
    Encoder,
    SBIPosteriorLike,
    check_density,
    check_posterior,
)
from ma_sbi.randomness import derive
from ma_sbi.reading import about_context
from ma_sbi.telling import told_once, untold
from ma_sbi.transforming import check_encoder
from ma_sbi.validation import as_matrix

__all__ = ["fit_corrector", "plan_corrector"]

log = logging.getLogger(__name__)

LEFT_ALONE = "observations are left as they are"
NOTHING_LEARNED = Why(
    (Tried(NOTHING, LEFT_ALONE, None, None, 1.0, 1.0),),
    "no correction",
    "nothing",
    0,
    NOT_READ,
    (),
)
AT_ONE_SETTING = (
    "x_sim varies by no more than its noise, as at one setting, which says nothing of how "
    "a departure depends on x"
)
BLURRED = (
    "x_sim has noise of its own, and no posterior tells a departure that depends on x from "
    "one that only evens it out"
)
SAME_THETA = (
    "without pairs it is assumed that theta has the same distribution under every context; "
    "if it differs, a true effect is removed"
)


def fit_corrector(
    context: Context,
    x_obs: ArrayLike,
    x_sim: ArrayLike | None = None,
    *,
    simulations: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    density: Callable[[Tensor], Tensor] | None = None,
    posterior: AmortizedPosterior | SBIPosteriorLike | None = None,
    encoder: Encoder | None = None,
    groups: ArrayLike | Sequence[Any] | None = None,
    theta: ArrayLike | None = None,
    seed: int | None = None,
    show_progress: bool | None = None,
) -> ChosenCorrector:
    r"""Learn how reality departs from the simulator; choose how by held-out rows.

    .. math:: p(\theta \mid x, z) = \int q(\theta \mid x_s)\, p(x_s \mid x, z)\, dx_s,
        \qquad p(x_s \mid x, z) \propto p_{sim}(x_s)\, p(x \mid x_s, z)

    Several families of departures are fitted (``ma_sbi.choosing.PROPOSALS``), each with
    the uncertainty that its data leave, and weighted so that together they predict rows
    that were left out best. "Nothing departs" is one of them. A proposal that adds next to
    nothing is dropped: where a departure is certain, one candidate is left.

    Args:
        context: One entry per observation.
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations at the same inputs, row by row, shape ``(n, dim_x)``; or several
            of each, ``(n, num_simulations, dim_x)``, which show the simulator's noise.
        simulations: Any number of simulations from the prior, shape
            ``(num_simulations, dim_x)``, or a pair ``(theta, x)`` of parameters and
            simulations: instead of ``x_sim``, or to compare it with.
        density: Log density of the simulations, such as :func:`~ma_sbi.fit_density`
            gives. With it, x itself weighs the candidates (evidence), and a context that
            is wrong can be overruled. It assumes that theta comes from the prior.
        posterior: The posterior that will be corrected. With it, proposals are judged by
            what they do to the posterior; without, by how they predict ``x_sim``.
        encoder: Context to vectors; if None, chosen from ``ma_sbi.choosing.ENCODINGS`` by
            contexts that are left out.
        groups: One label per row; rows that share one are left out together.
        theta: True parameters of the rows, shape ``(n, dim_theta)``, where they are known:
            proposals are then judged by them, under the posterior.
        seed: Makes the choice repeatable.
        show_progress: Whether to show progress, on standard error; if None, to a person:
            on a terminal or in a notebook.

    Returns:
        A fitted corrector; ``.why`` says what was chosen and rejected.

    Raises:
        ValueError: If the data do not match, or there is nothing to learn from.

    Example:
        >>> import torch
        >>> from ma_sbi import fit_corrector
        >>> x_sim = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
        >>> notes = ["The sensor reads high.", "All is well."] * 50
        >>> x_obs = x_sim + torch.tensor([[1.0, 0.0], [0.0, 0.0]]).repeat(50, 1)
        >>> corrector = fit_corrector(notes, x_obs, x_sim, seed=0)
        >>> corrector.correct([[1.0, 0.0]], "The sensor reads high.").round(decimals=3)
        tensor([[0., 0.]])
    """
    with (
        showing("Reading the context", show_progress=show_progress),
        embedded_once(),
        told_once("leaky"),
    ):
        plan = plan_corrector(
            context,
            x_obs,
            x_sim,
            simulations=simulations,
            density=density,
            posterior=posterior,
            encoder=encoder,
            groups=groups,
            theta=theta,
            seed=seed,
        )
        odd = about_context(plan.data.entries, encoder)
        if plan.weighing is None:
            odd += plan.why.reasons[-1:]
        if theta is not None and posterior is None:
            odd.append("theta is not used without a posterior: pass posterior=")
        for said in odd:
            warnings.warn(said, stacklevel=2)
        say("Fitting what was chosen")
        chosen = plan.fit()
        chosen.columns_ = column_names(x_obs)
    log.info("fit_corrector: %s", chosen.why)
    return chosen


def plan_corrector(
    context: Context,
    x_obs: ArrayLike,
    x_sim: ArrayLike | None = None,
    *,
    simulations: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    density: Callable[[Tensor], Tensor] | None = None,
    posterior: Any = None,
    encoder: Encoder | None = None,
    groups: ArrayLike | Sequence[Any] | None = None,
    theta: ArrayLike | None = None,
    seed: int | None = None,
    pairing: Pairing | None = None,
) -> Plan:
    """Choose as :func:`fit_corrector` does, which fits the choice to all rows.

    Args other than ``pairing``, how rows belong together if that is known already, are
    those of :func:`fit_corrector`.
    """
    if hasattr(posterior, "sample_batched"):
        from ma_sbi.posteriors import from_sbi

        posterior = from_sbi(posterior)
    if encoder is not None:
        check_encoder(encoder)
    if posterior is not None:
        check_posterior(posterior)
        posterior = posterior.of_rows() if hasattr(posterior, "of_rows") else posterior
    check_density(density)
    x_obs, x_sim, context, groups, theta = match_rows(
        x_obs=x_obs, x_sim=x_sim, context=context, groups=groups, theta=theta
    )
    x_sim = match_columns(x_obs, x_sim, "x_sim")
    pool = Simulations.read(simulations, like=x_obs)
    reference = pool.x if pool is not None else _draw(density, seed)
    read_with = partial(
        read_calibration,
        context,
        x_obs,
        groups=groups,
        posterior=posterior,
        theta=theta,
        seed=derive(seed, "calibration"),
    )
    data, gross = read_with(x_sim, pool)
    say("Comparing x_obs and x_sim")
    if data.paired and len(data) >= FEWEST_ROWS:
        if pairing is None:
            pairing = examine_pairs(
                data.x_obs,
                data.mean_x_sim,
                torch.from_numpy(data.codes),
                features=describe(data.entries),
                groups=None if groups is None else torch.from_numpy(data.groups),
                noise=data.simulator,
                reference=_reference(reference, posterior, density, data),
                one_run=data.x_sim[:, 0] if data.x_sim.shape[1] > 1 else None,
                seed=seed,
            )
            if pairing.at_one_setting and _is_like_prior(data, posterior, seed):
                pairing = replace(pairing, only_noise=False)
        if not pairing.are_pairs:
            pool = Simulations(data.mean_x_sim) if pool is None else pool
            data, gross = read_with(None, pool)
    problems = () if pairing is None else pairing.problems
    for problem in problems:
        warnings.warn(problem, NotPaired, stacklevel=3)
    kept = np.setdiff1d(np.arange(len(data) + len(gross)), gross.cpu().numpy())
    reasons = [*problems, data.noise.sentence if data.paired else "there are no pairs"]
    if len(gross):
        first = int(gross[0])
        reasons.append(
            f"rows far from all others, set apart: {len(gross)} (first: {first})"
        )
    known = distinct(data.entries)[0]
    if len(data) < FEWEST_ROWS or len(np.unique(data.groups)) < 2:
        few = f"{len(data)} rows, in {len(np.unique(data.groups))} groups,"
        reasons.append(
            f"{few} are too few to learn a departure from (at least {FEWEST_ROWS} rows, in "
            f"two groups): {LEFT_ALONE}"
        )
        why = replace(NOTHING_LEARNED, num_rows=len(data), reasons=tuple(reasons))
        return Plan(data, why, kept, pairing=pairing)
    if not data.paired:
        assert pool is not None  # noqa: S101 (there is one where there are no pairs)
        codes = torch.from_numpy(data.codes).to(data.x_obs.device)
        for said in (SAME_THETA, about_units(data.x_obs, codes, pool.x.to(data.x_obs))):
            if said:
                warnings.warn(said, MatchingAssumption, stacklevel=3)
                reasons.append(said)
    if len(known) == 1:
        reasons.append("every row has the same context, so a context has no effect")
    if len(known) > len(data) / 2 > 1:
        reasons.append(
            "most contexts occur once: what is learned of one has to carry over to others"
        )
    if data.paired and len(data) < data.x_obs.shape[1]:
        reasons.append(
            f"{len(data)} rows for {data.x_obs.shape[1]} columns: what mixes columns is "
            "mostly regularisation; more rows, or summaries of fewer columns, help"
        )
    data = replace(data, pool=_usable(reference, data, reasons))
    if pool is not None and data.pool is not None:
        unlike = about_spreads(data.mean_x_sim, data.pool)
        if unlike:
            warnings.warn(unlike, OtherUnits, stacklevel=3)
            reasons.append(unlike)
    if density is not None:
        bounded = _bounded(density, data.mean_x_sim if pool is None else pool.x)
        if pool is not None and not data.paired:
            likelihood = ShiftLikelihood.of(density, pool.x.to(data.x_obs))
            data = replace(data, likelihood=likelihood)
            apart = _about_overlap(data, likelihood, seed)
            if apart:
                warnings.warn(apart, MatchingAssumption, stacklevel=3)
                reasons += [apart, LEFT_ALONE]
                why = replace(NOTHING_LEARNED, num_rows=len(data), reasons=tuple(reasons))
                return Plan(data, why, kept, pairing=pairing, pool=pool.x.to(data.x_obs))
        density = bounded
    tried: dict[str, BaseProposal] = {NOTHING: Nothing(LEFT_ALONE, reads_context=False)} | {
        name: proposal for name, proposal in PROPOSALS.items() if proposal.suits(data)
    }
    at_one_setting = pairing is not None and pairing.at_one_setting
    # The prior of a posterior is wrong at one setting: x_sim judges there, or true theta.
    judge = None if at_one_setting and theta is None else posterior
    targets = _targets(data, judge, density, pool, derive(seed, "targets"))
    blurred = data.noise.found and isinstance(targets[-1], SimulatedData)
    dropped = [name for name, one in tried.items() if not one.is_forward]
    if dropped and (at_one_setting or blurred):
        # What depends on x less than it should would predict such rows best, and no others.
        tried = {name: one for name, one in tried.items() if one.is_forward}
        said = AT_ONE_SETTING if at_one_setting else BLURRED
        reasons.append(f"{said}; not tried: {', '.join(dropped)}")
    untried = [name for name, one in PROPOSALS.items() if len(data) < one.fewest_rows]
    if untried:
        reasons.append(f"{len(data)} rows are too few to try: {', '.join(untried)}")
    read: tuple[Read, ...] = ()
    if encoder is None:
        encoder, table, read = choose_encoder(data, targets[0], derive(seed, "encoders"))
        reasons += [f"{one.name} not read: {one.refused}" for one in read if one.refused]
    else:
        table = tabulate(encoder, data)
    held_out = hold_out(
        [partial(proposal.fit, table) for proposal in tried.values()],
        data.by_number(),
        targets,
        density,
        derive(seed, "folds"),
    )
    kinds = [(one.is_forward, not one.reads_context) for one in tried.values()]
    forward, plain = torch.tensor(kinds).T
    # Without pairs, the density is what proposals were judged by: it cannot count twice.
    evidence = density is not None and data.paired
    elsewhere = evidence and _is_elsewhere(data, reference, seed)
    weigh = partial(
        choose,
        forward=forward,
        simple=forward & plain,
        num_rows=len(data),
        num_contexts=len(known),
        evidence=evidence,
        doubted=elsewhere,
    )
    choice = weigh(held_out)
    if len(known) > 1 and not choice.seen[~(forward & plain)].any():
        reasons.append(
            "what is chosen reads no context: with one it predicts held-out rows no better"
        )
    reasons += _about_evidence(choice, elsewhere=elsewhere)
    if density is not None and not data.paired:
        reasons.append(
            "without pairs the density judges proposals and weighs no candidates"
        )
    outliers = None
    if len(gross):
        x_sim = data.mean_x_sim if pool is None else pool.x.to(data.x_obs)
        every = as_matrix(x_obs, "x_obs", dtype=torch.float64, column=True)
        outlying = every.to(data.x_obs)[gross]
        outliers = Outliers.beyond(data.x_obs, outlying, x_sim)
        reasons.append("an observation as far away as they are may be any simulation")
    why = Why(
        _table(tried, held_out, choice),
        "evidence" if choice.use_evidence else "mixture",
        targets[-1].words,
        len(data),
        repr(encoder),
        tuple(reasons),
        read,
        choice.improvement(held_out, forward),
    )
    return Plan(
        data,
        why,
        kept,
        encoder,
        tried,
        Weighing(choice, held_out, weigh, targets, table),
        density,
        outliers,
        pairing,
        None if pool is None else pool.x.to(data.x_obs),
        seed,
    )


def _reference(
    simulations: Tensor | None,
    posterior: Any,
    density: Callable[[Tensor], Tensor] | None,
    data: Calibration,
) -> AnyReference | None:
    """Describe simulations: draws, those that the posterior saw, or what a density says."""
    if simulations is not None:
        return Reference.of(simulations, density)
    trained = getattr(posterior, "training_range", None)
    if trained is not None:
        return Reference.within(trained, density)
    # Which side is simulations is asked: neither may say where they are.
    both = torch.cat([data.x_obs, data.mean_x_sim])
    return None if density is None else DensityReference.of(density, both)


def _usable(
    reference: Tensor | None, data: Calibration, reasons: list[str]
) -> Tensor | None:
    """Return simulations that departures learned forwards can be inverted on, if any."""
    # What is noise of x_sim alone, a map from x_sim to x_obs would take for departure.
    if reference is None or not data.paired or data.noise.found:
        return None
    simulated = reference.to(data.x_obs)
    unusable = why_unusable(data.mean_x_sim, simulated)
    if unusable:
        reasons.append(unusable)
        return None
    return simulated


def _targets(
    data: Calibration,
    posterior: Any,
    density: Callable[[Tensor], Tensor] | None,
    pool: Simulations | None,
    seed: int | None,
) -> list[Target]:
    """Choose what tells forward proposals apart, and what judges all of them."""
    if not data.paired:
        if density is not None:
            return [Observations(density, "their density")]
        return [Observations(_gaussian(pool), "their mean and covariance")]
    simulated = SimulatedData(data.mean_x_sim, data.noise.variance)
    behind = by_posterior(
        posterior,
        data.x_sim,
        own_noise=data.noise.found,
        theta=data.theta,
        groups=data.groups,
        seed=seed,
    )
    if behind is None:
        return [simulated]
    # Noise of x_sim hides what tells proposals apart, unless the posterior knows of it.
    return [behind] if isinstance(behind, Predicted) else [simulated, behind]


def _gaussian(pool: Simulations | None) -> Callable[[Tensor], Tensor]:
    """Describe simulations by their mean and covariance, where there is no density."""
    assert pool is not None  # noqa: S101 (there is a pool where there are no pairs)
    covariance = torch.atleast_2d(pool.x.T.cov())
    jitter = 1e-6 * covariance.diag().mean().clamp(min=1e-12)
    covariance = covariance + jitter * torch.eye(len(covariance)).to(covariance)
    law = torch.distributions.MultivariateNormal(pool.x.mean(dim=0), covariance)
    return lambda x: law.log_prob(x.to(pool.x))


def _bounded(density: Callable[[Tensor], Tensor], x_sim: Tensor) -> BoundedDensity:
    """Do not tell apart what is far less probable than any simulation that is known.

    Far from all simulations a density that was learned is arbitrary.
    """
    return BoundedDensity.around(density, x_sim)


def _about_overlap(data: Calibration, likelihood: ShiftLikelihood, seed: int | None) -> str:
    """Say that observations are unlike simulations, wherever they are shifted."""
    codes = torch.as_tensor(data.codes, device=data.x_obs.device)
    unlike = likelihood.shifts(data.x_obs, codes, seed=seed).unlike[codes].mean().item()
    if unlike <= MOST_UNLIKE:
        return ""
    return (
        "observations and simulations do not overlap, however observations are shifted: "
        f"{unlike:.0%} of them stay less probable than every simulation; are units or "
        "columns mixed up?"
    )


def _is_like_prior(data: Calibration, posterior: Any, seed: int | None) -> bool:
    """Tell whether parameters at x_sim are like the prior, as at one setting they are not.

    Where the simulator's noise is as large as all that x varies by, simulations at any
    parameters vary by no more than noise.
    """
    prior = getattr(posterior, "prior", None)
    if prior is None:
        return False
    with untold("no number"):
        theta = posterior.sample(1, data.x_sim[:, 0].float(), seed=derive(seed, "setting"))
    return prior_p_value(theta[0], prior, data.groups, seed) > ELSEWHERE


def _is_elsewhere(data: Calibration, reference: Tensor | None, seed: int | None) -> bool:
    """Tell whether theta seems to come from another population than the prior."""
    if reference is None:
        return False
    # Rows of a group may share their theta, and are not a sample of the population.
    first = np.unique(data.groups, return_index=True)[1]
    return energy_p_value(data.x_sim[first, 0], reference, seed) <= ELSEWHERE


def _about_evidence(choice: Choice, *, elsewhere: bool) -> list[str]:
    said = []
    if elsewhere:
        said.append(
            "the calibration simulations are unlike those of the density: theta seems to "
            "come from another population than the prior, against what evidence assumes, "
            "or units, columns or arguments are mixed up"
        )
    if choice.gain is not None:
        gain, error = choice.gain
        said.append(
            f"evidence of x changes the held-out score by {gain:+.2f} ± {error:.2f}: "
            f"{'used' if choice.use_evidence else 'not used'}"
        )
    return said


def _draw(density: Any, seed: int | None) -> Tensor | None:
    if not hasattr(density, "sample"):
        return None
    with untold("no number"):
        drawn: Tensor = density.sample(3000, seed=derive(seed, "density"))
    refuse(not_drawn(drawn[None]), "draws", of="the density", at="simulations")
    return drawn


def _table(
    tried: dict[str, BaseProposal], held_out: HeldOut, choice: Choice
) -> tuple[Tried, ...]:
    rows = held_out.seen if held_out.seen.any() else ~held_out.seen
    scores = held_out.scores[-1].at(rows).plain.mean(dim=2)
    gain = scores - scores[0]
    error = gain.std(dim=1) / gain.shape[1] ** 0.5
    return tuple(
        Tried(
            name,
            proposal.words,
            gain[i].mean().item(),
            error[i].item(),
            choice.seen[i].item() + (choice.left_alone[0] if name == NOTHING else 0),
            choice.unseen[i].item() + (choice.left_alone[1] if name == NOTHING else 0),
        )
        for i, (name, proposal) in enumerate(tried.items())
    )
