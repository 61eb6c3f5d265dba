"""Posteriors trained with BayesFlow 2."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

from ma_sbi.one_at_a_time import one_at_a_time
from ma_sbi.posteriors.callables import CallableAdapter, from_callable
from ma_sbi.protocols import ArrayLike
from ma_sbi.randomness import seeded

__all__ = ["BayesFlowFunctions", "from_bayesflow"]


def from_bayesflow(
    workflow: Any,
    conditions: str | Mapping[str, int | Sequence[int]],
    *,
    prior: Distribution | None = None,
    x_train: ArrayLike | None = None,
) -> CallableAdapter:
    """Adapt a workflow or an approximator of BayesFlow 2.

    Corrections act on the raw x, before BayesFlow's adapter and summary network.

    Args:
        workflow: A trained ``BasicWorkflow``, or its ``approximator``.
        conditions: The name that the observations had in training; or, if there were
            several variables, their names and shapes for one observation, in the order in
            which x has them: ``{"x": (10, 2), "num_trials": 1}`` for 21 columns.
        prior: Prior over theta; if given, draws are kept inside its support.
        x_train: Simulations it was trained on; if given, an x far outside gives a warning.

    Returns:
        A posterior over all inference variables, side by side in BayesFlow's order. Its
        density, if the approximator has one, has no gradients: BayesFlow computes it with
        numpy.

    Raises:
        ValueError: If it is no BayesFlow approximator.
    """
    approximator = getattr(workflow, "approximator", workflow)
    if not hasattr(approximator, "adapter") or not hasattr(approximator, "sample"):
        raise ValueError(
            "from_bayesflow expects a workflow or an approximator of BayesFlow 2, got a "
            f"{type(workflow).__name__}"
        )
    functions = BayesFlowFunctions(approximator, conditions)
    density = functions.log_prob if hasattr(approximator, "log_prob") else None
    return from_callable(
        functions.sample, density, batched=True, prior=prior, x_train=x_train
    )


class BayesFlowFunctions:
    """An approximator as functions of tensors."""

    def __init__(
        self, approximator: Any, conditions: str | Mapping[str, int | Sequence[int]]
    ) -> None:
        self.approximator = approximator
        self.conditions = conditions
        self._shapes: dict[str, tuple[int, ...]] = {}

    def sample(self, num_samples: int, x: Tensor) -> Tensor:
        """Draw ``(num_samples, batch, dim_theta)`` for x ``(batch, dim_x)``."""
        draws = self._draw(num_samples, self._named(x))
        flat = [one.reshape(len(x), num_samples, -1) for one in draws.values()]
        return torch.as_tensor(np.concatenate(flat, axis=2)).transpose(0, 1).to(x)

    def log_prob(self, theta: Tensor, x: Tensor) -> Tensor:
        """Evaluate theta ``(num_samples, batch, dim_theta)``, ``(num_samples, batch)``."""
        if theta.requires_grad:
            raise ValueError(
                "BayesFlow's density has no gradients; use draws, or log_prob of theta "
                "that needs none"
            )
        if not self._shapes:
            # One draw tells the names, order and shapes of the parameters.
            with seeded(0):
                drawn = self._draw(1, self._named(x[:1]))
            self._shapes = {name: one.shape[2:] for name, one in drawn.items()}
        rows = x.expand(len(theta), *x.shape).flatten(0, 1)
        data = self._named(rows) | _split(theta.flatten(0, 1), self._shapes, "theta")
        values = np.asarray(self.approximator.log_prob(data=data))
        return torch.as_tensor(values).to(x).reshape(theta.shape[:2])

    def _named(self, x: Tensor) -> dict[str, np.ndarray]:
        if isinstance(self.conditions, str):
            return {self.conditions: x.cpu().numpy()}
        shapes = {
            name: (shape,) if isinstance(shape, int) else tuple(shape)
            for name, shape in self.conditions.items()
        }
        return _split(x, shapes, "x")

    def _draw(
        self, num_samples: int, conditions: dict[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        # BayesFlow has generators of its own: torch's, which is seeded, gives the seed.
        seed = int(torch.randint(2**31 - 1, ()))
        with _without_bars():
            return self.approximator.sample(
                num_samples=num_samples, conditions=conditions, seed=seed
            )


@contextmanager
def _without_bars() -> Iterator[None]:
    """Leave out progress bars, which BayesFlow cannot be asked not to draw."""
    with one_at_a_time():
        try:
            with redirect_stderr(StringIO()) as written:
                yield
        finally:
            said = [line for line in written.getvalue().split("\n") if "\r" not in line]
            sys.stderr.write("\n".join(said).lstrip("\n"))


def _split(
    values: Tensor, shapes: Mapping[str, tuple[int, ...]], name: str
) -> dict[str, np.ndarray]:
    """Split columns ``(n, dim)`` into variables of these shapes."""
    widths = [math.prod(shape) for shape in shapes.values()]
    if sum(widths) != values.shape[1]:
        raise ValueError(
            f"{name} must have {sum(widths)} columns, for {', '.join(shapes)}; got "
            f"{values.shape[1]}"
        )
    parts = values.detach().cpu().split(widths, dim=1)
    return {
        variable: part.reshape(len(values), *shape).numpy()
        for (variable, shape), part in zip(shapes.items(), parts, strict=True)
    }
