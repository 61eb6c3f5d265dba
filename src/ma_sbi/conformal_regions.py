r"""Regions that contain the true parameters with a stated probability, for any method.

Conformal prediction (Vovk et al. 2005; Tibshirani et al. 2019 for weights; Hore and Barber
2025 for local ones) corrects the coverage of a region, not the location of the posterior:
a biased posterior gets a region that is valid but larger than necessary.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from ma_sbi.context import Entries, as_entries, distinct, match
from ma_sbi.labels import in_columns, match_columns, match_rows
from ma_sbi.protocols import ArrayLike, Context, has_density
from ma_sbi.randomness import derive, generator
from ma_sbi.scaling import column_scale
from ma_sbi.validation import as_count, as_matrix

__all__ = ["ConformalRegions", "conformal"]

Variant = Literal["split", "per_regime", "weighted", "localized"]
Weight = Callable[[Tensor], Any]
Score = Callable[[Tensor], Tensor]
# Weights of the calibration rows (B, n) and of the new row (B,), for a batch of B.
Weigh = Callable[[Tensor, Any], tuple[Tensor, Tensor]]

MAX_ROUNDS = 100
# Pairs, in effect, that are near an observation, in multiples of those that a cut needs.
NEAR = 10


def conformal(
    method: Any,
    theta: ArrayLike,
    x_obs: ArrayLike,
    context: Context | None = None,
    *,
    alpha: float = 0.1,
    by: Variant = "split",
    weight: Weight | None = None,
    x_test: ArrayLike | None = None,
    bandwidth: float | None = None,
    num_draws: int = 500,
    seed: int = 0,
) -> ConformalRegions:
    r"""Calibrate regions of a posterior on real pairs that it was not fitted to.

    .. math:: C(x, z) = \{\theta : s(\theta, x, z) \le c\}, \qquad
        P(\theta^* \in C) \ge 1 - \alpha

    where s is :math:`-\log q(\theta \mid x, z)` or, for a method that can only be
    sampled, its estimate from the distance to the k-th nearest draw. The cut c is a
    quantile of the scores of the pairs, with a point at infinity for the new one:

    - ``"split"``: the :math:`\lceil (n+1)(1-\alpha) \rceil`-th smallest score. Covers on
      average over observations like the calibration's.
    - ``"per_regime"``: the same among pairs with the same context. Covers in each
      regime; a context that is new, or has fewer than :math:`1/\alpha - 1` pairs, gets
      an infinite cut, which is the whole space.
    - ``"weighted"``: scores weighted by :math:`w(x) = p_{test}(x) / p_{cal}(x)`. Covers
      for test observations whose distribution differs, if the weights are right.
    - ``"localized"``: scores weighted by how near their x is to a point drawn around the
      new one. Covers on average (exactly, but for what scale and bandwidth owe to the
      pairs), and nearly so wherever x lies, as far as there are pairs near it.

    The pairs must be real and must not have been used to fit the method: simulated pairs
    guarantee nothing for real observations, and pairs seen in training have scores that
    are too small. For a method whose rows depend on each other (``rows_independent`` is
    False), the guarantee holds only approximately.

    Args:
        method: A fitted method, or any posterior with ``sample(num_samples, x)``.
        theta: True parameters of held-out observations, shape ``(n, dim_theta)``.
        x_obs: The observations, shape ``(n, dim_x)``.
        context: One entry per observation, if the method reads it or ``by`` does.
        alpha: Share of true parameters that may lie outside.
        by: Which cut.
        weight: For ``"weighted"``: gives w(x), up to a constant, for x ``(n, dim_x)``.
        x_test: For ``"weighted"``, instead of ``weight``: observations like those to
            come, shape ``(m, dim_x)``; the weights are the odds of a logistic classifier.
        bandwidth: For ``"localized"``: how far near is, in standard deviations of x; if
            None, so that an observation has about ``10 (1 / alpha - 1)`` pairs near it.
        num_draws: Draws per observation behind a score from draws.
        seed: Fixes these draws and points, and with them the regions.

    Raises:
        ValueError: If there are too few pairs for any finite region.
    """
    if by not in get_args(Variant):
        raise ValueError(f"by must be one of {', '.join(get_args(Variant))}, got {by!r}")
    columns = getattr(method, "columns_", None)
    x_obs, theta, context = match_rows(
        x_obs=in_columns(columns, x_obs, 1), theta=theta, context=context
    )
    theta = as_matrix(theta, "theta", column=True)
    x_test = match_columns(x_obs, x_test, "x_test")
    x_obs = as_matrix(x_obs, "x_obs", column=True)
    if len(theta) != len(x_obs):
        raise ValueError(
            f"theta and x_obs must be paired row by row, got {len(theta)} and "
            f"{len(x_obs)} rows"
        )
    entries = None if context is None else as_entries(context, num_rows=len(x_obs))
    _check_level(alpha, len(theta))
    if bandwidth is not None and not 0 < bandwidth < math.inf:
        raise ValueError(f"bandwidth must be a positive number, got {bandwidth}")
    weigh = (
        _near(x_obs, bandwidth, NEAR * (1 / alpha - 1), seed)
        if by == "localized"
        else _weigh(by, x_obs, entries, weight, x_test)
    )
    if as_count(num_draws, "num_draws") < 2:
        raise ValueError("num_draws must be at least 2, to have a standard deviation")
    scored = _Scored(method, num_draws, seed)
    if scored.reads_context and entries is None:
        raise ValueError(
            "the method reads a context: pass context, one entry per pair, None where one "
            "is missing"
        )
    scores = scored.at(x_obs, entries)(theta[None])[0].double()
    return ConformalRegions(scored, weigh, scores, alpha, x_obs.shape[1])


class ConformalRegions:
    """A region of theta for every observation; made by :func:`conformal`.

    Attributes:
        scores: Scores of the calibration pairs, shape ``(n,)``.
        alpha: Share of true parameters that may lie outside.
        dim_x: Number of columns of x.
    """

    def __init__(
        self, scored: _Scored, weigh: Weigh, scores: Tensor, alpha: float, dim_x: int
    ) -> None:
        self.scores = scores
        self.alpha = alpha
        self.dim_x = dim_x
        self._scored = scored
        self._weigh = weigh

    def at(self, alpha: float) -> ConformalRegions:
        """Return the regions of another level from the same scores."""
        _check_level(alpha, len(self.scores))
        return ConformalRegions(self._scored, self._weigh, self.scores, alpha, self.dim_x)

    def cut(self, x: ArrayLike, context: Context | None = None) -> Tensor:
        """Return the largest score inside, shape ``(B,)``; infinite for no bound.

        Args:
            x: Observations, shape ``(B, dim_x)``.
            context: One entry per observation, or one for all.
        """
        x, entries = self._check(x, context)
        return _quantile(self.scores, *self._weigh(x, entries), 1 - self.alpha)

    def contains(
        self, theta: ArrayLike, x: ArrayLike, context: Context | None = None
    ) -> Tensor:
        """Tell which theta lie in the region of their observation.

        Args:
            theta: Parameters, shape ``(n, B, dim_theta)``.
            x: Observations, shape ``(B, dim_x)``.
            context: One entry per observation, or one for all.

        Returns:
            Booleans, shape ``(n, B)``.
        """
        theta = torch.as_tensor(theta, dtype=torch.float32)
        return self._scored.at(*self._check(x, context))(theta) <= self.cut(x, context)

    def sample(
        self,
        num_samples: int,
        x: ArrayLike,
        context: Context | None = None,
        *,
        seed: int | None = None,
    ) -> Tensor:
        """Draw from the method within the region, by rejection.

        Returns:
            Draws of shape ``(num_samples, B, dim_theta)``.

        Raises:
            ValueError: If too few draws of the method lie inside.
        """
        num_samples = as_count(num_samples, "num_samples")
        x, entries = self._check(x, context)
        score, cut = self._scored.at(x, entries), self.cut(x, context)
        kept: list[list[Tensor]] = [[] for _ in x]
        count = torch.zeros(len(x), dtype=torch.long)
        for round_ in range(MAX_ROUNDS):
            draws = self._scored.draw(
                num_samples, x, entries, derive(seed, f"round {round_}")
            )
            inside = score(draws) <= cut
            for row, part in enumerate(kept):
                part.append(draws[inside[:, row], row])
            count += inside.sum(dim=0)
            if (count >= num_samples).all():
                return torch.stack([torch.cat(p)[:num_samples] for p in kept], dim=1)
        worst = int(count.argmin())
        raise ValueError(
            f"of {MAX_ROUNDS * num_samples} draws of the method only {int(count[worst])} "
            f"lie in the region of observation {worst}: too few for {num_samples}"
        )

    def _check(
        self, x: ArrayLike, context: Context | None
    ) -> tuple[Tensor, Entries | None]:
        columns = getattr(self._scored.method, "columns_", None)
        x, context = match_rows(x=in_columns(columns, x, self.dim_x), context=context)
        x = as_matrix(x, "x", dim=self.dim_x)
        return x, None if context is None else as_entries(context, num_rows=len(x))


class _Scored:
    """The score of theta under a posterior: negative log density, or an estimate."""

    def __init__(self, method: Any, num_draws: int, seed: int) -> None:
        if not callable(getattr(method, "sample", None)):
            raise ValueError(
                f"method must offer sample(num_samples, x), got a {type(method).__name__}: "
                "pass a posterior, or CorrectedPosterior(posterior, corrector)"
            )
        self.method = method
        self.num_draws = num_draws
        self.seed = seed
        self.reads_context = "context" in inspect.signature(method.sample).parameters

    def draw(
        self, num_samples: int, x: Tensor, context: Entries | None, seed: int | None
    ) -> Tensor:
        known = (context,) if self.reads_context else ()
        return self.method.sample(num_samples, x, *known, seed=seed)

    def at(self, x: Tensor, context: Entries | None) -> Score:
        """Return the score of theta ``(n, B, dim_theta)`` at these observations."""
        if has_density(self.method):
            known = (context,) if self.reads_context else ()
            return lambda theta: -self.method.log_prob(theta, x, *known).cpu()
        draws = self.draw(self.num_draws, x, context, derive(self.seed, "score"))
        return lambda theta: _from_draws(theta.to(draws), draws).cpu()


def _check_level(alpha: float, num_pairs: int) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}: 0.1 for 90 %")
    needed = math.ceil(1 / alpha - 1 - 1e-9)
    if num_pairs < needed:
        raise ValueError(
            f"alpha={alpha} needs at least {needed} pairs, 1 / alpha - 1, for a finite "
            f"region, got {num_pairs}"
        )


def _from_draws(theta: Tensor, draws: Tensor) -> Tensor:
    r"""Estimate the negative log density from the k-th nearest draw, up to a constant.

    .. math:: s(\theta) = d \log r_k(\theta) + \sum_j \log \sigma_j,
        \qquad k = \sqrt{\text{number of draws}}

    with distances in units of the draws' deviations :math:`\sigma_j`.

    Args:
        theta: Shape ``(n, B, dim_theta)``.
        draws: Shape ``(num_draws, B, dim_theta)``.

    Returns:
        Shape ``(n, B)``.
    """
    spread = draws.std(dim=0).clamp(min=1e-12)
    nearest = max(1, round(math.sqrt(len(draws))))
    columns = [  # one observation after the other, to bound memory
        torch.cdist(theta[:, row] / spread[row], draws[:, row] / spread[row])
        .kthvalue(nearest, dim=1)
        .values
        for row in range(draws.shape[1])
    ]
    radius = torch.stack(columns, dim=1).clamp(min=1e-30)
    return theta.shape[-1] * radius.log() + spread.log().sum(dim=1)


def _quantile(scores: Tensor, weight: Tensor, weight_new: Tensor, level: float) -> Tensor:
    """Take the quantile of weighted scores and a point at infinity; gives ``(B,)``.

    Args:
        scores: Shape ``(n,)``.
        weight: Of each score, for each observation, shape ``(B, n)``.
        weight_new: Of the point at infinity, shape ``(B,)``.
        level: Share of the total weight.
    """
    ordered, order = scores.sort()
    mass = weight.double()[:, order].cumsum(dim=1)
    wanted = level * (weight.double().sum(dim=1) + weight_new.double())
    # Rounding must not push the wanted mass past a score that reaches it exactly.
    reached = torch.searchsorted(mass, (wanted * (1 - 1e-12))[:, None])[:, 0]
    infinite = torch.full((1,), torch.inf, dtype=ordered.dtype)
    return torch.cat([ordered, infinite])[reached]


def _weigh(
    by: Variant,
    x_obs: Tensor,
    context: Entries | None,
    weight: Weight | None,
    x_test: ArrayLike | None,
) -> Weigh:
    """Choose the weights of the calibration pairs for a new observation."""
    num_rows = len(x_obs)
    if by == "split":
        return lambda x, _: (torch.ones(len(x), num_rows), torch.ones(len(x)))
    if by == "per_regime":
        if context is None:
            raise ValueError("per_regime needs the context of each pair")
        return lambda x, new: (_same_regime(context, new), torch.ones(len(x)))
    if (weight is None) == (x_test is None):
        raise ValueError("weighted needs either weight, a function of x, or x_test")
    if weight is None:
        weight = _odds(x_obs, as_matrix(x_test, "x_test", dim=x_obs.shape[1], column=True))
    known = _positive(weight, x_obs)
    return lambda x, _: (known.expand(len(x), -1), _positive(weight, x))


def _near(x_obs: Tensor, bandwidth: float | None, num_near: float, seed: int) -> Weigh:
    """Weigh pairs by a Gaussian kernel around a point that is drawn around x.

    Around x itself the coverage would not be exact: to the pairs, x would be no other.
    """
    scale, x_obs = column_scale(x_obs).cpu().double(), x_obs.cpu().double()
    if bandwidth is None:
        bandwidth = _bandwidth(x_obs / scale, num_near)
    width = bandwidth * scale

    def weigh(x: Tensor, _: Any) -> tuple[Tensor, Tensor]:
        x = x.cpu().double()
        noise = torch.randn(x.shape, generator=generator(derive(seed, "near"))).double()
        around = x + width * noise
        distance = torch.cdist(around / width, x_obs / width).square() / 2
        own = noise.square().sum(dim=1) / 2
        # Only ratios count: in many columns all weights would be rounded to zero.
        least = distance.amin(dim=1).minimum(own)
        return (least[:, None] - distance).exp(), (least - own).exp()

    return weigh


def _bandwidth(x: Tensor, num_near: float) -> float:
    """Find the bandwidth at which rows have so many others near them, in effect.

    The effective number is that of equal weights with the same variance of their mean.
    """
    distance = torch.cdist(x[:500], x).square() / 2
    low, high = 1e-3, 1e3
    for _ in range(40):
        middle = math.sqrt(low * high)
        weight = (-distance / middle**2).exp()
        near = (weight.sum(dim=1).square() / weight.square().sum(dim=1)).median()
        low, high = (middle, high) if near < num_near else (low, middle)
    return high


def _same_regime(known: Entries, new: Entries | None) -> Tensor:
    """Mark the pairs with the context of each new observation, shape ``(B, n)``."""
    if new is None:
        raise ValueError("these regions are per regime: pass one context per observation")
    regimes, codes = distinct(known)
    return torch.as_tensor(match(regimes, new)[:, None] == codes).double()


def _odds(x_cal: Tensor, x_test: Tensor) -> Weight:
    """Train a classifier of test observations; its odds are w(x), up to a constant."""
    both = torch.cat([x_cal, x_test]).cpu().numpy()
    is_test = [0] * len(x_cal) + [1] * len(x_test)
    classifier = make_pipeline(StandardScaler(), LogisticRegression()).fit(both, is_test)
    return lambda x: torch.as_tensor(classifier.decision_function(x.cpu().numpy())).exp()


def _positive(weight: Weight, x: Tensor) -> Tensor:
    values = torch.as_tensor(weight(x), dtype=torch.float64)
    if values.shape != (len(x),) or not (values.isfinite() & (values >= 0)).all():
        raise ValueError("weight must give one finite, non-negative number per observation")
    return values
