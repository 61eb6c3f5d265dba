"""The stochastic variant: all departures seen under a context, instead of one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ma_sbi.correctors.assignment import AT_ONCE
from ma_sbi.correctors.composed import FITTED, Axes, FittableCorrector
from ma_sbi.correctors.departures import Shift
from ma_sbi.correctors.fitting import Hypotheses, Triples, need_shift
from ma_sbi.correctors.inference import Mixture
from ma_sbi.correctors.preflight import ROUNDING, Preflight
from ma_sbi.protocols import Encoder
from ma_sbi.randomness import generator
from ma_sbi.scaling import column_scale, median_distance
from ma_sbi.storing.forms import stored
from ma_sbi.validation import as_count

__all__ = [
    "BootstrapCorrector",
    "ResidualFit",
    "ResidualPools",
]

# Rows that decide the width: their cost is quadratic.
MOST_SCORED = 500
# Smoothings of a pool, in units of the residuals' spread, under which widths are compared.
SMOOTHINGS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0)
# Contexts this close, in median distances, are the same: an encoder may round differently
# in another batch, and torch.cdist rounds, too.
SAME = 1e-5
# Standard errors by which a pool must vary more than noise does to show a departure.
CLEAR = 3.0
# Residuals that are compared with each other, to find those that are equal.
MOST_MERGED = 2000


@stored(*FITTED, width="?")
class BootstrapCorrector(FittableCorrector):
    r"""Average the posterior over the departures seen under the same context.

    The paper's stochastic variant, for real data whose departures vary within a regime:

    .. math:: \tilde q(\theta \mid x, z) = \frac{1}{K} \sum_{k=1}^K
        \hat q(\theta \mid x - \delta^{(k)}), \quad
        \delta^{(k)} \sim \mathrm{Uniform}\{\delta_j : z_j = z\}

    with residuals :math:`\delta_j = x_{obs,j} - x_{sim,j}`. Where nothing was simulated at
    the inputs of an observation, pass for :math:`x_{sim,j}` what the posterior predicts of
    it, :math:`E_{\theta \sim \hat q(\theta \mid x_{obs,j})}[\bar f(\theta)]`
    (:func:`~ma_sbi.predictive_mean`). An observation that is itself in the calibration set
    must not draw its own residual: correct such rows through
    :func:`~ma_sbi.cross_fit`.

    Args:
        encoder: Context to vectors; any scikit-learn transformer.
        num_draws: Draws K per context. A pool that is no larger is not drawn from but used
            whole, each residual once, which is exact.
        width: Width of a Gaussian kernel over the encoding, in units of the median
            distance of contexts, by which contexts share their residuals. 0 keeps to
            residuals of exactly this context, the paper's choice; ``inf`` ignores the
            context; ``"auto"`` takes the widest that predicts left-out residuals as well
            as the best does, within a standard error: free text needs it, and an
            uninformative context is then ignored.
    """

    def __init__(
        self,
        encoder: Encoder,
        num_draws: int = 256,
        width: float | Literal["auto"] = 0.0,
    ) -> None:
        self.encoder = encoder
        self.num_draws = num_draws
        self.width = width

    def axes(self) -> Axes:
        """Name the departure, the fit and the inference."""
        return Axes(Shift(), ResidualPools(self.num_draws, self.width), Mixture())

    @property
    def width_(self) -> float:
        """Width in use, in median distances of contexts; ``inf`` ignores the context."""
        self._check_fitted()
        fitted: ResidualFit = self.fitted_  # type: ignore[assignment]
        return fitted.width

    def preflight(self) -> Preflight:
        """Recommend this corrector or a point corrector from the residuals.

        The paper's signal is a residual more than three times as long as the median one
        of its regime. In one or two dimensions plain noise has such residuals as well:
        there, look at ``within``. A context that occurs once does not count.

        Raises:
            ValueError: If no context repeats.
        """
        self._check_fitted()
        fitted: ResidualFit = self.fitted_  # type: ignore[assignment]
        return Preflight.of(fitted.residuals, fitted.codes)


@stored(width="?", widths="?", noise="...?")
@dataclass(frozen=True)
class ResidualPools:
    """The fit of a :class:`BootstrapCorrector`.

    Residuals that are equal but for rounding are one hypothesis.

    Attributes:
        num_draws: Most hypotheses per context.
        width: Kernel width by which contexts share residuals.
        widths: What ``width="auto"`` chooses from.
        noise: Variance of the residuals that is noise which x_obs and x_sim do not share,
            for each column of x or one for all. It is no part of the departure: residuals
            are drawn towards the mean of their pool until the spread of the departure is
            left, and around each is the error of that mean.
        others: How many residuals, of all contexts, a pool has besides its own; so a
            context that is seen rarely does not seem certain.
    """

    paired: ClassVar[Literal[True]] = True

    num_draws: int = 256
    width: float | Literal["auto"] = 0.0
    widths: tuple[float, ...] = (0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, math.inf)
    noise: float | Tensor = 0.0
    others: float = 0.0

    def __post_init__(self) -> None:
        as_count(self.num_draws, "num_draws")
        if self.width != "auto" and not (
            isinstance(self.width, (int, float)) and self.width >= 0
        ):
            raise ValueError(
                f"width must be a number from 0 to inf, or 'auto', got {self.width!r}"
            )

    def fit(self, triples: Triples, *, seed: int | None = None) -> ResidualFit:
        """Keep the residuals; the seed is for drawing from pools above ``num_draws``."""
        need_shift(triples.basis, "ResidualPools")
        rng = generator(0 if seed is None else seed)
        atoms, atom = merge_equal(triples.delta, rounding_of(triples))
        pools = ResidualFit(
            encoding=triples.encoding,
            codes=triples.codes,
            residuals=triples.delta,
            atoms=atoms,
            atom=atom,
            noise=torch.as_tensor(self.noise).to(atoms),
            others=self.others,
            width=0.0 if self.width == "auto" else float(self.width),
            num_draws=self.num_draws,
            seed=int(torch.randint(2**62, (), generator=rng)),
        )
        if self.width != "auto":
            return pools
        if len(triples) == 1:
            return replace(pools, width=math.inf)
        few = torch.randperm(len(triples), generator=rng)[:MOST_SCORED]
        candidates = [replace(pools, width=width) for width in sorted(self.widths)]
        distance = pools.distance(pools.encoding[pools.codes[few]])[:, pools.codes[few]]
        scores = torch.stack([one.predictive_score(few, distance) for one in candidates])
        # The widest that is within one standard error of the best: an uninformative context
        # should have no effect.
        loss = scores[scores.mean(dim=1).argmax()] - scores
        error = loss.std(dim=1) / math.sqrt(len(few))
        close = (loss.mean(dim=1) <= error).nonzero().flatten()
        return candidates[int(close[-1])]


@stored(
    encoding="contexts dim_z?",
    codes="n < contexts",
    residuals="n dim_x",
    atoms="atoms dim_x",
    atom="n < atoms",
    noise="...?",
    width="?",
    num_draws="<1000000",
)
@dataclass(frozen=True)
class ResidualFit:
    """What :class:`ResidualPools` fitted: residuals, and how contexts share them.

    Attributes:
        encoding: Encoded distinct contexts, shape ``(num_distinct, dim_z)``.
        codes: Which of them each residual has, shape ``(n,)``.
        residuals: Shape ``(n, dim_x)``.
        atoms: The distinct residuals, shape ``(num_atoms, dim_x)``.
        atom: Which of them each residual is, shape ``(n,)``.
        noise: Variance that is no departure.
        others: Residuals of all contexts that a pool has besides its own.
        width: Kernel width in median distances of contexts.
        num_draws: Most hypotheses per context.
        seed: Of the draws.
    """

    about_unlike: ClassVar[str] = (
        "what is far draws residuals of all contexts; a larger width (or 'auto') lets "
        "similar contexts share residuals"
    )

    encoding: Tensor
    codes: Tensor
    residuals: Tensor
    atoms: Tensor
    atom: Tensor
    noise: Tensor
    others: float
    width: float
    num_draws: int
    seed: int

    def __call__(self, encoding: Tensor) -> Hypotheses:
        """Map contexts ``(n, dim_z)`` to at most ``num_draws`` hypotheses each."""
        chunk = max(1, 2**22 // len(self.codes))
        drawn = [
            self._draw(weight)
            for part in encoding.split(chunk)
            for weight in self._weights(part)
        ]
        most = max(len(weight) for _, weight in drawn)
        coefficients = self.atoms.new_zeros(most, len(drawn), 1, self.atoms.shape[1])
        log_weight = self.atoms.new_full((most, len(drawn)), -torch.inf)
        for column, (departures, weight) in enumerate(drawn):
            coefficients[: len(weight), column, 0] = departures
            coefficients[len(weight) :, column, 0] = departures[0]
            log_weight[: len(weight), column] = weight.log()
        return Hypotheses(coefficients, log_weight)

    def predictive_score(self, rows: Tensor, distance: Tensor) -> Tensor:
        """Predict each of some residuals from the others, shape ``(num_rows,)``.

        A pool is a set of points; a Gaussian on each, of the width that predicts best, in
        units of the residuals' spread, gives it the log density that is returned.

        Args:
            rows: Which residuals.
            distance: Distances of their contexts from each other.
        """
        points = self.residuals[rows] / column_scale(self.residuals)
        weight = self._kernel(distance).fill_diagonal_(0.0)
        # A context seen once has no pool without itself: it uses all others.
        weight[weight.sum(dim=1) == 0] = 1.0
        weight.fill_diagonal_(0.0)
        log_weight = (weight / weight.sum(dim=1, keepdim=True)).log()
        apart = torch.cdist(points, points).square()
        scores = []
        for smoothing in SMOOTHINGS:
            log_density = log_weight - 0.5 / smoothing**2 * apart
            normaliser = points.shape[1] * math.log(smoothing)
            scores.append(log_density.logsumexp(dim=1) - normaliser)
        return max(scores, key=lambda score: score.mean().item())

    def distance(self, encoding: Tensor) -> Tensor:
        """Measure contexts against those of the calibration set, in median distances.

        A missing context is at no distance from a missing one and infinitely far from
        all others.
        """
        encoding = encoding.to(self.encoding)
        missing, missing_here = (
            values.isnan().any(dim=1) for values in (encoding, self.encoding)
        )
        distance = torch.cdist(encoding.nan_to_num(), self.encoding.nan_to_num())
        distance /= median_distance(self.encoding[:MOST_SCORED])
        return distance.masked_fill_(missing[:, None] != missing_here, math.inf)

    def _kernel(self, distance: Tensor) -> Tensor:
        """Weight contexts by their distance."""
        if self.width == math.inf:
            return torch.ones_like(distance)
        if self.width == 0:
            return (distance < SAME).to(distance)
        return torch.exp(-0.5 * (distance / self.width).square())

    def unlike(self, encoding: Tensor) -> Tensor:
        """Tell which contexts ``(n, dim_z)`` share no residuals with any that was seen."""
        return torch.cat(
            [
                (self._kernel(self.distance(part)) < 1e-12).all(dim=1)
                for part in encoding.split(AT_ONCE)
            ]
        )

    def _weights(self, encoding: Tensor) -> Tensor:
        """Weight every residual under each context, shape ``(n, num_residuals)``."""
        kernel = self._kernel(self.distance(encoding))
        unlike = (kernel < 1e-12).all(dim=1)
        kernel[unlike] = 1.0
        return kernel[:, self.codes] + self.others / len(self.codes)

    def _draw(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Choose departures of one context, with their probabilities."""
        weight = weight / weight.sum()
        shares = weight.new_zeros(len(self.atoms)).index_add_(0, self.atom, weight)
        # Residuals that would practically never be drawn are left out.
        rows = (shares > 1e-6 * shares.max()).nonzero().flatten()
        departures, shares = self.atoms[rows], shares[rows] / shares[rows].sum()
        error = torch.zeros_like(departures[0])
        if self.noise.any():
            departures, error = self._without_noise(departures, shares, weight)
        num, spreads = self.num_draws, bool(error.any())
        if len(rows) <= num and not spreads:
            return departures, shares
        # The same random numbers for every context: what is drawn for a context does not
        # depend on the other contexts of the call.
        rng = generator(self.seed, shares.device)
        times = num // len(rows)
        if times == 0:
            pick = torch.multinomial(shares, num, replacement=True, generator=rng)
            drawn = torch.full_like(shares[pick], 1 / num)
        else:
            pick = torch.arange(len(rows), device=rows.device).repeat(times)
            drawn = shares[pick] / times
        if not spreads:
            return departures[pick], drawn
        around = torch.randn(len(pick), len(error), generator=rng, device=error.device)
        around = around.to(error)
        around -= drawn @ around
        around /= (drawn @ around.square()).sqrt().clamp(min=1e-12)
        return departures[pick] + error * around, drawn

    def _without_noise(
        self, atoms: Tensor, shares: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Draw residuals towards their mean, as far as their spread is noise.

        Returns:
            The residuals, and the error of their mean, shape ``(dim_x,)``.
        """
        column = shares[:, None]
        mean = (column * atoms).sum(dim=0)
        error = weight.square().sum()  # of the mean, in units of the residuals' variance
        freedom = (1 - error).clamp(min=1e-12)
        variance = (column * (atoms - mean).square()).sum(dim=0) / freedom
        # Noise alone varies from pool to pool, by sqrt(2 / n) of its variance.
        is_noise = variance <= (1 + CLEAR * (2 * error).sqrt()) * self.noise
        # Infinite noise says that all spread is noise, of which the size is not known.
        known = is_noise & self.noise.isfinite()
        variance = torch.where(known, self.noise, variance)
        departure = (1 - self.noise / variance.clamp(min=1e-200)).clamp(min=0)
        return mean + departure.sqrt() * (atoms - mean), (error * variance).sqrt()


def rounding_of(triples: Triples) -> Tensor:
    """Return what of a departure is rounding, column by column."""
    return (ROUNDING * triples.delta.abs().amax(dim=0)).clamp(
        min=torch.as_tensor(triples.rounding).to(triples.delta)
    )


def merge_equal(residuals: Tensor, unit: Tensor) -> tuple[Tensor, Tensor]:
    """Find the residuals that differ by more than rounding.

    Args:
        residuals: Shape ``(n, dim_x)``.
        unit: Smaller differences are rounding, shape ``(dim_x,)``.

    Returns:
        The distinct ones in order of appearance, and which of them each residual is.
    """
    scaled = residuals / unit.clamp(min=1e-200)
    first = _first_alike(scaled.round())
    places = first.unique()
    if len(places) <= MOST_MERGED:
        # Equal residuals may have been rounded apart.
        near = torch.cdist(scaled[places], scaled[places], p=math.inf) < 1
        first = places[near.byte().argmax(dim=1)][torch.searchsorted(places, first)]
    atom = first.unique(return_inverse=True)[1]
    count = atom.bincount()
    total = residuals.new_zeros(len(count), residuals.shape[1])
    return total.index_add_(0, atom, residuals) / count[:, None], atom


def _first_alike(points: Tensor) -> Tensor:
    """Return for each point the number of the first that is equal to it."""
    _, alike = points.unique(dim=0, return_inverse=True)
    row = torch.arange(len(points), device=points.device)
    return torch.full_like(row, len(row)).scatter_reduce(0, alike, row, "amin")[alike]
