"""The base of all posteriors, trained here or adapted."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Distribution
from typing_extensions import Self

from ma_sbi.display.progress import parts
from ma_sbi.nan import no_density, not_drawn, tell
from ma_sbi.posteriors.training_range import TrainingRange
from ma_sbi.protocols import MAX_ROWS, ArrayLike
from ma_sbi.randomness import seeded
from ma_sbi.telling import told_together
from ma_sbi.validation import as_matrix, as_shape, as_tensor

__all__ = ["Amortized"]


class Amortized(ABC):
    """An amortized posterior that checks its input and takes a seed.

    Subclasses implement ``_draw`` and, if they have a density, ``log_prob``. One that can
    draw from a generator of its own also overrides ``_draw_passes``.

    Attributes:
        prior: Prior over theta, if known.
        dim_x: Number of columns of x, if known; by default that of the training range.
        training_range: Range of the simulations it was trained on, if known.
        device: Device of the posterior; that of x if None.
    """

    expensive_density = False
    """Whether a density takes much longer than a draw."""
    max_rows = MAX_ROWS
    """Most draws in one pass, to bound memory."""

    def __init__(
        self,
        *,
        prior: Distribution | None = None,
        dim_x: int | None = None,
        training_range: TrainingRange | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        if prior is not None and not callable(getattr(prior, "log_prob", None)):
            raise ValueError(
                "prior must be a torch distribution over theta, or None, got a "
                f"{type(prior).__name__}"
            )
        self.prior = prior
        if dim_x is None and training_range is not None:
            dim_x = len(training_range.center)
        self.dim_x = dim_x
        self.training_range = training_range
        self.device = None if device is None else torch.device(device)

    @abstractmethod
    def _draw(self, num_samples: int, x: Tensor) -> Tensor:
        """Draw ``(num_samples, batch, dim_theta)`` for x ``(batch, dim_x)``."""

    def sample(
        self, num_samples: int | Sequence[int], x: ArrayLike, *, seed: int | None = None
    ) -> Tensor:
        """Draw for a batch of observations.

        Args:
            num_samples: Draws per observation, or their shape, as in sbi.
            x: Observations, shape ``(batch, dim_x)``.
            seed: Makes the draws repeatable; torch's global generator if None.

        Returns:
            Draws of shape ``(num_samples, batch, dim_theta)``, or ``(*shape, batch,
            dim_theta)``. Where it could not draw, they are NaN, and a warning says so
            (:class:`~ma_sbi.nan.NotANumber`).
        """
        shape = as_shape(num_samples, "num_samples")
        total = math.prod(shape)
        x = self.as_rows(x)
        if self.training_range is not None:
            self.training_range.warn(x)
        per_pass = max(1, self.max_rows // len(x))
        counts = [min(per_pass, total - start) for start in range(0, total, per_pass)]
        with torch.no_grad(), told_together():
            passes = self._draw_passes(counts, x, seed)
        draws = torch.cat(passes) if len(passes) > 1 else passes[0]
        tell(not_drawn(draws), "draws")
        return draws.reshape(*shape, *draws.shape[1:])

    def as_rows(self, x: ArrayLike) -> Tensor:
        """Check observations, and return one row for each, shape ``(batch, dim_x)``."""
        return as_matrix(x, "x", dim=self.dim_x, device=self.device)

    def of_rows(self) -> Amortized:
        """Return the same posterior, which takes a matrix for rows in any case.

        What is passed on inside this package is one row per observation.
        """
        return self

    def _draw_passes(self, counts: list[int], x: Tensor, seed: int | None) -> list[Tensor]:
        """Draw as often as each pass counts, from torch's global generator."""
        with seeded(seed, x.device):
            return [self._draw(count, x) for count in parts(counts, "part")]

    def quick(self) -> Amortized:
        """Return the same posterior with its quick sampler; itself if it has only one."""
        return self

    def normalised_by(self, num_draws: int) -> Amortized:
        """Return the same posterior, its density normalised by so many draws per x.

        Zero does not normalise it. A posterior that never leaks out of the prior's support
        is returned as it is.
        """
        return self

    def log_prob_by_weight(
        self, theta: ArrayLike, x: ArrayLike, weight: Tensor | None
    ) -> Tensor:
        """Evaluate as ``log_prob`` does, where densities at x are to be averaged.

        Args:
            theta: Parameters, shape ``(num_samples, batch, dim_theta)``.
            x: Observations, shape ``(batch, dim_x)``.
            weight: What each counts for in its average, shape ``(batch,)``: what costs
                much may be less exact for little weight.
        """
        return self.log_prob(theta, x)  # type: ignore[attr-defined]  # if it has one

    def acceptance(self, x: ArrayLike, num_draws: int) -> Tensor:
        """Estimate the share of draws inside the prior's support, shape ``(batch,)``.

        It is one for a posterior that never leaks.
        """
        x = self.as_rows(x)
        return torch.ones(len(x), device=x.device)

    def to(self, device: torch.device | str) -> Self:
        """Move the posterior to a device, in place as torch's modules do; return it.

        Raises:
            ValueError: If it cannot be moved.
        """
        asked, here = torch.device(device), self.device
        if here and (asked.type != here.type or (asked.index or 0) != (here.index or 0)):
            raise ValueError(
                f"a {type(self).__name__} stays on {self.device}; save it, and load it "
                f"with load_posterior(path, device={str(device)!r})"
            )
        return self

    def _told(self, log_prob: Tensor) -> Tensor:
        """Return log densities ``(num_samples, batch)``; warn of those that are NaN."""
        tell(no_density(log_prob), "log densities")
        return log_prob

    def _check_density_input(self, theta: ArrayLike, x: ArrayLike) -> tuple[Tensor, Tensor]:
        x = self.as_rows(x)
        if self.training_range is not None:
            self.training_range.warn(x)
        theta = as_tensor(theta, "theta").to(x.device, torch.float32)
        if theta.ndim != 3 or theta.shape[1] not in (1, len(x)):
            raise ValueError(
                "theta must have shape (num_samples, batch, dim_theta) with a batch of "
                f"{len(x)} as x has, got {tuple(theta.shape)}"
            )
        if self.prior is not None and theta.shape[2] != self.prior.event_shape[0]:
            raise ValueError(
                f"theta must have {self.prior.event_shape[0]} dimensions, like the prior, "
                f"got {theta.shape[2]}"
            )
        if theta.isnan().any():
            raise ValueError("theta must not be NaN")
        return theta.expand(-1, len(x), -1), x
