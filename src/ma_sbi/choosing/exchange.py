"""Whether an observation could be one more simulation of its row.

If nothing departs, x_obs and the simulations of a row are draws at the same parameters, and
nothing changes if one takes the place of another: not even where x_sim has noise of its
own, which makes a correction towards x_sim look good that is none.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ma_sbi.choosing.features import basis_of
from ma_sbi.choosing.independence import normal_scores
from ma_sbi.randomness import derive, generator

__all__ = ["Exchange", "exchange_test"]

NUM_EXCHANGES = 1999


class Exchange(NamedTuple):
    """How observations differ from simulations of their rows.

    Attributes:
        p_value: Of the test that they can change places.
        distance: By how much more than by chance they differ, in means and squares.
    """

    p_value: float
    distance: float


def exchange_test(
    x_obs: Tensor, x_sim: Tensor, features: Tensor, seed: int | None = None
) -> Exchange:
    """Test whether observations can change places with simulations of their rows.

    The test is exact, whatever the distribution: under the hypothesis each of the values
    of a row is as likely to be the observation. It looks at means and at squares, each
    for all rows and by features of the context; the smaller p-value counts, doubled.

    Args:
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations, shape ``(n, num_simulations, dim_x)``.
        features: Of the context, shape ``(n, num_features)``.
        seed: Of the exchanges.

    Example:
        >>> import torch
        >>> x = torch.randn(200, 3, 2, generator=torch.Generator().manual_seed(0))
        >>> shift = torch.tensor([0.5, 0.0])
        >>> exchange_test(x[:, 0] + shift, x[:, 1:], torch.ones(200, 1), seed=0).p_value
        0.001
    """
    every = torch.cat([x_obs[:, None], x_sim], dim=1).double().cpu()
    num, places, _ = every.shape
    scores = normal_scores(every.flatten(0, 1)).unflatten(0, (num, places))
    basis = basis_of(features, constant=True)
    rng = generator(0 if seed is None else derive(seed, "exchange"))
    chosen = torch.randint(places, (NUM_EXCHANGES + 1, num), generator=rng)
    chosen[0] = 0  # as it was given
    rows = torch.arange(num)
    p_values, distance = [], 0.0
    for values in (scores, scores.square()):
        # What is compared within a row: its parameters are the same.
        apart = values - values.mean(dim=1, keepdim=True)
        unit = apart.square().mean(dim=(0, 1)).clamp(min=1e-300)
        each = torch.stack([(basis.T @ apart[rows, place]).square() for place in chosen])
        found = (each / unit).sum(dim=(1, 2))
        p_values.append((found >= found[0]).double().mean().item())
        size = each.sum(dim=(1, 2))
        distance += (size[0] - size[1:].mean()).item() / num
    return Exchange(min(1.0, 2 * min(p_values)), distance)
