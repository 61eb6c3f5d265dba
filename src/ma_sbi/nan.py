"""NaN is not an answer: what a posterior could not compute is told, or refused."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from ma_sbi import telling

__all__ = [
    "NotANumber",
    "no_density",
    "not_drawn",
    "refuse",
    "refuse_weights",
    "tell",
]

# A few may be far from all that a posterior was trained on.
MOST_FAILED = 0.1
CAUSES = "its weights are damaged, or these are far from all that it was trained on"


class NotANumber(UserWarning):
    """A posterior gave NaN: it is damaged, or x is far from all it was trained on."""


def not_drawn(draws: Tensor) -> Tensor:
    """Tell which observations have draws that are not finite.

    Args:
        draws: Shape ``(num_samples, batch, dim_theta)``.

    Returns:
        Shape ``(batch,)``.

    Example:
        >>> not_drawn(torch.tensor([[[0.0], [torch.nan]], [[1.0], [2.0]]]))
        tensor([False,  True])
    """
    return ~draws.detach().isfinite().all(dim=2).all(dim=0)


def no_density(log_prob: Tensor) -> Tensor:
    """Tell which observations have log densities that are NaN or plus infinity.

    Minus infinity is a log density: that of what cannot be.

    Args:
        log_prob: Shape ``(num_samples, batch)``.

    Returns:
        Shape ``(batch,)``.
    """
    log_prob = log_prob.detach()
    return (log_prob.isnan() | (log_prob == torch.inf)).any(dim=0)


def tell(
    failed: Tensor, what: str, of: str = "the posterior", at: str = "observations"
) -> None:
    """Warn of observations at which a posterior, or a density, gave no number.

    Args:
        failed: Which did, shape ``(batch,)``.
        what: What it gave.
        of: What gave it.
        at: What it was asked for.
    """

    def say(parts: list[Tensor]) -> None:
        every = torch.cat([part.cpu() for part in parts])
        if every.any():
            level = telling.levels_to_caller()
            warnings.warn(_sentence(every, what, of, at), NotANumber, stacklevel=level)

    telling.tell("no number", (what, of, at), failed, say)


def refuse(
    failed: Tensor,
    what: str,
    of: str = "the posterior",
    at: str = "observations",
    *,
    few: bool = False,
) -> None:
    """Raise where :func:`tell` would warn.

    Args:
        failed: Which gave no number, shape ``(batch,)``.
        what: What was given.
        of: What gave it.
        at: What it was asked for.
        few: Whether a few of them are only told.

    Raises:
        ValueError: If any failed, or too many.
    """
    if few and failed.double().mean() <= MOST_FAILED:
        tell(failed, what, of, at)
    elif failed.any():
        raise ValueError(_sentence(failed, what, of, at))


def refuse_weights(network: Any, name: str) -> None:
    """Refuse a network that is damaged before it is asked: some would never answer.

    Args:
        network: A module of torch; anything else is not looked at.
        name: What it is called in the error.

    Raises:
        ValueError: If a weight is not finite.
    """
    if not isinstance(network, nn.Module):
        return
    if not all(weight.isfinite().all() for weight in network.parameters()):
        raise ValueError(f"weights of {name} are not finite (NaN or infinite)")


def _sentence(failed: Tensor, what: str, of: str, at: str) -> str:
    rows = failed.nonzero().flatten().tolist()
    return (
        f"{what} of {of} are no numbers (NaN or infinite) for {len(rows)} of "
        f"{len(failed)} {at} (first: row {rows[0]}): {CAUSES}"
    )
