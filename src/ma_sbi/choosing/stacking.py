"""Stacking: the weights under which predictions together score best."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["drop_idle", "stack"]


def stack(scores: Tensor, *, caution: float = 1.0, max_steps: int = 500) -> Tensor:
    r"""Find the weights that maximise the log score of a mixture.

    .. math:: \hat w = \arg\max_w \sum_i \log \sum_c w_c\, p_c(y_i)

    by expectation maximisation, with more rows than there are, which all components predict
    alike: so few rows do not rule a component out.

    Args:
        scores: Log score of each component, shape ``(num_components, num_rows, draws)``;
            draws of one row are averaged over.
        caution: Number of such rows.
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
        new = (share.mean(dim=2).sum(dim=1) + caution / num) / (rows + caution)
        if (new - weight).abs().max() < 1e-6:
            return new
        weight = new
    return weight


def log_score(scores: Tensor, weight: Tensor) -> Tensor:
    """Score the mixture, shape ``(num_rows,)``."""
    mixture = (weight.log()[:, None, None] + scores.double()).logsumexp(dim=0)
    return mixture.mean(dim=1)


def _best_score(scores: Tensor) -> Tensor:
    # With caution, a copy would seem to add something: it takes weight from bad ones.
    return log_score(scores, stack(scores, caution=0.0))


def drop_idle(scores: Tensor, least: float) -> Tensor:
    """Stack, without the components that add next to nothing.

    From the last to the first, a component is dropped unless all rows together score
    clearly worse without it: by more than ``least`` nats and a standard error. So the
    simple ones should come first.

    Returns:
        Weights of shape ``(num_components,)``, zero for those dropped.
    """
    kept = list(range(len(scores)))
    best = _best_score(scores)
    for one in reversed(range(len(scores))):
        others = [each for each in kept if each != one]
        if not others:
            break
        loss = best - _best_score(scores[others])
        error = loss.std() * len(loss) ** 0.5 if len(loss) > 1 else loss[0].abs()
        if loss.sum() < least + error:
            kept = others
    weight = torch.zeros(len(scores), dtype=torch.float64)
    weight[kept] = stack(scores[kept])
    return weight
