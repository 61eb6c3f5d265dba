"""Covid-19 counts under changing policies: does the policy tell how the simulator errs?

Each window of a country is explained by the posterior of a plain simulator
(:class:`~ma_sbi_bench.tasks.fortnight.FortnightSimulator`), with and without a
correction that is learned from other windows. The loss of a method is what it finds
surprising in the window: the negative log posterior-predictive probability of the counts,
in nats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
from ma_sbi.predictive import predictive_mean
from ma_sbi.protocols import AmortizedPosterior, Context, Corrections, Encoder
from ma_sbi.randomness import derive, generator
from ma_sbi.simulation import sample_prior
from ma_sbi_bench.real import Windows
from ma_sbi_bench.tasks.fortnight import FortnightSimulator

__all__ = ["Method", "Pools", "WindowStudy", "compare", "gains"]

Pools = Literal["leave_one_out", "past"]
"""Which windows a correction is learned from: all others, or those of earlier times."""

NO_CONTEXT = "all"
# Windows scored together: bounds the memory.
ROWS_AT_ONCE = 128
# The prior is so much broader than a posterior that it takes more draws, by this factor.
PRIOR_DRAWS = 20


@dataclass(frozen=True)
class Method:
    """A corrector and what it is told about each window."""

    corrector: FittableCorrector
    context: Context


class WindowStudy:
    """Windows, the posterior that explains them, and every way to correct it.

    Args:
        windows: What :func:`~ma_sbi_bench.real.covid_windows` cut.
        simulator: The simulator of a window.
        posterior: Its posterior, trained once.
        num_samples: Posterior draws per window; all methods use as many. The log of a mean
            over draws is biased, the more so the fewer they are and the sharper the
            posterior; compare results at the same number only.
        seed: Seed of everything; all methods share it.
    """

    def __init__(
        self,
        windows: Windows,
        simulator: FortnightSimulator,
        posterior: AmortizedPosterior,
        *,
        num_samples: int = 1000,
        seed: int = 0,
    ) -> None:
        self.table = windows.table
        self.counts = torch.as_tensor(windows.counts, dtype=torch.float64)
        self.x = self.counts.log1p().float()
        self.simulator = simulator
        self.posterior = posterior
        self.num_samples = num_samples
        self.seed = seed
        self.predicted = predictive_mean(
            posterior,
            lambda theta: simulator.simulate(theta, seed=derive(seed, "predict")),
            self.x,
            seed=derive(seed, "predict"),
        )

    def methods(self, notes_encoder: Encoder | None = None) -> dict[str, Method | None]:
        """Name the methods that are compared; None stands for no correction.

        Args:
            notes_encoder: What reads the policy notes; hashed characters if None. It is
                fitted to all notes, so it must learn nothing from them: one that does
                would know the future.
        """
        regime = self.table["regime"].astype(str).tolist()
        labels = CategoryEncoder()
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
        """Return the stochastic method with its regimes dealt out at random.

        Beside "pooled", which has more to draw from, it shows what a division of the pool
        costs that means nothing.
        """
        regime = self.table["regime"].astype(str).to_numpy()
        order = np.random.default_rng(seed).permutation(len(regime))
        corrector = self._bootstrap(CategoryEncoder(), 0.0)
        return Method(corrector, regime[order].tolist())

    def losses(self, method: Method | None, pools: Pools) -> np.ndarray:
        r"""Score a method on every window, in nats.

        .. math:: -\log \frac1S \sum_s NB(y; \lambda(\theta_s) e^{\delta_s}, \phi_s)

        with :math:`\theta_s` from the (corrected) posterior and the departure
        :math:`\delta_s` drawn anew from what the correction was learned from, which the
        window itself is never part of.

        Returns:
            Losses, shape ``(num_windows,)``.
        """
        return self.score(self.corrections(method, pools))

    def score(self, candidates: Corrections) -> np.ndarray:
        """Score corrections of all windows, as :meth:`losses` does."""
        theta = sample_mixture(
            self.posterior,
            self.num_samples,
            # No count is below zero, whatever the departure.
            candidates._replace(x=candidates.x.clamp(min=0.0)),
            seed=derive(self.seed, "theta"),
        )
        return self._score(theta, self._draw_anew(candidates))

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
            self.simulator.log_likelihood(
                self.counts[rows], theta[:, rows], departure[:, rows]
            ).logsumexp(dim=0)
            for rows in torch.arange(len(self.x)).split(ROWS_AT_ONCE)
        ]
        return (math.log(len(theta)) - torch.cat(parts)).numpy()

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

    def _draw_anew(self, candidates: Corrections) -> Tensor:
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
        """Let windows share residuals the more, the more alike their contexts are."""
        return Method(self._bootstrap(encoder, "auto"), context)


def compare(
    study: WindowStudy,
    pools: Pools,
    *,
    methods: Sequence[str] | None = None,
    num_shuffles: int = 10,
    notes_encoder: Encoder | None = None,
    progress: Callable[[str], None] = lambda method: None,
) -> pd.DataFrame:
    """Score all methods on the same windows.

    Args:
        study: The windows.
        pools: Which windows a correction is learned from.
        methods: Names of the methods; all of :meth:`WindowStudy.methods` if None.
        num_shuffles: How often regimes are dealt out at random; the row "shuffled" is the
            mean over them.
        notes_encoder: What reads the policy notes, without learning from them; hashed
            characters if None.
        progress: Called with the name of each method before it is scored.

    Returns:
        One row per window: ``iso3``, ``time`` and one column of losses per method.
    """
    losses = study.table[["iso3", "time"]].reset_index(drop=True)
    known = study.methods(notes_encoder)
    unknown = set(methods or ()) - set(known)
    if unknown:
        raise ValueError(
            f"methods must be among {', '.join(known)}, got {', '.join(sorted(unknown))}"
        )
    for name in methods or known:
        progress(name)
        losses[name] = study.losses(known[name], pools)
    shuffles = []
    for seed in range(num_shuffles):
        progress(f"shuffled {seed + 1} of {num_shuffles}")
        shuffles.append(study.losses(study.shuffled(seed), pools))
    losses["shuffled"] = np.mean(shuffles, axis=0)
    return losses


def gains(
    losses: pd.DataFrame, over: str = "NPE", *, block: int = 6
) -> dict[tuple[str, str], PairedGain]:
    """Compare each method with another, over all windows and within each country.

    Args:
        losses: What :func:`compare` returned.
        over: The method that the others are compared with.
        block: How many fortnights the bootstrap draws together: so close, they are alike.

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
