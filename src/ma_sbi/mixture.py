"""A posterior averaged over candidate observations."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import cast

import torch
from torch import Tensor

from ma_sbi.display.progress import parts
from ma_sbi.nan import no_density, not_drawn, tell
from ma_sbi.protocols import (
    MAX_ROWS,
    AmortizedPosterior,
    Corrections,
    DensePosterior,
    has_density,
)
from ma_sbi.randomness import derive, generator
from ma_sbi.telling import told_together, untold

__all__ = [
    "few_rows",
    "log_prob_corrected",
    "log_prob_mixture",
    "sample_corrected",
    "sample_mixture",
]

# Evaluates theta at x, given what each x counts for.
LogProb = Callable[[Tensor, Tensor, "Tensor | None"], Tensor]

# Observations that are corrected at once, and their entries: a corrector may have a
# thousand candidates for each.
ROWS_AT_ONCE = 2_000
ENTRIES_AT_ONCE = 2**18

# Share of candidates outside the training range that is worth a warning.
LEAST_OUTSIDE = 0.05
# Share of candidates without a density that is worth one.
LEAST_LOST = 0.05


def sample_corrected(
    posterior: AmortizedPosterior,
    num_samples: int,
    shape: Sequence[int],
    correct: Callable[[slice], Corrections],
    *,
    seed: int | None = None,
) -> Tensor:
    """Draw as :func:`sample_mixture` does, and correct few observations at a time.

    Args:
        posterior: The trained posterior.
        num_samples: Draws per observation.
        shape: Of the observations, ``(batch, dim_x)``.
        correct: Gives the candidates of some observations.
        seed: Makes the draws repeatable.
    """
    with told_together():
        draws = [
            sample_mixture(
                posterior,
                num_samples,
                correct(rows),
                seed=seed if rows.start == 0 else derive(seed, f"row {rows.start}"),
            )
            for rows in parts(few_rows(*shape), "block")
        ]
    return torch.cat(draws, dim=1) if len(draws) > 1 else draws[0]


def log_prob_corrected(
    posterior: AmortizedPosterior,
    theta: Tensor,
    shape: Sequence[int],
    correct: Callable[[slice], Corrections],
) -> Tensor:
    """Evaluate as :func:`log_prob_mixture` does, correcting few observations at a time."""
    theta, blocks = torch.as_tensor(theta), few_rows(*shape)
    if len(blocks) > 1 and theta.shape[1] not in (1, shape[0]):
        raise ValueError(
            f"theta must have a batch of {shape[0]}, as x has, got {theta.shape[1]}"
        )
    each = theta.shape[1] > 1
    with told_together():
        found = [
            log_prob_mixture(posterior, theta[:, rows] if each else theta, correct(rows))
            for rows in parts(blocks, "block")
        ]
    return torch.cat(found, dim=1) if len(found) > 1 else found[0]


def few_rows(num_rows: int, dim_x: int) -> list[slice]:
    """Cut observations into blocks that are corrected at once."""
    size = max(1, min(ROWS_AT_ONCE, ENTRIES_AT_ONCE // dim_x))
    return [slice(start, start + size) for start in range(0, num_rows, size)]


def sample_mixture(
    posterior: AmortizedPosterior,
    num_samples: int,
    candidates: Corrections,
    *,
    seed: int | None = None,
) -> Tensor:
    """Draw ``(num_samples, batch, dim_theta)`` from the mixture over candidates.

    Each draw picks its own candidate, so that draws are exchangeable and not grouped by
    candidate. Many observations are processed in blocks, to bound memory.
    """
    posterior = _of_rows(posterior)
    if len(candidates.x) == 1:
        with untold("no number"):
            draws = posterior.sample(num_samples, candidates.x[0], seed=seed)
        tell(not_drawn(draws), "draws")
        return draws
    blocks = _blocks(candidates.x.shape[1], num_samples)
    with _told_by_row(posterior, candidates):
        drawn = [
            _sample_block(
                posterior,
                num_samples,
                candidates.rows(rows),
                seed=seed if rows.start == 0 else derive(seed, f"from row {rows.start}"),
            )
            for rows in parts(blocks, "part")
        ]
    draws = torch.cat(drawn, dim=1) if len(drawn) > 1 else drawn[0]
    tell(not_drawn(draws), "draws")
    return draws


def _sample_block(
    posterior: AmortizedPosterior,
    num_samples: int,
    candidates: Corrections,
    *,
    seed: int | None,
) -> Tensor:
    weight = candidates.log_weight.exp().T
    rng = generator(derive(seed, "candidates"), weight.device)
    pick = torch.multinomial(weight, num_samples, replacement=True, generator=rng).T
    count = torch.zeros_like(candidates.log_weight, dtype=torch.long)
    count = count.scatter_add(0, pick, torch.ones_like(pick))
    nth = _number_picks(pick, count)
    # Candidates that were picked about equally often are sampled together, each as often
    # as the most picked one; the n-th pick of a candidate takes its n-th draw.
    level = count.clamp(min=1).double().log2().ceil().long()
    level[count == 0] = -1
    level_of_pick = level.gather(0, pick)
    result: Tensor | None = None
    for group in level[count > 0].unique().tolist():
        members = level == group
        x, needed = candidates.x[members], int(count[members].max())
        draws = posterior.sample(needed, x, seed=derive(seed, f"candidates {group}"))
        row = members.flatten().cumsum(dim=0).reshape(members.shape) - 1
        here = level_of_pick == group
        if result is None:
            result = draws.new_empty(*pick.shape, draws.shape[-1])
        result[here] = draws[nth[here], row.gather(0, pick)[here]]
    assert result is not None  # noqa: S101 (every draw has picked some candidate)
    return result


def _number_picks(pick: Tensor, count: Tensor) -> Tensor:
    """Number the picks of each candidate from zero, column by column."""
    ordered, order = pick.sort(dim=0, stable=True)
    first = count.cumsum(dim=0) - count
    position = torch.arange(len(pick), device=pick.device)[:, None]
    return torch.empty_like(pick).scatter(0, order, position - first.gather(0, ordered))


def log_prob_mixture(
    posterior: AmortizedPosterior, theta: Tensor, candidates: Corrections
) -> Tensor:
    """Evaluate theta ``(num_samples, batch, dim_theta)`` under the mixture.

    Raises:
        ValueError: If the posterior has no density.
    """
    if not has_density(posterior):
        raise ValueError(
            f"{type(posterior).__name__} can be sampled but has no density: use sample, or "
            "from_callable with log_prob"
        )
    posterior = _of_rows(posterior)
    log_prob = _by_weight(cast("DensePosterior", posterior))
    num_candidates, batch, dim_x = candidates.x.shape
    theta = torch.as_tensor(theta, dtype=torch.float32)
    if num_candidates == 1:
        with untold("no number"):
            found = log_prob(theta, candidates.x[0], None)
        tell(no_density(found), "log densities")
        return found
    theta = theta.expand(-1, batch, -1)
    with _told_by_row(posterior, candidates):
        if candidates.shared:
            found, lost = _log_prob_shared(log_prob, theta, candidates)
        else:
            averages = []
            for rows in parts(_blocks(batch, len(theta) * num_candidates), "part"):
                block = candidates.rows(rows)
                every = theta[:, rows].repeat(1, num_candidates, 1)
                weight = block.log_weight.exp().flatten()
                each = log_prob(every, block.x.reshape(-1, dim_x), weight)
                each = each.unflatten(1, block.log_weight.shape)
                averages.append(_average(each, block.log_weight))
            found, lost = (torch.cat(each, dim=1) for each in zip(*averages, strict=True))
    failed = no_density(found) | (lost > LEAST_LOST).any(dim=0)
    tell(failed, "log densities")
    return found


@contextmanager
def _told_by_row(
    posterior: AmortizedPosterior, candidates: Corrections
) -> Generator[None, None, None]:
    """Warn of observations outside the training range once, and not of each candidate."""
    within = getattr(posterior, "training_range", None)
    if within is None:
        with untold("no number"):
            yield
        return
    outside = within.outside(candidates.x.flatten(0, 1)).reshape(candidates.x.shape[:2])
    weight = (candidates.log_weight.exp() * outside.to(candidates.log_weight)).sum(dim=0)
    within.warn_of(weight > LEAST_OUTSIDE)
    with untold("no number", "outside"):
        yield


def _of_rows(posterior: AmortizedPosterior) -> AmortizedPosterior:
    """Return a posterior that takes candidates, which are rows, for nothing else."""
    of_rows = getattr(posterior, "of_rows", None)
    return posterior if of_rows is None else of_rows()


def _by_weight(posterior: DensePosterior) -> LogProb:
    """Return the density of a posterior, given what each x counts for, where it asks."""
    of_weight = getattr(posterior, "log_prob_by_weight", None)
    return of_weight or (lambda theta, x, weight: posterior.log_prob(theta, x))


def _log_prob_shared(
    log_prob: LogProb, theta: Tensor, candidates: Corrections
) -> tuple[Tensor, Tensor]:
    """Evaluate where all observations share their candidates, with their own weights.

    The posterior is evaluated at each candidate once: some posteriors normalise their
    density for each x, which is expensive.
    """
    num_samples, batch, dim_theta = theta.shape
    shared, log_weight = candidates.x[:, 0], candidates.log_weight.T
    flat = theta.reshape(-1, 1, dim_theta).expand(-1, len(shared), -1)
    weight = log_weight.repeat(num_samples, 1)
    most = log_weight.exp().amax(dim=0)
    averages = [
        _average(log_prob(flat[rows], shared, most), weight[rows])
        for rows in parts(_blocks(len(flat), len(shared)), "part")
    ]
    found, lost = (
        torch.cat(each).unflatten(0, (num_samples, batch))
        for each in zip(*averages, strict=True)
    )
    return found, lost


def _average(log_prob: Tensor, log_weight: Tensor) -> tuple[Tensor, Tensor]:
    """Average densities over candidates, along dimension 1.

    Candidates at which the posterior fails are left out, unless it fails at all of them:
    far from all that it was trained on, its density may be no number.

    Returns:
        The log of the average, and the weight of the candidates that were left out.
    """
    failed = log_prob.isnan()
    lost = (failed * log_weight.exp()).sum(dim=1)
    known = log_prob.masked_fill(failed & ~failed.all(dim=1, keepdim=True), -torch.inf)
    return (known + log_weight).logsumexp(dim=1), lost


def _blocks(num_rows: int, draws_per_row: int) -> list[slice]:
    """Cut observations into blocks that the posterior handles in one pass."""
    size = max(1, MAX_ROWS // draws_per_row)
    return [slice(start, start + size) for start in range(0, num_rows, size)]
