"""One call that answers whether a correction by this context can be trusted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ma_sbi.checking.facts import choose, gather
from ma_sbi.checking.inputs import prepare
from ma_sbi.checking.judging import Judgement, judge
from ma_sbi.checking.result import Check
from ma_sbi.checking.running import run_all, warnings_as_notes
from ma_sbi.checking.verdict import decide
from ma_sbi.context import distinct, in_one_column
from ma_sbi.correctors.composed import BaseCorrector
from ma_sbi.diagnostics.diagnostic import CannotRun, Rows
from ma_sbi.diagnostics.subject import Subject
from ma_sbi.display.progress import showing
from ma_sbi.labels import column_names
from ma_sbi.minilm import embedded_once
from ma_sbi.posterior import CorrectedPosterior
from ma_sbi.protocols import (
    AmortizedPosterior,
    ArrayLike,
    Context,
    Corrector,
    Encoder,
    SBIPosteriorLike,
)
from ma_sbi.randomness import as_seed, derive, numpy_seeded, seeded
from ma_sbi.telling import told_once

__all__ = ["check"]

log = logging.getLogger(__name__)


def check(
    x_obs: ArrayLike,
    context: Context,
    *,
    x_sim: ArrayLike | None = None,
    theta: ArrayLike | None = None,
    groups: ArrayLike | Sequence[Any] | None = None,
    posterior: AmortizedPosterior | SBIPosteriorLike | CorrectedPosterior | None = None,
    corrector: Corrector | None = None,
    simulator: Callable[..., Any] | None = None,
    encoder: Encoder | None = None,
    simulations: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None,
    density: Callable[..., Any] | None = None,
    seed: int | None = None,
    show_progress: bool | None = None,
) -> Check:
    """Judge what :func:`~ma_sbi.fit_corrector` would do, and say what to do.

    The options are no correction, the one that ``fit_corrector`` chooses, and the one that
    it chooses without the context. Each is judged on rows that it was not fitted to, by
    the log score of the parameters if there is a posterior, else of ``x_sim``. The one that
    is advised is ``answer.corrector``, fitted. Only ``x_sim`` and ``theta`` must not depend
    on the context; observations do, if they depart. The global generators of torch and
    numpy are left as they were.

    Args:
        x_obs: Observations, shape ``(n, dim_x)``.
        context: One entry per observation: texts, labels, numbers or a table.
        x_sim: Simulations at the same inputs, row by row, shape ``(n, dim_x)``; or several
            of each, ``(n, num_simulations, dim_x)``, which show the simulator's noise.
        theta: True parameters of the observations, shape ``(n, dim_theta)``.
        groups: One label per row where rows are not independent (participant, country).
        posterior: The trained posterior, or a ``CorrectedPosterior``.
        corrector: A corrector to judge instead of what ``fit_corrector`` chooses. A fitted
            one must have been fitted to other rows.
        simulator: theta ``(n, dim_theta)`` to x ``(n, dim_x)``.
        encoder: Context to vectors; one that suits the context if None.
        simulations: Any number of simulations from the prior, or a pair ``(theta, x)``, as
            :func:`~ma_sbi.fit_corrector` takes them.
        density: Log density of the simulations, such as :func:`~ma_sbi.fit_density` gives.
        seed: Makes the result repeatable; drawn afresh, and kept in the result, if None.
        show_progress: Whether to show progress, on standard error; if None, to a person:
            on a terminal or in a notebook.

    Raises:
        ValueError: If the rows do not match, are fewer than 20 or not finite, or the
            context is the same in all of them.

    Example:
        >>> import torch
        >>> x_sim = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
        >>> notes = ["The sensor reads high.", "All is well."] * 150
        >>> x_obs = x_sim + torch.tensor([[1.0, 0.0], [0.0, 0.0]]).repeat(150, 1)
        >>> check(x_obs, notes, x_sim=x_sim, seed=0).verdict
        'use'
    """
    posterior, corrector = _unwrap(posterior, corrector)
    seed = as_seed(np.random.SeedSequence().generate_state(1)[0] if seed is None else seed)
    # A posterior or an encoder of the user may draw from the global generators.
    with (
        seeded(derive(seed, "torch")),
        numpy_seeded(derive(seed, "numpy")),
        showing("Reading the context", show_progress=show_progress),
        embedded_once(),
        told_once("leaky"),
    ):
        subject = prepare(
            x_obs,
            context,
            x_sim=x_sim,
            theta=theta,
            groups=groups,
            posterior=posterior,
            corrector=corrector,
            simulator=simulator,
            encoder=encoder,
            simulations=simulations,
            density=density,
            seed=seed,
        )
        judgement, cannot = _judge(subject)
        option = None if judgement is None else choose(judgement)
        if option is not None:
            subject = replace(subject, correction=option.held_out)
        run_all(subject)
        decision = decide(gather(subject, judgement, cannot))
        rows = _rows(subject)
    log.info("check of %d rows: %s", len(subject.x_obs), decision.verdict)
    advised = option if decision.verdict != "do not use" else None
    own = None if advised is None else advised.corrector
    if isinstance(own, BaseCorrector) and own is not corrector:
        own.columns_ = getattr(corrector, "columns_", None) or column_names(x_obs)
    return Check(
        verdict=decision.verdict,
        reasons=decision.reasons,
        advice=decision.advice,
        corrector=own,
        judgement=judgement,
        results=subject.results,
        notes=tuple(subject.notes),
        num_rows=len(subject.x_obs),
        num_contexts=len(distinct(subject.entries)[0]),
        dim_x=subject.x_obs.shape[1],
        seed=seed,
        rows=rows,
    )


def _judge(subject: Subject) -> tuple[Judgement | None, str]:
    """Judge the options; else say why that cannot be done."""
    try:
        with warnings_as_notes(subject):
            return judge(subject), ""
    except CannotRun as why:
        return None, str(why)


def _unwrap(posterior: Any, corrector: Any) -> tuple[Any, Any]:
    """Take what was given apart."""
    if isinstance(posterior, CorrectedPosterior):
        own = posterior.corrector if corrector is None else corrector
        return posterior.posterior, own
    if hasattr(posterior, "sample_batched"):
        from ma_sbi.posteriors import from_sbi

        return from_sbi(posterior), corrector
    return posterior, corrector


def _rows(subject: Subject) -> Rows:
    """Keep the rows for the pictures, the columns of a context as one text."""
    corrected = None if subject.corrected is None else subject.corrected.drawn
    return Rows(
        in_one_column(subject.by_regime.entries),
        subject.reading.kinds == ("numbers",),
        subject.x_obs.numpy(),
        None if subject.x_sim is None else subject.x_sim.numpy(),
        None if corrected is None else corrected.numpy(),
        None if subject.corrected is None else subject.corrected.positions,
    )
