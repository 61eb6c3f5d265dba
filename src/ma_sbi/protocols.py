"""The interfaces of the method: encoder, corrector and posterior.

Shapes follow sbi and zuko: ``(num_samples, batch, dim)``. The paper's ``y`` is ``x``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor

__all__ = [
    "MAX_ROWS",
    "AmortizedPosterior",
    "ArrayLike",
    "Context",
    "Corrections",
    "Corrector",
    "DensePosterior",
    "Encoder",
    "SBIPosteriorLike",
    "check_density",
    "check_posterior",
    "has_density",
]

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

ArrayLike: TypeAlias = (
    "Tensor | np.ndarray | pd.DataFrame | pd.Series | Sequence[float] | Sequence[Tensor]"
    " | Sequence[np.ndarray] | Sequence[Sequence[float]]"
    " | Sequence[Sequence[Sequence[float]]]"
)
"""Numbers: a tensor, an array, a table, or nested lists; one row per observation."""

Context: TypeAlias = (
    "str | float | date | Mapping[str, Any] | Sequence[Any] | np.ndarray | Tensor"
    " | pd.Series | pd.DataFrame | None"
)
"""What is known besides the observations: one entry per observation.

A list, array, ``pandas.Series`` or ``DataFrame`` (mixed columns), a dict of columns, or one
bare string or number that holds for every observation. ``None``, ``NaN`` and ``""`` are
missing.
"""


MAX_ROWS = 200_000
"""Most draws that a posterior is asked for in one pass, to bound memory."""


class Corrections(NamedTuple):
    """Candidates for what the simulator would have given instead of each observation.

    Attributes:
        x: Candidate corrected observations, shape ``(K, batch, dim_x)``.
        log_weight: Log probability of each candidate, shape ``(K, batch)``; sums to one
            over ``K``.
        log_abs_det: Log absolute Jacobian determinant of each correction as a map of x,
            shape ``(K, batch)``; zero for a shift. It turns the simulations' density at
            the corrected x into the evidence for the candidate.
        shared: Whether all observations have the same candidates, with weights of their
            own: ``x[:, i]`` is then the same for every i.
    """

    x: Tensor
    log_weight: Tensor
    log_abs_det: Tensor
    shared: bool = False

    @classmethod
    def certain(cls, x: Tensor, log_abs_det: Tensor | None = None) -> Corrections:
        """Make a single candidate of weight one.

        Args:
            x: Corrected observations, shape ``(batch, dim_x)``.
            log_abs_det: Of the correction, shape ``(batch,)``; zero, as for a shift, if
                None.

        Example:
            >>> import torch
            >>> Corrections.certain(torch.ones(3, 2)).x.shape
            torch.Size([1, 3, 2])
        """
        zero = x.new_zeros(1, len(x))
        return cls(x[None], zero, zero if log_abs_det is None else log_abs_det[None])

    @classmethod
    def among(cls, pool: Tensor, log_weight: Tensor) -> Corrections:
        """Give every observation the same candidates.

        Args:
            pool: The candidates, shape ``(K, dim_x)``.
            log_weight: Log probability of each for each observation, shape
                ``(K, batch)``.
        """
        x = pool[:, None].expand(-1, log_weight.shape[1], -1)
        log_weight = log_weight.to(pool)
        return cls(x, log_weight, torch.zeros_like(log_weight), shared=True)

    def rows(self, index: slice) -> Corrections:
        """Select observations."""
        return self._replace(
            x=self.x[:, index],
            log_weight=self.log_weight[:, index],
            log_abs_det=self.log_abs_det[:, index],
        )

    def draw(self, rng: torch.Generator | None) -> Tensor:
        """Draw one candidate of each observation by its weight, shape ``(batch, dim_x)``.

        Args:
            rng: Generator on the CPU; torch's global one if None.
        """
        weight = self.log_weight.exp().T.cpu()
        pick = torch.multinomial(weight, 1, generator=rng)[:, 0].to(self.x.device)
        return self.x[pick, torch.arange(len(pick), device=self.x.device)]


class Encoder(Protocol):
    """A scikit-learn transformer from context to vectors."""

    def fit(self, context: Context, y: Any = None) -> Encoder:
        """Learn what the encoding needs (labels, scales); return self."""
        ...

    def transform(self, context: Context) -> Any:
        """Encode, one row per entry, shape ``(n, dim)``."""
        ...


class Corrector(Protocol):
    """Predicts from the context how reality departs from the simulator."""

    def correct(self, x: ArrayLike, context: Context) -> Tensor:
        """Return the correction, averaged over candidates, shape ``(batch, dim_x)``."""
        ...

    def corrections(self, x: ArrayLike, context: Context) -> Corrections:
        """Return every candidate correction with its weight."""
        ...


class AmortizedPosterior(Protocol):
    """Draws from q(theta | x) for a batch of observations."""

    def sample(self, num_samples: int, x: Tensor, *, seed: int | None = None) -> Tensor:
        """Draw for x of shape ``(batch, dim_x)``.

        Returns:
            Draws of shape ``(num_samples, batch, dim_theta)``.
        """
        ...


class DensePosterior(AmortizedPosterior, Protocol):
    """An amortized posterior whose density can be evaluated."""

    def log_prob(self, theta: Tensor, x: Tensor) -> Tensor:
        """Evaluate theta ``(num_samples, batch, dim_theta)`` at x ``(batch, dim_x)``.

        Returns:
            Log densities of shape ``(num_samples, batch)``.
        """
        ...


class SBIPosteriorLike(Protocol):
    """A posterior of sbi as ``build_posterior()`` returns it; ``from_sbi`` adapts it."""

    def sample_batched(self, sample_shape: Any, x: Tensor, **options: Any) -> Tensor:
        """Draw ``(*sample_shape, batch, dim_theta)`` for a batch of observations."""
        ...


def check_density(density: Any) -> None:
    """Refuse what is no log density of simulations.

    Raises:
        ValueError: If it is no function of x, or a function that makes one.
    """
    if density is not None and not callable(density):
        raise ValueError(
            "density must be a function of x, such as fit_density(simulations) returns, "
            f"got a {type(density).__name__}"
        )
    if getattr(density, "__name__", "") in ("fit_density", "load_density"):
        name = density.__name__
        raise ValueError(
            f"density is the function {name} itself: call it, density={name}(...), and "
            "pass what it returns"
        )


def check_posterior(posterior: Any, name: str = "posterior") -> None:
    """Refuse what does not draw as an amortized posterior does.

    Raises:
        ValueError: If it has no ``sample(num_samples, x, *, seed)``.
    """
    if isinstance(posterior, type):
        raise ValueError(
            f"{name} must be a trained posterior and not a class, got {posterior.__name__}"
        )
    if hasattr(posterior, "sample_batched"):
        raise ValueError(
            f"{name} is a {type(posterior).__name__}, which has sbi's interface; wrap it "
            f"with from_sbi({name})"
        )
    sample = getattr(posterior, "sample", None)
    if callable(sample) and _accepts(sample, 1, None, seed=0):
        return
    if callable(sample) and _accepts(sample, 1, None, None, seed=0):
        raise ValueError(
            f"{name} reads a context, so it is corrected already, got a "
            f"{type(posterior).__name__}: pass the posterior that was trained"
        )
    raise ValueError(
        f"{name} must offer sample(num_samples, x, seed=...), got a "
        f"{type(posterior).__name__}: adapt it by from_sbi, from_zuko or from_callable"
    )


def _accepts(function: Callable[..., Any], *args: Any, **options: Any) -> bool:
    """Tell whether a function can be called with these; True if that is not known."""
    try:
        inspect.signature(function).bind(*args, **options)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def has_density(posterior: Any) -> bool:
    """Tell whether the density of a posterior, or of a fitted method, can be evaluated.

    An attribute ``has_density`` decides; without one, a method ``log_prob`` does.
    """
    declared = getattr(posterior, "has_density", None)
    if declared is not None:
        return bool(declared)
    return callable(getattr(posterior, "log_prob", None))
