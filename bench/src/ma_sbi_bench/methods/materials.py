"""What a method may learn from: the user fills in what is available."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal

from torch import Tensor
from torch.distributions import Distribution

from ma_sbi.context import as_entries
from ma_sbi.posteriors.diffusion import DiffusionPosterior
from ma_sbi.posteriors.support import within_support
from ma_sbi.posteriors.unconstrained import check_theta, on_real_line
from ma_sbi.protocols import AmortizedPosterior, Context
from ma_sbi.randomness import derive, seeded
from ma_sbi.simulation import sample_prior, simulate
from ma_sbi.validation import as_matrix

__all__ = ["NEEDS", "Calibration", "Materials", "Need", "Simulations"]

Need = Literal[
    "posterior",
    "diffusion",
    "simulations",
    "simulator",
    "x_obs",
    "theta*",
    "context",
    "pairs",
    "unlabelled",
]
"""One kind of material. The paper marks with a dagger what needs ``"theta*"``."""

NEEDS: dict[Need, str] = {
    "posterior": "a posterior trained on simulations (posterior=)",
    "diffusion": "a diffusion posterior made by fit_ddpm (posterior=)",
    "simulations": "simulations with their parameters (simulations=Simulations(theta, x))",
    "simulator": "the simulator as a function of theta (simulator=)",
    "x_obs": "calibration observations (calibration=Calibration(x_obs))",
    "theta*": "the true parameters of calibration observations "
    "(calibration=Calibration(x_obs, theta=...))",
    "context": "the context of calibration observations "
    "(calibration=Calibration(x_obs, context=...))",
    "pairs": "simulations paired with the calibration observations "
    "(calibration=Calibration(x_obs, x_sim=...))",
    "unlabelled": "observations of which nothing else need be known; those to be analysed "
    "will do (unlabelled=)",
}
"""What each kind is, for error messages."""

Simulator = Callable[..., Any]

_OF_CALIBRATION: dict[Need, str] = {
    "x_obs": "x_obs",
    "theta*": "theta",
    "context": "context",
    "pairs": "x_sim",
}


@dataclass(frozen=True)
class Simulations:
    """Parameters from the prior with their simulations.

    Attributes:
        theta: Parameters, shape ``(n, dim_theta)``.
        x: Simulations at theta, shape ``(n, dim_x)``.
    """

    theta: Tensor
    x: Tensor

    def __post_init__(self) -> None:
        theta = as_matrix(self.theta, "simulations.theta", column=True)
        x = as_matrix(self.x, "simulations.x", column=True)
        _same_length(len(theta), len(x), "simulations.theta", "simulations.x")
        _set(self, theta=theta, x=x)


@dataclass(frozen=True)
class Calibration:
    """Real observations with what is known of each; all but the observations optional.

    Attributes:
        x_obs: Observations, shape ``(n, dim_x)``.
        context: One entry per observation.
        x_sim: Simulations at the inputs of each observation, shape ``(n, dim_x)``.
        theta: The true parameters behind each observation, shape ``(n, dim_theta)``.
    """

    x_obs: Tensor
    context: Context | None = None
    x_sim: Tensor | None = None
    theta: Tensor | None = None

    def __post_init__(self) -> None:
        x_obs = as_matrix(self.x_obs, "calibration.x_obs", column=True)
        _set(self, x_obs=x_obs)
        if self.context is not None:
            _set(self, context=as_entries(self.context, num_rows=len(x_obs)))
        for name, dim in (("x_sim", x_obs.shape[1]), ("theta", None)):
            if getattr(self, name) is not None:
                label = f"calibration.{name}"
                values = as_matrix(getattr(self, name), label, dim=dim, column=True)
                _same_length(len(x_obs), len(values), "calibration.x_obs", label)
                _set(self, **{name: values})

    def __len__(self) -> int:
        return len(self.x_obs)


@dataclass(frozen=True, kw_only=True)
class Materials:
    """All data that are available; every method takes what it needs.

    Attributes:
        prior: Prior over theta.
        posterior: Amortized posterior trained on simulations alone.
        simulations: What it was, or could be, trained on.
        simulator: Called as ``simulator(theta, seed=seed)`` with theta of shape
            ``(n, dim_theta)``, gives ``(n, dim_x)``; ``task.simulate`` is one. A function
            of theta alone is taken, too, and run with the global generators of torch and
            numpy seeded.
        calibration: Real observations with what is known of them.
        unlabelled: Real observations without labels, shape ``(m, dim_x)``; those to be
            analysed can be used.

    Raises:
        ValueError: If widths disagree, rows do not match, or values are not finite.

    Example:
        >>> from ma_sbi_bench.tasks import get_task
        >>> task = get_task("gaussian_linear")
        >>> rows = task.draw(50, seed=0)
        >>> materials = Materials(
        ...     prior=task.prior,
        ...     calibration=Calibration(rows.x_obs, rows.context, rows.x_sim),
        ... )
        >>> sorted(materials.has)
        ['context', 'pairs', 'x_obs']
    """

    prior: Distribution
    posterior: AmortizedPosterior | None = None
    simulations: Simulations | None = None
    simulator: Simulator | None = None
    calibration: Calibration | None = None
    unlabelled: Tensor | None = None

    def __post_init__(self) -> None:
        device = getattr(self.posterior, "device", None)
        _set(self, prior=on_real_line(self.prior, device)[0])
        if isinstance(self.simulations, tuple):
            _set(self, simulations=Simulations(*self.simulations))
        for name, kind in (("simulations", Simulations), ("calibration", Calibration)):
            part = getattr(self, name)
            if part is not None and not isinstance(part, kind):
                raise ValueError(f"{name} must be {kind.__name__}(...), got {type(part)}")
        if self.simulator is not None and not callable(self.simulator):
            raise ValueError(
                f"simulator must be a function of theta, got {type(self.simulator)}"
            )
        if self.unlabelled is not None:
            _set(self, unlabelled=as_matrix(self.unlabelled, "unlabelled", column=True))
        self._check_widths()
        self._check_theta()
        self._check_posterior()

    @property
    def has(self) -> frozenset[Need]:
        """The kinds of material that are there."""
        return frozenset(kind for kind in NEEDS if self._find(kind) is not None)

    def take(self, kind: Need) -> Any:
        """Return one kind of material.

        Raises:
            ValueError: If it is not there.
        """
        material = self._find(kind)
        if material is None:
            raise ValueError(f"there is nothing of this kind: {NEEDS[kind]}")
        return material

    def _find(self, kind: Need) -> Any:
        if kind in _OF_CALIBRATION:
            return getattr(self.calibration, _OF_CALIBRATION[kind], None)
        if kind == "diffusion":
            return (
                self.posterior if isinstance(self.posterior, DiffusionPosterior) else None
            )
        return getattr(self, kind)

    @property
    def dim_theta(self) -> int:
        """Number of parameters."""
        return self.prior.event_shape[0]

    @property
    def dim_x(self) -> int | None:
        """Width of an observation; None if unknown."""
        return next(iter(self._widths().values()), None)

    def simulate(self, theta: Tensor, *, seed: int | None = None) -> Tensor:
        """Run the simulator at theta ``(n, dim_theta)``; gives ``(n, dim_x)``."""
        return simulate(self.take("simulator"), theta, seed=seed, dim_x=self.dim_x)

    def draw_prior(self, num: int, *, seed: int | None = None) -> Simulations:
        """Draw theta from the prior and simulate there."""
        theta = sample_prior(self.prior, num, seed=derive(seed, "prior"))
        return Simulations(theta, self.simulate(theta, seed=derive(seed, "simulator")))

    def _widths(self) -> dict[str, int]:
        """Return the width of an observation by each part that has one."""
        widths: dict[str, int] = {}
        if self.simulations is not None:
            widths["simulations.x"] = self.simulations.x.shape[1]
        if self.calibration is not None:
            widths["calibration.x_obs"] = self.calibration.x_obs.shape[1]
        if self.unlabelled is not None:
            widths["unlabelled"] = self.unlabelled.shape[1]
        if getattr(self.posterior, "dim_x", None) is not None:
            widths["posterior"] = self.posterior.dim_x  # type: ignore[union-attr]
        return widths

    def _check_widths(self) -> None:
        widths = self._widths()
        if len(set(widths.values())) > 1:
            parts = ", ".join(f"{name}: {width}" for name, width in widths.items())
            raise ValueError(f"all observations must have the same columns, got {parts}")

    def _check_theta(self) -> None:
        for name in ("simulations", "calibration"):
            theta = getattr(getattr(self, name), "theta", None)
            if theta is None:
                continue
            if theta.shape[1] != self.dim_theta:
                raise ValueError(
                    f"{name}.theta must have {self.dim_theta} columns, like the prior, "
                    f"got {theta.shape[1]}"
                )
            check_theta(self.prior, theta, f"{name}.theta")

    def _check_posterior(self) -> None:
        posterior: Any = self.posterior
        if posterior is None:
            return
        if hasattr(posterior, "sample_batched"):
            raise ValueError(
                f"posterior is a {type(posterior).__name__}, which speaks sbi's own "
                "interface; wrap it with from_sbi(posterior)"
            )
        sample = getattr(posterior, "sample", None)
        if not callable(sample) or "seed" not in inspect.signature(sample).parameters:
            raise ValueError(
                "posterior must offer sample(num_samples, x, seed=seed), got a "
                f"{type(posterior).__name__}; see from_sbi, from_zuko and from_callable"
            )
        trained_with = getattr(posterior, "prior", None)
        if trained_with is None:
            return
        with seeded(0, getattr(posterior, "device", None) or "cpu"):
            draws = [prior.sample((100,)) for prior in (self.prior, trained_with)]
        if not (
            within_support(trained_with, draws[0].to(draws[1])).all()
            and within_support(self.prior, draws[1].to(draws[0])).all()
        ):
            raise ValueError(
                "prior must be the one that the posterior was trained with, but their "
                "supports differ"
            )

    def __repr__(self) -> str:
        given = [f.name for f in fields(self) if getattr(self, f.name) is not None]
        return f"Materials({', '.join(given)})"


def _same_length(first: int, second: int, first_name: str, second_name: str) -> None:
    if first != second:
        raise ValueError(
            f"{first_name} and {second_name} must be paired row by row, got {first} and "
            f"{second} rows"
        )


def _set(frozen: Any, **values: Any) -> None:
    """Store checked values in a frozen dataclass."""
    for name, value in values.items():
        object.__setattr__(frozen, name, value)
