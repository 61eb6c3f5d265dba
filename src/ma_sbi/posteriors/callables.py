"""Posteriors given as functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from ma_sbi.posteriors.training_range import TrainingRange
from ma_sbi.posteriors.truncation import DenseTruncated, Truncated
from ma_sbi.protocols import ArrayLike
from ma_sbi.validation import as_tensor

__all__ = ["CallableAdapter", "from_callable"]


def from_callable(
    sample: Callable[..., Any],
    log_prob: Callable[..., Any] | None = None,
    *,
    batched: bool = False,
    prior: Distribution | None = None,
    x_train: ArrayLike | None = None,
) -> CallableAdapter:
    """Adapt functions that draw from, and perhaps evaluate, a posterior.

    Args:
        sample: ``sample(num_samples, x)`` gives ``(num_samples, dim_theta)`` for one x of
            shape ``(dim_x,)``; or, if batched, ``(num_samples, batch, dim_theta)`` for x
            of shape ``(batch, dim_x)``, which saves a loop. A ``seed`` reaches it if it
            draws with torch. Where the order of dimensions could not be told from sizes
            (three draws of three parameters), it is asked again, for a draw or a row more.
        log_prob: ``log_prob(theta, x)`` gives ``(n,)`` for theta ``(n, dim_theta)`` and
            one x; or, if batched, ``(n, batch)`` for theta ``(n, batch, dim_theta)``.
        batched: Whether the functions take a batch of observations.
        prior: Prior over theta; if given, draws are kept inside its support.
        x_train: Simulations it was trained on; if given, an x far outside gives a warning.

    Example:
        >>> posterior = from_callable(lambda n, x: x + torch.zeros(n, 2))
        >>> posterior.sample(3, torch.ones(4, 2)).shape
        torch.Size([3, 4, 2])
    """
    if not callable(sample):
        raise ValueError(
            f"sample must be a function of num_samples and x, got a {type(sample).__name__}"
        )
    if log_prob is not None and not callable(log_prob):
        raise ValueError(
            f"log_prob must be a function of theta and x, got a {type(log_prob).__name__}"
        )
    if log_prob is None:
        return CallableAdapter(sample, batched, prior, x_train)
    return DenseCallableAdapter(sample, log_prob, batched, prior, x_train)


class CallableAdapter(Truncated):
    """A function that draws."""

    def __init__(
        self,
        sample: Callable[..., Any],
        batched: bool,  # noqa: FBT001
        prior: Distribution | None,
        x_train: ArrayLike | None,
    ) -> None:
        training_range = None if x_train is None else TrainingRange.of(x_train)
        super().__init__(prior=prior, training_range=training_range)
        self.sample_function = sample
        self.batched = batched

    def _propose(self, num_samples: int, x: Tensor) -> Tensor:
        draws = self._ask(num_samples, x)
        sizes = draws.shape if self.batched else (len(draws), draws.shape[2])
        several = [size for size in sizes if size > 1]
        if len(set(several)) == len(several):
            return draws
        # Sizes that are equal do not tell the order of dimensions: different ones do.
        num_rows, dim_theta = draws.shape[1:]
        more_x = x
        if self.batched and num_rows == dim_theta:
            more_x = torch.cat([x, x[:1]])
        taken = {dim_theta, len(more_x)} if self.batched else {dim_theta}
        more = next(num for num in range(num_samples, num_samples + 3) if num not in taken)
        return self._ask(more, more_x)[:num_samples, :num_rows]

    def _ask(self, num_samples: int, x: Tensor) -> Tensor:
        if self.batched:
            rows = [_as_float(self.sample_function(num_samples, x))]
            expected: tuple[int, ...] = (num_samples, len(x))
        else:
            rows = [_as_float(self.sample_function(num_samples, row)) for row in x]
            expected = (num_samples,)
        for row in rows:
            if row.ndim != len(expected) + 1 or row.shape[:-1] != expected:
                form = "batch, dim_theta" if self.batched else "dim_theta"
                raise ValueError(
                    f"the sample function must return shape (num_samples, {form}); got "
                    f"{tuple(row.shape)} for {num_samples} draws of {len(x)} observations"
                )
        draws = rows[0] if self.batched else torch.stack(rows, dim=1)
        dim_theta = None if self.prior is None else self.prior.event_shape[0]
        if dim_theta not in (None, draws.shape[2]):
            raise ValueError(
                f"the sample function must return {dim_theta} parameters, as the prior "
                f"has, got {draws.shape[2]}"
            )
        if not torch.isfinite(draws).all():
            raise ValueError("the sample function must return finite draws")
        return draws

    def __repr__(self) -> str:
        return f"from_callable({getattr(self.sample_function, '__name__', '...')})"


class DenseCallableAdapter(CallableAdapter, DenseTruncated):
    """Functions that draw and evaluate."""

    def __init__(
        self,
        sample: Callable[..., Any],
        log_prob: Callable[..., Any],
        batched: bool,  # noqa: FBT001
        prior: Distribution | None,
        x_train: ArrayLike | None,
    ) -> None:
        super().__init__(sample, batched, prior, x_train)
        self.log_prob_function = log_prob

    def _density(self, theta: Tensor, x: Tensor) -> Tensor:
        if self.batched and len(theta) == len(x) > 1:
            # One theta more: else sizes would not tell the order of dimensions.
            return self._values(torch.cat([theta, theta[:1]]), x)[:-1]
        return self._values(theta, x)

    def _values(self, theta: Tensor, x: Tensor) -> Tensor:
        if self.batched:
            values = _as_float(self.log_prob_function(theta, x))
        else:
            columns = [
                _as_float(self.log_prob_function(theta[:, i], row))
                for i, row in enumerate(x)
            ]
            values = torch.stack(columns, dim=1)
        if values.shape != theta.shape[:2]:
            raise ValueError(
                f"the log_prob function must return one value per theta, shape "
                f"{tuple(theta.shape[:2])} in all, got {tuple(values.shape)}"
            )
        return values


def _as_float(values: Any) -> Tensor:
    return as_tensor(values, "what the function returns").float()
