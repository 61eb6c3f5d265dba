"""Conditional flows from zuko, and lampe's estimators, which wrap them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution
from typing_extensions import Self

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

    The flow must take the raw x, on which corrections act.

    Args:
        flow: The trained flow, or an estimator of lampe that has one (NPE, FMPE).
        prior: Prior over theta; if given, draws are kept inside its support.
        x_train: Simulations it was trained on; if given, an x far outside gives a warning.

    Raises:
        ValueError: If it is no conditional flow, or its weights are not finite.
    """
    conditional = getattr(flow, "flow", flow)  # an estimator of lampe holds its flow
    if not callable(conditional) or isinstance(flow, type):
        got = f"the class {flow.__name__}" if isinstance(flow, type) else repr(flow)
        raise ValueError(
            f"from_zuko expects a conditional flow that is trained, got {shorten(got)}"
        )
    if _num_arguments(conditional) > 1:
        raise ValueError(
            f"from_zuko expects that flow(x) is a distribution over theta, but a "
            f"{type(flow).__name__} takes {_num_arguments(conditional)} arguments; an "
            "estimator of ratios needs from_callable with a sampler of your own"
        )
    refuse_weights(flow, f"this {type(flow).__name__}")
    return ZukoAdapter(flow, prior, x_train)


def _num_arguments(flow: Any) -> int:
    """Count the arguments that a call needs."""
    try:
        parameters = inspect.signature(getattr(flow, "forward", flow)).parameters
    except (TypeError, ValueError):  # has no signature
        return 1
    needed = (p for p in parameters.values() if p.default is p.empty)
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in needed)


class ZukoAdapter(DenseTruncated):
    """A conditional flow, of zuko or inside an estimator of lampe."""

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
        self.estimator = flow
        self.flow = getattr(flow, "flow", flow)

    def to(self, device: torch.device | str) -> Self:
        """Move the flow to a device, in place as torch's modules do; return it."""
        if self.prior is not None and torch.device(device) != self.device:
            raise ValueError("a flow with a prior stays; move the flow, and adapt it again")
        self.estimator.to(device)
        self.device = torch.device(device)
        return self

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
        return f"from_zuko({type(self.estimator).__name__})"
