"""Covid-19 counts under changing policies: does the policy explain the simulator's errors?

Each window of a country is explained by the posterior of a plain simulator
(:class:`~ma_sbi_bench.tasks.fortnight.FortnightSimulator`), with and without a
correction that is learned from other windows. The loss of a method is what it finds
surprising in the window: the negative log posterior-predictive probability of the counts,
in nats. The density of what the posterior is shown, x = log(1 + y), is that probability
times the product of 1 + y: in its unit every loss is smaller by the same
:func:`log_jacobian`, and a share of the loss is larger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import torch
from sklearn.preprocessing import OneHotEncoder
from torch import Tensor

from ma_sbi.correctors import (
    BootstrapCorrector,
    FittableCorrector,
    ShiftCorrector,
    cross_fit,
)
from ma_sbi.encoders import CategoryEncoder, HashEncoder
from ma_sbi.metrics import PairedGain, paired_gain
from ma_sbi.mixture import sample_mixture
from ma_sbi.protocols import AmortizedPosterior, Context, Corrections, Encoder
from ma_sbi.randomness import derive, generator
from ma_sbi.simulation import sample_prior
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Backbone
from ma_sbi_bench.real.backbones import flow_backbone, predict
from ma_sbi_bench.real.covid.windows import Windows
from ma_sbi_bench.tasks.fortnight import FortnightSimulator

__all__ = [
    "BLOCK",
    "KNOWN_DISPERSION",
    "Method",
    "Pools",
    "WindowStudy",
    "fortnight_backbone",
    "gains",
    "log_jacobian",
]

Pools = Literal["leave_one_out", "past"]
"""Which windows a correction is learned from: all others, or those of earlier times."""

KNOWN_DISPERSION = 10.0
"""Dispersion of daily counts where the simulator knows it."""

BLOCK = 6
"""Number of neighbouring fortnights that are correlated."""

NO_CONTEXT = "all"
# Windows scored together: bounds the memory.
ROWS_AT_ONCE = 128
# The prior is so much broader than a posterior that it takes more draws, by this factor.
PRIOR_DRAWS = 20


def fortnight_backbone(
    budget: Budget, seed: int, *, known_dispersion: bool = False
) -> Backbone:
    """Define the posterior of a fortnight of daily counts."""
    options = {"dispersion": KNOWN_DISPERSION} if known_dispersion else {}
    return flow_backbone(budget, "fortnight", seed, 100_000, options)


@dataclass(frozen=True)
class Method:
    """A corrector and its context, one entry per window."""

    corrector: FittableCorrector
    context: Context


class WindowStudy:
    """Windows, the posterior that explains them, and every way to correct it.

    Args:
        windows: What :func:`~ma_sbi_bench.real.covid_windows` cut.
        simulator: The simulator of a window.
        posterior: Its posterior, trained once.
        num_samples: Posterior draws per window; all methods use as many. The log of a mean
            over draws is biased, more so for few draws and for a sharp posterior:
            compare results at the same number only.
        seed: Seed of everything; all methods share it.
        width: Losses are those of a Gaussian density of log counts, of this width on every
            day; if None, of the counts, with the dispersion that the posterior infers.
    """

    def __init__(
        self,
        windows: Windows,
        simulator: FortnightSimulator,
        posterior: AmortizedPosterior,
        *,
        num_samples: int = 1000,
        seed: int = 0,
        width: float | None = None,
    ) -> None:
        self.table = windows.table
        self.counts = torch.as_tensor(windows.counts, dtype=torch.float64)
        self.x = self.counts.log1p().float()
        self.simulator = simulator
        self.posterior = posterior
        self.num_samples = num_samples
        self.seed = seed
        self.width = width
        self.predicted = predict(posterior, simulator, self.x, seed)

    @property
    def regime(self) -> list[str]:
        """Regime of each window."""
        return self.table["regime"].astype(str).tolist()

    @property
    def held_out_together(self) -> list[int]:
        """Number of the block of fortnights that each window belongs to."""
        return (self.table["time"] // BLOCK).tolist()

    def methods(self, notes_encoder: Encoder | None = None) -> dict[str, Method | None]:
        """Name the methods that are compared; None stands for no correction.

        Args:
            notes_encoder: What reads the policy notes; hashed characters if None. It is
                fitted to all notes, so it must learn nothing from them: one that does
                would know the future.
        """
        regime, labels = self.regime, CategoryEncoder()
        nothing = [NO_CONTEXT] * len(regime)
        one_hot = OneHotEncoder(sparse_output=False)
        methods: dict[str, Method | None] = {
            "NPE": None,
            "point": Method(ShiftCorrector(labels), regime),
            "marginal-only": Method(ShiftCorrector(HashEncoder()), nothing),
            "stochastic": Method(self._bootstrap(labels, 0.0), regime),
            "pooled": Method(self._bootstrap(labels, math.inf), regime),
            "stochastic, wording": self._similar(HashEncoder(), self.table["text"]),
            "stochastic, country": self._similar(one_hot, self.table[["iso3"]]),
            "stochastic, country and regime": self._similar(
                one_hot, self.table[["iso3", "regime"]]
            ),
        }
        if "notes" in self.table:
            methods["stochastic, notes"] = self._similar(
                notes_encoder or HashEncoder(), self.table["notes"]
            )
        return methods

    def shuffled(self, seed: int) -> Method:
        """Return the stochastic method with shuffled regimes.

        Compared with "pooled", which has more to draw from, it shows the cost of a division
        of the pool that carries no information.
        """
        regime = self.regime
        order = np.random.default_rng(seed).permutation(len(regime))
        shuffled = [regime[i] for i in order]
        return Method(self._bootstrap(CategoryEncoder(), 0.0), shuffled)

    def losses(self, method: Method | None, pools: Pools) -> np.ndarray:
        r"""Score a method on every window, in nats.

        .. math:: -\log \frac1S \sum_s NB(y; \lambda(\theta_s) e^{\delta_s}, \phi_s)

        with :math:`\theta_s` from the (corrected) posterior and the departure
        :math:`\delta_s` drawn from the residuals that the correction was learned from,
        which never include the window's own.

        Returns:
            Losses, shape ``(num_windows,)``.
        """
        return self.score(self.corrections(method, pools))

    def score(self, candidates: Corrections) -> np.ndarray:
        """Score corrections of all windows, as :meth:`losses` does."""
        theta = sample_mixture(
            self.posterior,
            self.num_samples,
            # No count is below zero, for any departure.
            candidates._replace(x=candidates.x.clamp(min=0.0)),
            seed=derive(self.seed, "theta"),
        )
        return self._score(theta, self._draw_departures(candidates))

    def prior_losses(self) -> np.ndarray:
        """Score the prior, which knows nothing of any window, by the same draws for all."""
        num, seed = self.num_samples * PRIOR_DRAWS, derive(self.seed, "prior")
        theta = sample_prior(self.simulator.prior, num, seed=seed)
        parts = [
            self._score(
                some[:, None].expand(-1, len(self.x), -1),
                self.x.new_zeros(len(some), *self.x.shape),
            )
            for some in theta.split(self.num_samples)
        ]
        return math.log(len(parts)) - np.logaddexp.reduce(-np.stack(parts), axis=0)

    def _score(self, theta: Tensor, departure: Tensor) -> np.ndarray:
        """Score draws, both of shape ``(num_samples, num_windows, ...)``."""
        parts = [
            self._log_density(rows, theta[:, rows], departure[:, rows]).logsumexp(dim=0)
            for rows in torch.arange(len(self.x)).split(ROWS_AT_ONCE)
        ]
        return (math.log(len(theta)) - torch.cat(parts)).numpy()

    def _log_density(self, rows: Tensor, theta: Tensor, departure: Tensor) -> Tensor:
        if self.width is None:
            return self.simulator.log_likelihood(self.counts[rows], theta, departure)
        x = self.counts[rows].log1p()
        return self.simulator.gaussian_log_density(x, theta, departure, self.width)

    def corrections(self, method: Method | None, pools: Pools) -> Corrections:
        """Correct every window by what was learned from others."""
        if pools not in get_args(Pools):
            raise ValueError(
                f"pools must be one of {', '.join(get_args(Pools))}, got {pools!r}"
            )
        if method is None:
            return Corrections.certain(self.x)
        time = self.table["time"].to_numpy() if pools == "past" else None
        corrector = cross_fit(method.corrector, time=time)
        corrector.fit(method.context, self.x, self.predicted, seed=self.seed)
        return corrector.corrections(self.x, method.context)

    def _draw_departures(self, candidates: Corrections) -> Tensor:
        """Draw departures, shape ``(num_samples, num_windows, days)``."""
        rng = generator(derive(self.seed, "departure"))
        weight = candidates.log_weight.exp().T
        pick = torch.multinomial(weight, self.num_samples, replacement=True, generator=rng)
        rows = torch.arange(len(self.x))
        return self.x - candidates.x[pick.T, rows]

    def _bootstrap(self, encoder: Encoder, width: float | Literal["auto"]) -> Any:
        # Every pool is used whole: drawing from it would add noise that all windows share.
        return BootstrapCorrector(encoder, len(self.x), width)

    def _similar(self, encoder: Encoder, context: Context) -> Method:
        """Let windows with similar contexts share residuals."""
        return Method(self._bootstrap(encoder, "auto"), context)


def log_jacobian(counts: np.ndarray) -> np.ndarray:
    """Compute what a loss of counts is more than one in the density of log(1 + counts).

    Args:
        counts: Daily counts, shape ``(num_windows, days)``.

    Returns:
        The sums of log(1 + counts), shape ``(num_windows,)``.
    """
    return np.log1p(counts).sum(axis=1)


def gains(
    losses: pd.DataFrame, over: str = "NPE", *, block: int = BLOCK
) -> dict[tuple[str, str], PairedGain]:
    """Compare each method with another, over all windows and within each country.

    Args:
        losses: One row per window: ``iso3``, ``time`` and one column of losses per
            method.
        over: The method that the others are compared with.
        block: How many neighbouring fortnights the bootstrap draws together.

    Returns:
        A gain for each country (and ``"all"``) and method.
    """
    if over not in losses:
        raise ValueError(
            f"over must be one of {', '.join(losses.columns[2:])}, got {over!r}"
        )
    methods = [name for name in losses.columns if name not in ("iso3", "time", over)]
    scopes = {"all": losses}
    scopes |= {str(iso3): part for iso3, part in losses.groupby("iso3")}
    return {
        (scope, name): paired_gain(part[over], part[name], time=part["time"], block=block)
        for scope, part in scopes.items()
        for name in methods
    }
