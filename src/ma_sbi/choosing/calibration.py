"""Calibration data of a choice: checked, with gross outliers and noise told apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ma_sbi.choosing.noise import Noise, find_noise
from ma_sbi.context import Entries, as_codes, as_entries, distinct
from ma_sbi.protocols import Context
from ma_sbi.scaling import column_scale
from ma_sbi.validation import as_matrix, as_pools, double_device

__all__ = ["Calibration", "read_calibration"]

# An observation is gross if it lies so many deviations from the others, and alone.
GROSS = 8.0


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
    """

    entries: Entries
    x_obs: Tensor
    x_sim: Tensor
    groups: np.ndarray
    paired: bool
    noise: Noise

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

    def take(self, rows: np.ndarray) -> Calibration:
        """Select rows."""
        return Calibration(
            self.entries.iloc[rows].reset_index(drop=True),
            self.x_obs[rows],
            self.x_sim[rows],
            np.unique(self.groups[rows], return_inverse=True)[1],
            self.paired,
            self.noise,
        )


def read_calibration(
    context: Context, x_obs: Any, x_sim: Any, simulations: Any, groups: Any
) -> tuple[Calibration, Tensor]:
    """Check calibration data.

    Returns:
        The rows that are not gross outliers, and the outliers' numbers.

    Raises:
        ValueError: If rows do not match or are not finite, or there is nothing to compare
            observations with.
    """
    if x_sim is None and simulations is None:
        raise ValueError(
            "fit_corrector compares observations with simulations: pass x_sim, the "
            "simulations at the inputs of each observation, or simulations=, any number "
            "of simulations from the prior"
        )
    device = double_device(x_obs.device if isinstance(x_obs, Tensor) else None)
    observed = as_matrix(x_obs, "x_obs", dtype=torch.float64, device=device, column=True)
    if x_sim is None:
        _, pool = as_pools(observed, simulations)
        repeats = pool.mean(dim=0).expand(len(observed), 1, -1)
    else:
        repeats = _as_repeats(x_sim, observed)
    num_rows = len(observed)
    entries = as_entries(context, num_rows=num_rows)
    codes = np.arange(num_rows) if groups is None else as_codes(groups, "groups", num_rows)
    paired = x_sim is not None
    gross = _find_gross(observed, repeats.mean(dim=1))
    kept = (~gross).nonzero().flatten().cpu().numpy()
    contexts = torch.as_tensor(distinct(entries)[1][kept], device=observed.device)
    contexts = contexts.unique(return_inverse=True)[1]
    if paired:
        noise = find_noise(observed[kept], repeats[kept], contexts)
    else:
        whole = torch.ones_like(observed[0])
        spread = column_scale(observed[kept]).square()
        noise = Noise(whole, spread, spread, "no pairs: all spread is taken for noise")
    everything = Calibration(entries, observed, repeats, codes, paired, noise)
    return everything.take(kept), gross.nonzero().flatten()


def _as_repeats(x_sim: Any, observed: Tensor) -> Tensor:
    """Convert simulations to ``(n, num_repeats, dim_x)``."""
    given = x_sim if isinstance(x_sim, Tensor) else torch.as_tensor(np.asarray(x_sim))
    if given.ndim != 3:
        flat = as_matrix(
            x_sim, "x_sim", dtype=torch.float64, device=observed.device, column=True
        )
        repeats = flat[:, None]
    else:
        flat = as_matrix(
            given.flatten(0, 1), "x_sim", dtype=torch.float64, device=observed.device
        )
        repeats = flat.unflatten(0, given.shape[:2])
    if repeats.shape[::2] != observed.shape:
        raise ValueError(
            "x_obs and x_sim must be paired row by row, got "
            f"{tuple(observed.shape)} and {tuple(given.shape)}; several simulations of "
            "each row have shape (n, number of simulations, dim_x)"
        )
    return repeats


def _find_gross(x_obs: Tensor, x_sim: Tensor) -> Tensor:
    """Find rows whose departure is far beyond the range of x, and unlike any other."""
    scale = column_scale(x_sim)
    if not (x_sim != x_sim[0]).any():  # no pairs: one mean for all
        scale = _robust_scale(x_obs)
    delta = (x_obs - x_sim) / scale
    size = (delta - delta.median(dim=0).values).abs().amax(dim=1)
    far = size > GROSS * (1 + size.median())
    for row in far.nonzero().flatten().tolist():
        apart = (delta - delta[row]).abs().amax(dim=1)
        # Itself and one more: a regime seen twice is a regime.
        far[row] = bool(apart.sort().values[1] > size[row] / 4)
    return far


def _robust_scale(x: Tensor) -> Tensor:
    spread = (x - x.median(dim=0).values).abs().median(dim=0).values * 1.4826
    return torch.where(spread > 0, spread, column_scale(x))
