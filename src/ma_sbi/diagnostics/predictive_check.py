r"""Whether the posterior explains the observation, where its true parameters are unknown.

The usual posterior-predictive p-value uses an observation twice and is not uniform: it
rejects too rarely. Here it is calibrated. If :math:`\theta' \sim q(\theta \mid x)` is an
exact draw and all replicates :math:`x' \sim p(x \mid \theta')` come from this one, then x
and they are independent given :math:`\theta'` and can be exchanged (Besag & Clifford 1989).
Any measure of how badly the posterior explains x must have the same distribution at x',
with the posterior of x'; with an amortized posterior that costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from scipy import stats
from torch import Tensor

from ma_sbi.diagnostics.diagnostic import Diagnostic
from ma_sbi.diagnostics.thresholds import THRESHOLDS
from ma_sbi.labels import in_columns, match_rows
from ma_sbi.posterior import CorrectedPosterior
from ma_sbi.protocols import AmortizedPosterior, ArrayLike, Context
from ma_sbi.randomness import derive, generator
from ma_sbi.scaling import column_scale
from ma_sbi.simulation import simulate
from ma_sbi.validation import as_count, as_matrix

if TYPE_CHECKING:
    from ma_sbi.diagnostics.subject import Subject

__all__ = ["DIAGNOSTIC", "PredictiveCheck", "predictive_check"]

# With fewer rows, each is compared with many replicates instead of one.
FEW_ROWS = 20
MANY_REPLICATES = 200


@dataclass(frozen=True)
class PredictiveCheck:
    """Outcome of :func:`predictive_check`.

    Attributes:
        inside: Share of observed statistics inside their predictive interval.
        inside_expected: The same share for replicates; more than ``level``, because an
            observation is close to what its own posterior predicts.
        inside_by_column: ``inside`` of each column of x, shape ``(dim_x,)``.
        level: Level of the interval.
        p_value: Calibrated p-value of the observations being explained worse than
            replicates are.
        num_rows: Number of observations that were checked.
    """

    inside: float
    inside_expected: float
    inside_by_column: Tensor
    level: float
    p_value: float
    num_rows: int

    def __str__(self) -> str:
        verdict = "explains" if self.p_value >= THRESHOLDS.unusual else "does not explain"
        return (
            f"the posterior {verdict} the observations (p = {self.p_value:.3g}): "
            f"{self.inside:.0%} of statistics inside their {self.level:.0%} predictive "
            f"interval, {self.inside_expected:.0%} expected ({self.num_rows} rows)"
        )


def predictive_check(
    posterior: AmortizedPosterior | CorrectedPosterior,
    simulator: Callable[..., Any],
    x_obs: ArrayLike,
    context: Context | None = None,
    *,
    level: float = 0.9,
    num_samples: int = 200,
    max_rows: int = 500,
    seed: int | None = None,
) -> PredictiveCheck:
    """Compare observations with what the posterior predicts of them.

    A corrected posterior is checked at the corrected observation, one candidate of it
    drawn at random: that is what the simulator should explain. A posterior may explain
    everything and be wrong, if another theta looks like the departure.

    Args:
        posterior: The trained posterior, or a ``CorrectedPosterior``.
        simulator: theta ``(n, dim_theta)`` to ``(n, dim_x)``; called with ``seed=`` if it
            takes one, else with the global generators seeded.
        x_obs: Observations, shape ``(n, dim_x)``; one is enough.
        context: One entry per observation, for a corrected posterior.
        level: Level of the predictive intervals.
        num_samples: Predictions per observation.
        max_rows: Most observations to check, chosen at random; each costs twice
            ``num_samples`` simulations.
        seed: Makes the result repeatable.

    Raises:
        ValueError: If the simulator returns another shape or values that are not finite.
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1, got {level!r}")
    if as_count(num_samples, "num_samples") < 20:
        raise ValueError(f"num_samples must be at least 20, got {num_samples}")
    dim_x = getattr(posterior, "dim_x", None)
    x_obs = in_columns(getattr(posterior, "columns_", None), x_obs, dim_x)
    x_obs, context = match_rows(x_obs=x_obs, context=context)
    x = as_matrix(x_obs, "x_obs", column=dim_x == 1)
    rng = generator(derive(seed, "rows"))
    if isinstance(posterior, CorrectedPosterior):
        x = posterior.corrections(x, context).draw(rng)
        base: AmortizedPosterior = posterior.posterior
    else:
        base = posterior
    rows = torch.randperm(len(x), generator=rng)[: as_count(max_rows, "max_rows")]
    shown = x[rows.to(x.device)]
    predict = _Predictor(base, simulator, num_samples, shown.shape[1])
    replicates = MANY_REPLICATES if len(shown) < FEW_ROWS else 1
    observed = predict(shown, derive(seed, "observed"))
    fresh = predict.replicate(shown, replicates, derive(seed, "replicates")).flatten(0, 1)
    replicated = predict(fresh, derive(seed, "replicated"))
    inside = _inside(shown, observed, level)
    return PredictiveCheck(
        inside=inside.mean().item(),
        inside_expected=_inside(fresh, replicated, level).mean().item(),
        inside_by_column=inside.mean(dim=0),
        level=level,
        p_value=_p_value(
            _misfit(shown, observed), _misfit(fresh, replicated).reshape(replicates, -1)
        ),
        num_rows=len(shown),
    )


@dataclass(frozen=True)
class _Predictor:
    """Draws theta given x, then x given theta."""

    posterior: AmortizedPosterior
    simulator: Callable[..., Any]
    num_samples: int
    dim_x: int

    def __call__(self, x: Tensor, seed: int | None) -> Tensor:
        """Predict x ``(n, dim_x)``, shape ``(num_samples, n, dim_x)``."""
        theta = self.posterior.sample(self.num_samples, x, seed=derive(seed, "theta"))
        return self._simulate(theta, derive(seed, "noise")).to(x)

    def replicate(self, x: Tensor, num: int, seed: int | None) -> Tensor:
        """Simulate from one theta for each x, shape ``(num, n, dim_x)``."""
        theta = self.posterior.sample(1, x, seed=derive(seed, "theta"))
        return self._simulate(theta.repeat(num, 1, 1), derive(seed, "noise")).to(x)

    def _simulate(self, theta: Tensor, seed: int | None) -> Tensor:
        simulated = simulate(
            self.simulator, theta.flatten(0, 1), seed=seed, dim_x=self.dim_x
        )
        return simulated.unflatten(0, theta.shape[:2])


def _inside(x: Tensor, predicted: Tensor, level: float) -> Tensor:
    """Tell which statistics lie inside, shape ``(n, dim_x)``.

    The interval runs between order statistics, so that a new prediction lies inside as
    often as the level requires, whatever their number.
    """
    below = (predicted < x).sum(dim=0) + (predicted == x).sum(dim=0) / 2
    position = (below + 0.5) / (len(predicted) + 1)
    return ((2 * position - 1).abs() <= level).double()


def _misfit(x: Tensor, predicted: Tensor) -> Tensor:
    """Measure the distance from the predictions, in their own units, shape ``(n,)``."""
    return (
        ((x - predicted.mean(dim=0)) / column_scale(predicted)).square().sum(dim=1).double()
    )


def _p_value(observed: Tensor, replicated: Tensor) -> float:
    """Compare misfits ``(n,)`` with those of replicates ``(num_replicates, n)``."""
    if len(replicated) == 1:
        difference = (observed - replicated[0]).cpu().numpy()
        if not difference.any():
            return 1.0
        return float(stats.wilcoxon(difference, alternative="greater").pvalue)
    as_bad = (replicated.log().sum(dim=1) >= observed.log().sum()).sum().item()
    return (1 + as_bad) / (1 + len(replicated))


def _run(subject: Subject) -> PredictiveCheck:
    assert subject.simulator is not None
    _, rows, corrected = subject.some(subject.budget.gap, "prediction")
    return predictive_check(
        subject.quick_posterior,
        subject.simulator,
        (rows.x_obs if corrected is None else corrected).float(),
        seed=derive(subject.seed, "prediction"),
    )


DIAGNOSTIC = Diagnostic(
    "predictive_check",
    "Does the posterior predict the observations?",
    _run,
    needs=("posterior", "simulator"),
)
