"""Calibration data of a choice: checked, with gross outliers and noise told apart."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from ma_sbi.choosing.noise import Noise, find_noise, simulator_noise
from ma_sbi.choosing.outliers import find_outliers
from ma_sbi.context import Entries, as_codes, as_entries, distinct
from ma_sbi.correctors.likelihood import ShiftLikelihood
from ma_sbi.labels import match_columns, match_rows
from ma_sbi.nan import not_drawn, refuse
from ma_sbi.posteriors.support import is_bounded, within_support
from ma_sbi.protocols import Context
from ma_sbi.randomness import derive, seeded
from ma_sbi.scaling import column_scale
from ma_sbi.telling import levels_to_caller, untold
from ma_sbi.validation import (
    about_vector,
    as_matrix,
    as_pools,
    check_precision,
    double_device,
)

__all__ = [
    "FEWEST_ROWS",
    "Calibration",
    "Simulations",
    "as_repeats",
    "read_calibration",
]

FEWEST_ROWS = 16
"""Fewer rows cannot tell a departure from chance."""

# Parameters drawn at each x_sim, to learn the simulator's noise.
NUM_DRAWS = 16


class Simulations(NamedTuple):
    """Simulations from the prior.

    Attributes:
        x: Shape ``(num_simulations, dim_x)``.
        theta: Their parameters, shape ``(num_simulations, dim_theta)``, if known.
    """

    x: Tensor
    theta: Tensor | None = None

    @classmethod
    def read(cls, given: Any, like: Any = None) -> Simulations | None:
        """Read simulations, or parameters and simulations; None if there are none.

        Args:
            given: What the user passed.
            like: Observations; columns of tables are matched by their names.
        """
        if given is None:
            return None
        if not (isinstance(given, tuple) and len(given) == 2):
            given = match_columns(like, given, "simulations")
            return cls(as_matrix(given, "simulations", dtype=torch.float64, column=True))
        simulations, theta = match_rows(simulations=given[1], theta=given[0])
        simulations = match_columns(like, simulations, "simulations")
        x, theta = (
            as_matrix(part, name, dtype=torch.float64, column=True)
            for part, name in ((simulations, "simulations"), (theta, "theta"))
        )
        if len(theta) != len(x):
            raise ValueError(
                "simulations=(theta, x) must be paired row by row, got "
                f"{len(theta)} and {len(x)} rows"
            )
        return cls(x, theta)


@dataclass(frozen=True)
class Calibration:
    """Observations with what is known of each.

    Attributes:
        entries: Contexts.
        x_obs: Observations, shape ``(n, dim_x)``.
        x_sim: Simulations, shape ``(n, num_repeats, dim_x)``. Without pairs: the mean of
            all simulations, for every row.
        groups: Number of the group of each row, shape ``(n,)``.
        paired: Whether there is a simulation for each observation.
        noise: What of x_obs - x_sim is noise.
        theta: True parameters, shape ``(n, dim_theta)``, if they are known.
        simulator: Variance of the simulator's noise, shape ``(dim_x,)``, if it is known.
        pool: Simulations from the prior, shape ``(num_simulations, dim_x)``, if they are
            like those of the rows.
        likelihood: Of shifts, where a density takes the place of pairs.
    """

    entries: Entries
    x_obs: Tensor
    x_sim: Tensor
    groups: np.ndarray
    paired: bool
    noise: Noise
    theta: Tensor | None = None
    simulator: Tensor | None = None
    pool: Tensor | None = None
    likelihood: ShiftLikelihood | None = None

    def __len__(self) -> int:
        return len(self.x_obs)

    @property
    def mean_x_sim(self) -> Tensor:
        """The simulations, averaged over repeats, shape ``(n, dim_x)``."""
        return self.x_sim.mean(dim=1)

    @cached_property
    def codes(self) -> np.ndarray:
        """Number of the context of each row, shape ``(n,)``."""
        return distinct(self.entries)[1]

    @property
    def num_contexts(self) -> int:
        """Number of different contexts."""
        return int(self.codes.max()) + 1

    def by_number(self) -> Calibration:
        """Replace contexts by their numbers, for an encoder that looks them up."""
        return replace(self, entries=pd.Series(self.codes))

    def take(self, rows: np.ndarray) -> Calibration:
        """Select rows."""
        return replace(
            self,
            entries=self.entries.iloc[rows].reset_index(drop=True),
            x_obs=self.x_obs[rows],
            x_sim=self.x_sim[rows],
            groups=np.unique(self.groups[rows], return_inverse=True)[1],
            theta=None if self.theta is None else self.theta[rows],
        )


def read_calibration(
    context: Context,
    x_obs: Any,
    x_sim: Any,
    pool: Simulations | None,
    groups: Any,
    posterior: Any = None,
    theta: Any = None,
    seed: int | None = None,
) -> tuple[Calibration, Tensor]:
    """Check calibration data.

    Args:
        context: One entry per observation.
        x_obs: Observations.
        x_sim: Simulations paired with them, or None.
        pool: Simulations from the prior, or None.
        groups: Group of each row, or None.
        posterior: Where parameters of x_sim are drawn from, to learn the simulator's noise.
        theta: True parameters of the rows, or None.
        seed: Of draws.

    Returns:
        The rows that are not gross outliers, and the outliers' numbers.

    Raises:
        ValueError: If rows do not match or are not finite, or there is nothing to compare
            observations with.
    """
    if x_sim is None and pool is None:
        raise ValueError(
            "fit_corrector compares observations with simulations: pass x_sim, the "
            "simulations at the inputs of each observation, or simulations=, any number "
            "of simulations from the prior"
        )
    device = double_device(x_obs.device if isinstance(x_obs, Tensor) else None)
    observed = as_matrix(x_obs, "x_obs", dtype=torch.float64, device=device, column=True)
    if pool is not None:
        as_pools(observed, pool.x)
    if x_sim is None:
        assert pool is not None  # noqa: S101 (checked above)
        repeats = pool.x.to(observed).mean(dim=0).expand(len(observed), 1, -1)
    else:
        repeats = as_repeats(x_sim, observed)
    check_precision(
        x_obs=observed,
        x_sim=None if x_sim is None else repeats,
        simulations=None if pool is None else pool.x,
    )
    num_rows = len(observed)
    entries = as_entries(context, num_rows=num_rows, hint=about_vector(x_obs, "x_obs"))
    codes = np.arange(num_rows) if groups is None else as_codes(groups, "groups", num_rows)
    truth = None
    if theta is not None:
        double = as_matrix(theta, "theta", dtype=torch.float64, device=device, column=True)
        check_precision(theta=double)
        truth = double.float()
        if len(truth) != num_rows:
            raise ValueError(
                "theta must have one row per observation: expected "
                f"{num_rows}, got {len(truth)}"
            )
        _check_prior(truth, getattr(posterior, "prior", None))
    paired = x_sim is not None
    gross = find_outliers(observed, repeats.mean(dim=1))
    kept = (~gross).nonzero().flatten().cpu().numpy()
    contexts = torch.as_tensor(distinct(entries)[1][kept], device=observed.device)
    contexts = contexts.unique(return_inverse=True)[1]
    simulator = None
    if paired:
        if repeats.shape[1] > 1:
            simulator = repeats[kept].var(dim=1).mean(dim=0)
        elif pool is not None and pool.theta is not None:
            simulator = simulator_noise(pool.theta, pool.x).to(observed)
        elif posterior is not None and len(kept) >= FEWEST_ROWS:
            # Parameters drawn at x_sim are to x_sim as those of the prior are.
            x = repeats[kept, 0]
            with untold("no number"):
                drawn = posterior.sample(NUM_DRAWS, x.float(), seed=derive(seed, "noise"))
            refuse(not_drawn(drawn), "at x_sim, draws")
            simulator = simulator_noise(drawn, x)
        noise = find_noise(observed[kept], repeats[kept], contexts, simulator)
    else:
        whole = torch.ones_like(observed[0])
        spread = column_scale(observed[kept]).square()
        noise = Noise(whole, spread, spread, "no pairs: all spread is taken for noise")
    everything = Calibration(
        entries, observed, repeats, codes, paired, noise, truth, simulator
    )
    return everything.take(kept), gross.nonzero().flatten()


def _check_prior(theta: Tensor, prior: Any) -> None:
    """Refuse true parameters of which most lie outside the prior; tell of a few.

    Raises:
        ValueError: If more than half of the rows do.
    """
    shape = getattr(prior, "event_shape", None)
    if not (is_bounded(prior) and shape):
        return
    if theta.shape[1:] != shape:
        raise ValueError(
            f"theta must have {shape[0]} columns, the parameters of the posterior's prior, "
            f"got {theta.shape[1]}"
        )
    with seeded(0):  # of its device nothing else tells
        device = prior.sample((1,)).device
    outside = ~within_support(prior, theta.to(device))
    if not outside.any():
        return
    said = (
        f"theta lies outside the prior of the posterior in {int(outside.sum())} of "
        f"{len(theta)} rows (first: row {int(outside.int().argmax())}): check its units "
        "and the order of its columns"
    )
    if 2 * outside.sum() > len(theta):
        raise ValueError(said)
    warnings.warn(said, UserWarning, stacklevel=levels_to_caller())


def as_repeats(x_sim: Any, observed: Tensor) -> Tensor:
    """Convert simulations to ``(n, num_repeats, dim_x)``."""
    as_doubles = partial(as_matrix, dtype=torch.float64, device=observed.device)
    if getattr(x_sim, "ndim", 0) == 3:
        flat = as_doubles(x_sim.reshape(-1, x_sim.shape[2]), "x_sim")
        repeats = flat.unflatten(0, tuple(x_sim.shape[:2]))
    else:
        repeats = as_doubles(x_sim, "x_sim", column=True)[:, None]
    if repeats.shape[::2] != observed.shape:
        raise ValueError(
            "x_obs and x_sim must be paired row by row, got "
            f"{tuple(observed.shape)} and {tuple(repeats.squeeze(1).shape)}; several "
            "simulations of each row have shape (n, number of simulations, dim_x)"
        )
    return repeats
