"""RoPE made simple: transport between observations, pulled back to a new one.

The forms that the MA-SBI paper runs beside RoPE itself. No embedding, no mixture: real
observations are matched with simulations in the space of x, each match is a shift, and a
new observation is moved by the mean shift of its neighbours. The paper calls for true
parameters, at which simulations can be run; its sketch of the convergence averages
departures, "delta_j over the k=5 nearest calibration points in y-space", which it defines
by the simulation "at the same inputs". Here are both readings, and the sketch without any
transport.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal, get_args

import torch
from scipy.optimize import linear_sum_assignment
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor
from torch import Tensor

from ma_sbi.context import Entries
from ma_sbi.protocols import Corrections
from ma_sbi.randomness import derive
from ma_sbi.validation import as_count
from ma_sbi_bench.methods.materials import Materials, Need
from ma_sbi_bench.methods.method import CorrectingMethod
from ma_sbi_bench.methods.transport import semi_balanced_plan, squared_cost

__all__ = ["PairedDepartures", "PullBack", "RoPEEMD", "RoPESinkhorn"]

Matched = Literal["fresh", "aligned"]
"""Simulations that are matched: run anew at theta*, or those of the calibration pairs."""


class PullBack(CorrectingMethod):
    r"""The posterior at x less the shift of its neighbours in the calibration set.

    .. math::
        \delta_j = x_{\mathrm{obs},j} - T(x_{\mathrm{obs},j}), \qquad
        \tilde q(\theta \mid x) = \hat q\Big(\theta \,\Big|\,
        x - \tfrac1k \sum_{j \in \mathrm{NN}_k(x)} \delta_j\Big)

    T is a transport from the calibration observations to simulations at their inputs;
    subclasses choose it. Distances are those of raw x: a column with large units dominates.

    Args:
        num_neighbours: Calibration observations averaged over; five in the paper.
        weights: ``"uniform"``, as the paper says, or ``"distance"``, by inverse distance.
        matched: Simulations that observations are moved onto: ``"fresh"`` ones, run at
            their theta*, or ``"aligned"``, those of the calibration pairs, which share the
            noise of the observations; then no theta* is needed.
    """

    reference = "MA-SBI, app. on RoPE; after Wehenkel et al. 2025 (arXiv 2405.08719)"

    neighbours_: KNeighborsRegressor

    def __init__(
        self,
        num_neighbours: int = 5,
        weights: Literal["uniform", "distance"] = "uniform",
        matched: Matched = "fresh",
    ) -> None:
        self.num_neighbours = num_neighbours
        self.weights = weights
        self.matched = matched

    @property
    def needs(self) -> frozenset[Need]:  # type: ignore[override]
        """Pairs, or what they are simulated from."""
        known: frozenset[Need] = frozenset({"posterior"})
        fresh: frozenset[Need] = frozenset({"simulator", "theta*"})
        pairs: frozenset[Need] = frozenset({"pairs"})
        return known | (pairs if self.matched == "aligned" else fresh)

    @abstractmethod
    def _transport(self, x_obs: Tensor, x_sim: Tensor) -> Tensor:
        """Return T(x_obs), shape ``(n, dim_x)``; x_sim is in the same order as x_obs."""

    def _fit(self, materials: Materials, seed: int | None) -> None:
        super()._fit(materials, seed)
        x_obs = materials.take("x_obs")
        if as_count(self.num_neighbours, "num_neighbours") > len(x_obs):
            raise ValueError(
                f"num_neighbours must be at most the number of calibration observations, "
                f"{len(x_obs)}, got {self.num_neighbours}"
            )
        if self.weights not in ("uniform", "distance"):
            raise ValueError(
                f"weights must be 'uniform' or 'distance', got {self.weights!r}"
            )
        if self.matched not in get_args(Matched):
            raise ValueError(f"matched must be 'fresh' or 'aligned', got {self.matched!r}")
        if self.matched == "aligned":
            x_sim = materials.take("pairs")
        else:
            theta = materials.take("theta*")
            x_sim = materials.simulate(theta, seed=derive(seed, "simulations"))
        x_obs, x_sim = x_obs.double().cpu(), x_sim.double().cpu()
        self.neighbours_ = self._neighbours(x_obs, self._transport(x_obs, x_sim))

    def _neighbours(self, x_obs: Tensor, transported: Tensor) -> KNeighborsRegressor:
        # As many as there are, in a fold of very few.
        num = min(self.num_neighbours, len(x_obs))
        regressor = KNeighborsRegressor(num, weights=self.weights)
        return regressor.fit(x_obs.numpy(), (x_obs - transported).numpy())

    def _corrections(
        self, x: Tensor, context: Entries | None, seed: int | None
    ) -> Corrections:
        return Corrections.certain(x - _shift(self.neighbours_, x))


class RoPEEMD(PullBack):
    """The pull-back with one simulation per observation: a least-cost assignment.

    The cost is the squared distance, so that a shift common to all observations does not
    change who is assigned to whom. It does not use which simulation belongs to which
    observation; where aligned ones lie apart, as on SLCP, it finds nearly all by itself.

    Args:
        num_neighbours: Calibration observations averaged over; five in the paper.
        weights: ``"uniform"``, as the paper says, or ``"distance"``, by inverse distance.
        matched: ``"fresh"`` simulations at theta*, or the ``"aligned"`` ones of the pairs.
    """

    def _transport(self, x_obs: Tensor, x_sim: Tensor) -> Tensor:
        _, assigned = linear_sum_assignment(squared_cost(x_obs, x_sim).numpy())
        return x_sim[torch.as_tensor(assigned)]


class PairedDepartures(PullBack):
    """The pull-back without a transport: every observation keeps its own simulation.

    What the paper's sketch averages, taken by the letter: the departures of the calibration
    pairs, from which MA-SBI learns as well. It reads x in place of a context.

    Args:
        num_neighbours: Calibration observations averaged over; five in the paper.
        weights: ``"uniform"``, as the paper says, or ``"distance"``, by inverse distance.
    """

    reference = "MA-SBI, sketch of the convergence to RoPE"

    def __init__(
        self,
        num_neighbours: int = 5,
        weights: Literal["uniform", "distance"] = "uniform",
    ) -> None:
        super().__init__(num_neighbours, weights, "aligned")

    def _transport(self, x_obs: Tensor, x_sim: Tensor) -> Tensor:
        return x_sim


class RoPESinkhorn(PullBack):
    r"""The pull-back with a mean over simulations, weighted by an entropic plan.

    .. math:: T(x_{\mathrm{obs},i}) = \sum_j P_{ij} x_{\mathrm{sim},j} \Big/ \sum_j P_{ij}

    The larger epsilon, the more every observation is moved to the mean of all
    simulations. If ``"tuned"``, the epsilon of the grid is taken that does best on
    held-out calibration rows: in five folds, the energy distance between corrected
    observations and the simulations at their parameters, two samples that should have
    one distribution. (The squared distance from each to its own simulation, whose noise
    is another, is least for corrections that are too narrow.)

    Args:
        epsilon: Entropic regularisation relative to the median squared distance, or
            ``"tuned"``.
        num_neighbours: Calibration observations averaged over; five in the paper.
        weights: ``"uniform"``, as the paper says, or ``"distance"``, by inverse distance.
        grid: Values of epsilon tried.
        matched: ``"fresh"`` simulations at theta*, or the ``"aligned"`` ones of the pairs.

    Attributes:
        epsilon_: The epsilon in use.
        errors_: Score of each epsilon of the grid, if it was tuned.
    """

    epsilon_: float
    errors_: dict[float, float]

    def __init__(
        self,
        epsilon: float | Literal["tuned"] = "tuned",
        num_neighbours: int = 5,
        weights: Literal["uniform", "distance"] = "uniform",
        grid: Sequence[float] = (0.01, 0.03, 0.1, 0.3, 1.0),
        matched: Matched = "fresh",
    ) -> None:
        super().__init__(num_neighbours, weights, matched)
        self.epsilon = epsilon
        self.grid = grid

    def _transport(self, x_obs: Tensor, x_sim: Tensor) -> Tensor:
        candidates = self.grid if self.epsilon == "tuned" else [self.epsilon]
        if not candidates or not all(
            isinstance(value, (int, float)) and value > 0 for value in candidates
        ):
            raise ValueError(
                f"epsilon must be 'tuned', with a grid of positive numbers, or positive, "
                f"got {self.epsilon!r} and {self.grid!r}"
            )
        if self.epsilon == "tuned":
            self.errors_ = {value: self._error(x_obs, x_sim, value) for value in self.grid}
            self.epsilon_ = min(self.errors_, key=self.errors_.__getitem__)
        else:
            self.epsilon_ = self.epsilon
        return _barycentric(x_obs, x_sim, self.epsilon_)

    def _error(self, x_obs: Tensor, x_sim: Tensor, epsilon: float) -> float:
        """Return the energy distance from held-out corrections to simulations."""
        if len(x_obs) < 5:
            raise ValueError(
                f"tuning epsilon needs at least 5 calibration pairs, got {len(x_obs)}"
            )
        total = 0.0
        for kept, held_out in KFold(5, shuffle=True, random_state=0).split(x_obs):
            transported = _barycentric(x_obs[kept], x_sim[kept], epsilon)
            shift = _shift(self._neighbours(x_obs[kept], transported), x_obs[held_out])
            total += _energy_distance(x_obs[held_out] - shift, x_sim[held_out])
        return total / 5


def _energy_distance(x: Tensor, y: Tensor) -> float:
    """Compare two samples of equal size, as :func:`scipy.stats.energy_distance` in 1-d."""
    within = (torch.cdist(x, x) + torch.cdist(y, y)).mean()
    return (2 * torch.cdist(x, y).mean() - within).item()


def _barycentric(x_obs: Tensor, x_sim: Tensor, epsilon: float) -> Tensor:
    cost = squared_cost(x_obs, x_sim)
    unit = cost.median().item()
    if unit == 0:
        raise ValueError(
            "epsilon is relative to the median squared distance between observations and "
            "simulations, and that is zero: most of them are equal"
        )
    # Barycentres need no more: with 500 pairs they are then off by 0.001 of the spread.
    plan = semi_balanced_plan(cost, epsilon * unit, tolerance=1e-3)
    return plan @ x_sim / plan.sum(dim=1, keepdim=True)


def _shift(neighbours: KNeighborsRegressor, x: Tensor) -> Tensor:
    return torch.as_tensor(neighbours.predict(x.double().cpu().numpy())).to(x)
