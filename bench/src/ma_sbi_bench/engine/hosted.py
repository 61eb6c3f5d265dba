"""A posterior on another device, for callers whose tensors are on the processor."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.distributions import Distribution

from ma_sbi.posteriors.amortized import Amortized
from ma_sbi.posteriors.training_range import TrainingRange
from ma_sbi.protocols import ArrayLike

__all__ = ["hosted"]


def hosted(posterior: Any, prior: Distribution) -> Any:
    """Return the posterior, which may be on any device, as one of the processor.

    Args:
        posterior: The posterior; one of the processor is returned as it is.
        prior: The prior that it was trained with, on the processor.
    """
    device = getattr(posterior, "device", None)
    if device is None or device.type == "cpu":
        return posterior
    return Hosted(posterior, prior)


class Hosted(Amortized):
    """A posterior that computes there; what it takes and gives is here.

    Methods and metrics mix draws with calibration data, and many of their steps are
    quicker without a device.
    """

    def __init__(self, there: Any, prior: Distribution) -> None:
        known = there.training_range
        if known is not None:
            known = TrainingRange(**{name: one.cpu() for name, one in vars(known).items()})
        super().__init__(prior=prior, dim_x=there.dim_x, training_range=known, device="cpu")
        self.there = there
        self.expensive_density = there.expensive_density

    def _draw_passes(self, counts: list[int], x: Tensor, seed: int | None) -> list[Tensor]:
        return [self.there.sample(sum(counts), x, seed=seed).to(x.device)]

    def _draw(self, num_samples: int, x: Tensor) -> Tensor:
        return self._draw_passes([num_samples], x, seed=None)[0]

    def quick(self) -> Any:
        """Return the same posterior with its quick sampler."""
        return hosted(self.there.quick(), self.prior)  # type: ignore[arg-type]

    def log_prob(self, theta: ArrayLike, x: ArrayLike) -> Tensor:
        """Evaluate theta ``(num_samples, batch, dim_theta)`` at x ``(batch, dim_x)``."""
        theta, x = self._check_density_input(theta, x)
        return self.there.log_prob(theta, x).to(x.device)

    def __repr__(self) -> str:
        return f"{self.there!r} on {self.there.device}"
