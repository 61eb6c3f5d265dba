"""NaN is not an answer: what a posterior could not compute is told, or refused."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from ma_sbi import telling

__all__ = [
    "NotANumber",
    "no_density",
    "not_drawn",
    "not_told",
    "refuse",
    "refuse_weights",
    "tell",
]

_quiet: ContextVar[bool] = ContextVar("quiet", default=False)
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


def tell(failed: Tensor, what: str, of: str = "the posterior") -> None:
    """Warn of observations at which a posterior gave no number.

    Args:
        failed: Which did, shape ``(batch,)``.
        what: What it gave.
        of: What gave it.
    """

    def say(parts: list[Tensor]) -> None:
        every = torch.cat([part.cpu() for part in parts])
        if every.any():
            level = telling.levels_to_caller()
            warnings.warn(_sentence(every, what, of), NotANumber, stacklevel=level)

    if not _quiet.get():
        telling.tell(("no number", what, of), failed, say)


def refuse(failed: Tensor, what: str) -> None:
    """Raise where :func:`tell` would warn.

    Raises:
        ValueError: If any of failed ``(batch,)`` is true.
    """
    if failed.any():
        raise ValueError(_sentence(failed, what, "the posterior"))


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


@contextmanager
def not_told() -> Iterator[None]:
    """Keep quiet of NaN, for callers that see to it themselves."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


def _sentence(failed: Tensor, what: str, of: str) -> str:
    rows = failed.nonzero().flatten().tolist()
    return (
        f"{what} of {of} are no numbers (NaN or infinite) for {len(rows)} of "
        f"{len(failed)} observations (first: row {rows[0]}): {CAUSES}"
    )
