"""The range of the observations that a corrector was fitted to."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from ma_sbi.scaling import FEWEST_COMPARED, UNITS
from ma_sbi.storing.forms import stored
from ma_sbi.telling import levels_to_caller, tell

__all__ = ["ObservedRange", "OutsideCalibration"]


# Share of calibration's numbers that may be far smaller than most.
MOST_SMALL = 0.02


class OutsideCalibration(UserWarning):
    """An observation lies far from all that the corrector was fitted to."""


@stored(low="dim_x?", high="dim_x?", size="dim_x")
@dataclass(frozen=True, eq=False)
class ObservedRange:
    """Between which numbers the observations of calibration lie, column by column.

    Far outside means: further beyond the range than it is wide. That is no departure, but
    another unit or another column.

    Attributes:
        low: Least number of each column, shape ``(dim_x,)``; infinite without enough rows.
        high: Largest.
        size: Median size of its numbers other than zero; zero if they are not known, or
            so many are far smaller that others which are tell nothing.
    """

    low: Tensor
    high: Tensor
    size: Tensor

    @classmethod
    def of(cls, x_obs: Tensor) -> ObservedRange:
        """Measure the range of observations ``(n, dim_x)``; a few gross ones do not count.

        Example:
            >>> x = torch.arange(20.0)[:, None]
            >>> ObservedRange.of(torch.cat([x, torch.tensor([[1e6]])])).high
            tensor([19.])
        """
        if len(x_obs) < FEWEST_COMPARED:
            few = (torch.full_like(x_obs[0], one) for one in (-torch.inf, torch.inf, 0.0))
            return cls(*few)
        centre = x_obs.median(dim=0).values
        away = (x_obs - centre).abs()
        most = away.sort(dim=0).values[int(0.9 * (len(away) - 1))]
        # A column that is mostly the same number has no gross ones.
        gross = (away > UNITS * most) & (most > 0)
        kept = torch.where(gross, centre, x_obs)
        sizes = x_obs.abs().where(x_obs != 0, torch.nan)
        size = sizes.nanmedian(dim=0).values
        # A regime of small numbers is no other unit.
        small = (sizes < size / UNITS).sum(dim=0) > MOST_SMALL * (x_obs != 0).sum(dim=0)
        return cls(*kept.aminmax(dim=0), size.masked_fill(small, 0.0).nan_to_num())

    def far(self, x: Tensor) -> Tensor:
        """Tell which numbers of x ``(batch, dim_x)`` lie far outside; the same shape."""
        low, high = self.low.to(x), self.high.to(x)
        # What is constant may be rounded.
        slack = (high - low) + 1e-6 * torch.maximum(low.abs(), high.abs())
        return (x < low - slack) | (x > high + slack)

    def far_smaller(self, x: Tensor) -> Tensor:
        """Tell which columns are in a larger unit, though within the range of calibration.

        That is told of many rows only: all numbers are far smaller than most were.

        Args:
            x: Observations, shape ``(n, dim_x)``.

        Returns:
            Shape ``(dim_x,)``.
        """
        size = self.size.to(x)
        if len(x) < FEWEST_COMPARED:
            return torch.zeros_like(size, dtype=torch.bool)
        largest = x.abs().amax(dim=0)
        return (largest > 0) & (largest < size / UNITS)

    def warn(self, x: Tensor) -> None:
        """Warn, once in a call, if x ``(batch, dim_x)`` seems to be in other units."""
        tell("unseen", (id(self), "x"), (x, self.far(x)), self._say)

    def _say(self, parts: list[tuple[Tensor, Tensor]]) -> None:
        x, far = (torch.cat(both) for both in zip(*parts, strict=True))
        if far.any():
            row, column = far.nonzero()[0].tolist()
            said = (
                f"{far.any(dim=1).sum()} of {len(x)} observations lie far outside those of "
                f"calibration (first: row {row} has {x[row, column]:.4g} in column "
                f"{column}, calibrated from {self.low[column]:.4g} to "
                f"{self.high[column]:.4g}): check the units and the order of columns"
            )
        elif self.far_smaller(x).any():
            column = int(self.far_smaller(x).nonzero()[0])
            said = (
                f"no number in column {column} is larger than "
                f"{x[:, column].abs().max():.4g}, and half of those of calibration that "
                f"are not zero were larger than {self.size[column]:.4g}: check the units "
                "and the order of columns"
            )
        else:
            return
        warnings.warn(said, OutsideCalibration, stacklevel=levels_to_caller())
