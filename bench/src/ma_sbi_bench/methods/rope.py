"""RoPE: real observations transported onto simulations in the space of an embedding."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from ma_sbi.context import Entries
from ma_sbi.networks import Standardise
from ma_sbi.protocols import Corrections
from ma_sbi.randomness import derive
from ma_sbi.validation import as_count, check_positive
from ma_sbi_bench.methods.embedding import (
    device_of,
    embedding_of,
    fine_tune,
    simulated_embedding,
    trainable_copy,
)
from ma_sbi_bench.methods.materials import Materials, Need, Simulations
from ma_sbi_bench.methods.method import CorrectingMethod
from ma_sbi_bench.methods.transport import semi_balanced_plan, squared_cost

__all__ = ["RoPE"]

_OTHER_ROWS: dict[str, Need | None] = {
    "batch": None,
    "calibration": "x_obs",
    "unlabelled": "unlabelled",
}


class RoPE(CorrectingMethod):
    r"""A mixture of the posteriors of simulations, weighted by optimal transport.

    Wehenkel et al. 2025, Algorithm 1, for a trained posterior with embedding h (step 1):

    .. math::
        g &= \arg\min \textstyle\sum_c \|g(x_c) - \mathrm{E}_\epsilon h(S(\theta_c,
        \epsilon))\|_2 && \text{(2)} \\
        x_s^j &\sim p(x \mid \theta)\, p(\theta), \quad j = 1, \dots, N_s && \text{(3)} \\
        P &= \text{semi-balanced plan for } C_{ij} = \|g(x_o^i) - h(x_s^j)\|_2 &&
        \text{(4)} \\
        \tilde q(\theta \mid x_o^i) &= \textstyle\sum_j N_o P_{ij}\, \hat q(\theta \mid
        x_s^j) && \text{(5)}

    The posterior of an observation depends on what else is transported with it: with
    tau = 1 the posteriors of all N_o observations average to the prior, so that a dozen
    observations of the same parameters cannot all be sharp. Pass a large batch, or add
    ``rows``. Gamma is in units of the embedding.

    Args:
        gamma: Entropic regularisation; 0.5 in the paper, from about 5 it returns the
            prior.
        tau: How strongly simulations are forced to be used equally: 1 for RoPE, 0.9 for
            RoPE*.
        fine_tune: Whether to do step 2. Without it, ``g = h``, no theta* is needed.
        num_simulations: N_s; as many as observations if None, as in the algorithm. With
            few observations the mixture is coarse: a hundred narrow posteriors do not
            cover three parameters.
        rows: What is transported beside the batch: nothing (``"batch"``), the calibration
            observations (``"calibration"``) or others (``"unlabelled"``).
        metric: ``"euclidean"``, or ``"squared"`` distance over the width of the embedding.
        standardise: Whether to standardise the embeddings of observations and those of
            simulations, each by its own moments. That alone removes a common shift; two
            later implementations do it, the paper does not say.
        embedding: h; that of the posterior if None.
        squared: Whether step 2 minimises the squared norm instead of the norm.
        num_draws: Simulations per calibration theta in step 2.
        learning_rate: Step size of step 2. The authors used 1e-5 to 1e-4 and up to 20000
            steps for large networks; here a small one is trained, on all pairs at once.
        num_steps: Most steps of step 2.
        show_progress: Whether to show a progress bar for step 2.

    Attributes:
        h_: Embedding of simulations.
        g_: Embedding of observations.
    """

    reference = "Wehenkel et al., ICML 2025 (arXiv 2405.08719), Algorithm 1"
    amortised = False
    rows_independent = False

    h_: nn.Module
    g_: nn.Module

    def __init__(
        self,
        *,
        gamma: float = 0.5,
        tau: float = 1.0,
        fine_tune: bool = True,
        num_simulations: int | None = None,
        rows: Literal["batch", "calibration", "unlabelled"] = "batch",
        metric: Literal["euclidean", "squared"] = "euclidean",
        standardise: bool = False,
        embedding: nn.Module | None = None,
        squared: bool = False,
        num_draws: int = 1,
        learning_rate: float = 1e-3,
        num_steps: int = 2_000,
        show_progress: bool = False,
    ) -> None:
        self.gamma = gamma
        self.tau = tau
        self.fine_tune = fine_tune
        self.num_simulations = num_simulations
        self.rows = rows
        self.metric = metric
        self.standardise = standardise
        self.embedding = embedding
        self.squared = squared
        self.num_draws = num_draws
        self.learning_rate = learning_rate
        self.num_steps = num_steps
        self.show_progress = show_progress

    @property
    def needs(self) -> frozenset[Need]:  # type: ignore[override]
        """The parameters of observations for step 2, and the other rows."""
        needs: set[Need] = {"posterior", "simulator"}
        if self.fine_tune:
            needs.add("theta*")
        other = _OTHER_ROWS.get(self.rows)
        return frozenset(needs if other is None else needs | {other})

    def _fit(self, materials: Materials, seed: int | None) -> None:
        super()._fit(materials, seed)
        self._check_options()
        self.materials_ = materials
        self.simulations_: Simulations | None = None
        self.h_ = embedding_of(materials, self.embedding, seed=derive(seed, "moments"))
        self.g_ = self._fine_tune(materials, seed) if self.fine_tune else self.h_
        other = _OTHER_ROWS[self.rows]
        self.other_rows_ = None if other is None else materials.take(other)

    def _check_options(self) -> None:
        if self.rows not in _OTHER_ROWS:
            raise ValueError(f"rows must be one of {list(_OTHER_ROWS)}, got {self.rows!r}")
        if self.metric not in ("euclidean", "squared"):
            raise ValueError(
                f"metric must be 'euclidean' or 'squared', got {self.metric!r}"
            )
        if self.num_simulations is not None:
            as_count(self.num_simulations, "num_simulations")
        check_positive(self.learning_rate, "learning_rate")
        # It checks gamma and tau.
        semi_balanced_plan(torch.zeros(1, 1), self.gamma, self.tau)

    def _fine_tune(self, materials: Materials, seed: int | None) -> nn.Module:
        """Learn g from the calibration pairs (step 2)."""
        target = simulated_embedding(
            self.h_,
            materials,
            num_simulations=self.num_draws,
            seed=derive(seed, "calibration simulations"),
        )
        x_obs = materials.take("x_obs").to(device=device_of(materials))
        return fine_tune(
            trainable_copy(self.h_, x_obs, seed=derive(seed, "weights")),
            x_obs,
            target,
            squared=self.squared,
            learning_rate=self.learning_rate,
            num_steps=self.num_steps,
            seed=derive(seed, "held out"),
            show_progress=self.show_progress,
        )

    def simulations(self, num_observations: int) -> Simulations:
        """Return the simulations that so many observations are transported to (step 3).

        They are cached by their number.
        """
        num = self.num_simulations or num_observations
        if self.simulations_ is None or len(self.simulations_.x) != num:
            # The fit's own: draws and densities must see the same simulations.
            seed = derive(self.seed_, "simulations")
            self.simulations_ = self.materials_.draw_prior(num, seed=seed)
        return self.simulations_

    def plan(self, x: Tensor, x_sim: Tensor) -> Tensor:
        """Transport observations ``(N_o, dim_x)`` onto simulations ``(N_s, dim_x)``."""
        with torch.no_grad():
            real, simulated = self.g_(x), self.h_(x_sim)
        if self.standardise:
            real, simulated = (Standardise.of(part)(part) for part in (real, simulated))
        cost = squared_cost if self.metric == "squared" else torch.cdist
        cost_here = cost(real.double(), simulated.double())
        return semi_balanced_plan(cost_here, self.gamma, self.tau)

    def _corrections(
        self, x: Tensor, context: Entries | None, seed: int | None
    ) -> Corrections:
        others = self.other_rows_
        rows = x if others is None else torch.cat([x, others.to(x)])
        x_sim = self.simulations(len(rows)).x.to(x)
        weight = len(rows) * self.plan(rows, x_sim)[: len(x)].T
        return Corrections.among(x_sim, weight.log())
