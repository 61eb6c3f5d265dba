"""Stacking: the weights under which predictions together score best."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["drop_idle", "stack"]


def stack(scores: Tensor, *, max_steps: int = 500) -> Tensor:
    r"""Find the weights that maximise the log score of a mixture.

    .. math:: \hat w = \arg\max_w \sum_i \log \sum_c w_c\, p_c(y_i)

    by expectation maximisation, with one more row than there are, which every component
    predicts alike: so a component is never ruled out by few rows.

    Args:
        scores: Log score of each component, shape ``(num_components, num_rows, ...)``;
            further dimensions are draws of the same row, averaged over.

    Returns:
        Weights of shape ``(num_components,)``.

    Example:
        >>> stack(torch.tensor([[0.0] * 98, [-5.0] * 98])).round(decimals=3).tolist()
        [0.995, 0.005]
    """
    scores = scores.double().flatten(2) if scores.ndim > 2 else scores.double()[..., None]
    num, rows, _ = scores.shape
    weight = torch.full((num,), 1 / num, dtype=scores.dtype)
    for _ in range(max_steps):
        share = (weight.log()[:, None, None] + scores).softmax(dim=0).mean(dim=2)
        new = (share.sum(dim=1) + 1 / num) / (rows + 1)
        if (new - weight).abs().max() < 1e-6:
            return new
        weight = new
    return weight


def log_score(scores: Tensor, weight: Tensor) -> Tensor:
    """Score the mixture, shape ``(num_rows,)``."""
    scores = scores.double().flatten(2) if scores.ndim > 2 else scores.double()[..., None]
    return (weight.log()[:, None, None] + scores).logsumexp(dim=0).mean(dim=1)


def drop_idle(scores: Tensor, least: float = 1.0) -> Tensor:
    """Stack, without the components that add next to nothing.

    From the last to the first, a component is dropped if the others together score all
    rows at most ``least`` nats worse without it: simple ones should come first.

    Returns:
        Weights of shape ``(num_components,)``, zero for those dropped.
    """
    kept = list(range(len(scores)))
    best = log_score(scores, stack(scores)).sum()
    for one in reversed(range(len(scores))):
        others = [each for each in kept if each != one]
        if not others:
            break
        without = log_score(scores[others], stack(scores[others])).sum()
        if without > best - least:
            kept, best = others, max(best, without)
    weight = torch.zeros(len(scores), dtype=torch.float64)
    weight[kept] = stack(scores[kept])
    return weight
