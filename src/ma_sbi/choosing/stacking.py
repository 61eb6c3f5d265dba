"""Stacking: the weights under which predictions together score best."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["drop_idle", "stack"]


def stack(scores: Tensor, *, max_steps: int = 500) -> Tensor:
    r"""Find the weights that maximise the log score of a mixture.

    .. math:: \hat w = \arg\max_w \sum_i \log \sum_c w_c\, p_c(y_i)

    by expectation maximisation, with one more row than there are, which all components
    predict alike: so few rows do not rule a component out.

    Args:
        scores: Log score of each component, shape ``(num_components, num_rows, draws)``;
            draws of one row are averaged over.
        max_steps: Most steps of expectation maximisation.

    Returns:
        Weights of shape ``(num_components,)``.

    Example:
        >>> stack(torch.tensor([[[0.0]] * 98, [[-50.0]] * 98])).round(decimals=3).tolist()
        [0.995, 0.005]
    """
    num, rows, _ = scores.shape
    weight = torch.full((num,), 1 / num, dtype=torch.float64)
    for _ in range(max_steps):
        share = (weight.log()[:, None, None] + scores.double()).softmax(dim=0)
        new = (share.mean(dim=2).sum(dim=1) + 1 / num) / (rows + 1)
        if (new - weight).abs().max() < 1e-6:
            return new
        weight = new
    return weight


def log_score(scores: Tensor, weight: Tensor) -> Tensor:
    """Score the mixture, shape ``(num_rows,)``."""
    mixture = (weight.log()[:, None, None] + scores.double()).logsumexp(dim=0)
    return mixture.mean(dim=1)


def drop_idle(scores: Tensor, least: float, errors: float = 1.0) -> Tensor:
    """Stack, without the components that add next to nothing.

    From the last to the first, a component is dropped unless all rows together score
    clearly worse without it: by more than ``least`` nats and so many standard errors. So
    the simple ones should come first.

    Returns:
        Weights of shape ``(num_components,)``, zero for those dropped.
    """
    kept = list(range(len(scores)))
    best = log_score(scores, stack(scores))
    for one in reversed(range(len(scores))):
        others = [each for each in kept if each != one]
        if not others:
            break
        without = log_score(scores[others], stack(scores[others]))
        loss = best - without
        error = loss.std() * len(loss) ** 0.5 if len(loss) > 1 else loss[0].abs()
        if loss.sum() < least + errors * error:
            kept = others
    weight = torch.zeros(len(scores), dtype=torch.float64)
    weight[kept] = stack(scores[kept])
    return weight
