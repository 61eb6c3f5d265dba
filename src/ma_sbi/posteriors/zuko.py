"""Conditional flows from zuko, and lampe's estimators, which wrap them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch.distributions import Distribution

from ma_sbi.display.text import shorten
from ma_sbi.nan import refuse_weights
from ma_sbi.posteriors.training_range import TrainingRange
from ma_sbi.posteriors.truncation import DenseTruncated
from ma_sbi.protocols import ArrayLike

__all__ = ["ZukoAdapter", "from_zuko"]


def from_zuko(
    flow: Any, *, prior: Distribution | None = None, x_train: ArrayLike | None = None
) -> ZukoAdapter:
    """Adapt a conditional flow: ``flow(x)`` is a distribution over theta.

    For a lampe estimator pass its ``flow``. The flow must take the raw x, on which
    corrections act.

    Args:
        flow: The trained flow.
        prior: Prior over theta; if given, draws are kept inside its support.
        x_train: Simulations it was trained on; if given, an x far outside gives a warning.
    """
    if not callable(flow) or isinstance(flow, type):
        got = f"the class {flow.__name__}" if isinstance(flow, type) else repr(flow)
        raise ValueError(
            f"from_zuko expects a conditional flow that is trained, got {shorten(got)}"
        )
    refuse_weights(flow, f"this {type(flow).__name__}")
    return ZukoAdapter(flow, prior, x_train)


class ZukoAdapter(DenseTruncated):
    """A conditional flow."""

    def __init__(
        self, flow: Any, prior: Distribution | None, x_train: ArrayLike | None
    ) -> None:
        parameter = next(flow.parameters(), None) if hasattr(flow, "parameters") else None
        training_range = None if x_train is None else TrainingRange.of(x_train)
        super().__init__(
            prior=prior,
            training_range=training_range,
            device=None if parameter is None else parameter.device,
        )
        self.flow = flow

    def _propose(self, num_samples: int, x: Tensor) -> Tensor:
        with self._taking(x):
            return self.flow(x).sample((num_samples,))

    def _density(self, theta: Tensor, x: Tensor) -> Tensor:
        with self._taking(x):
            return self.flow(x).log_prob(theta)

    @contextmanager
    def _taking(self, x: Tensor) -> Iterator[None]:
        """Say what torch's error about shapes means."""
        try:
            yield
        except RuntimeError as error:
            if "shape" not in str(error):
                raise
            raise ValueError(
                f"the flow cannot take x of {x.shape[1]} columns ({error}): it must be "
                "conditional on x, for example zuko.flows.NSF(dim_theta, context=dim_x)"
            ) from error

    def __repr__(self) -> str:
        return f"from_zuko({type(self.flow).__name__})"
