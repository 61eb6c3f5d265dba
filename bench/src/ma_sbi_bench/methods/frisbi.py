"""FRISBI: RoPE made inductive, by learning what its transport would give."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from ma_sbi.context import Entries
from ma_sbi.mixture import sample_mixture
from ma_sbi.protocols import Corrections
from ma_sbi.randomness import derive, seeded
from ma_sbi.validation import as_count, check_positive
from ma_sbi_bench.methods.embedding import device_of, embedding_of, trainable_copy
from ma_sbi_bench.methods.materials import Materials, Need
from ma_sbi_bench.methods.method import RetrainedMethod
from ma_sbi_bench.methods.training import Backbone, find_backbone, train
from ma_sbi_bench.methods.transport import squared_cost

__all__ = ["FRISBI"]


class FRISBI(RetrainedMethod):
    r"""A flow trained on mixtures of the posteriors of simulations.

    Senouf et al. 2025, for a trained posterior with embedding h (stage A). Stage B learns
    an embedding g of real observations from pairs and, through a transport cost, from
    unlabelled observations; stage C learns the mixtures:

    .. math::
        C_{ij} &= \|g(x_o^i) - h(x_s^j)\|^2 / d, \qquad
        \alpha_{ij} = \mathrm{softmax}_j(-C_{ij} / \gamma) \\
        g &= \arg\min\ \mathrm{MSE}\big(g(x_c), h(S(\theta_c))\big)
        + \lambda \tfrac1B \textstyle\sum_{ij} \alpha_{ij} C_{ij} && \text{(B)} \\
        \hat q_g &= \arg\max \textstyle\sum_i \mathrm{E}_{\theta \sim \sum_j \alpha_{ij}
        \hat q(\theta \mid x_s^j)} \log \hat q_g(\theta \mid g(x_o^i)) && \text{(C)}

    The softmax is RoPE's plan for tau = 0: nothing forces the simulations to be used
    equally, so that posteriors need not average to the prior, as those of RoPE do.

    Args:
        gamma: Entropic regularisation, in units of the cost; 0.5 in the authors' code.
        transport_weight: lambda.
        num_simulations: Simulations from the prior among the columns, beside those at
            theta*.
        num_draws: Draws from the mixture of each observation in stage C.
        batch_size: Unlabelled observations per step of stage B; all calibration
            observations join every step.
        epochs: Passes through the unlabelled observations in stage B.
        learning_rate: Step size of Adam in stage B. The authors' 1e-4 suits their
            thousand observations; with a hundred, a third of a shift was left after the
            100 epochs, and nothing with 1e-3.
        backbone: What is trained in stage C, see :mod:`ma_sbi_bench.methods.training`.
        embedding: h; that of the posterior if None.
        show_progress: Whether to show a progress bar for stage B.

    Attributes:
        g_: Embedding of observations.
    """

    reference = "Senouf et al., NeurIPS 2025 (arXiv 2508.15593)"
    needs: frozenset[Need] = frozenset({"posterior", "simulator", "theta*", "unlabelled"})

    g_: nn.Module

    def __init__(
        self,
        *,
        gamma: float = 0.5,
        transport_weight: float = 1.0,
        num_simulations: int = 1_000,
        num_draws: int = 100,
        batch_size: int = 64,
        epochs: int = 100,
        learning_rate: float = 1e-4,
        backbone: Backbone = "maf",
        embedding: nn.Module | None = None,
        show_progress: bool = False,
    ) -> None:
        self.gamma = gamma
        self.transport_weight = transport_weight
        self.num_simulations = num_simulations
        self.num_draws = num_draws
        self.batch_size = batch_size
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.backbone = backbone
        self.embedding = embedding
        self.show_progress = show_progress

    def _fit(self, materials: Materials, seed: int | None) -> None:
        self._check_options()
        device = device_of(materials)
        h = embedding_of(materials, self.embedding, seed=derive(seed, "moments"))
        x_c = materials.take("x_obs").to(device=device)
        x_u = materials.take("unlabelled").to(device=device)
        x_sim = self._columns(materials, seed).to(device=device)
        with torch.no_grad():
            columns = h(x_sim)
        g = trainable_copy(h, x_c, seed=derive(seed, "weights"))
        self.g_ = self._align(g, x_u, x_c, columns, derive(seed, "alignment"))
        rows = torch.cat([x_u, x_c])
        theta = self._draw_mixtures(
            materials, rows, x_sim, columns, derive(seed, "mixtures")
        )
        self.posterior_ = train(
            self.backbone,
            materials.prior,
            theta.flatten(0, 1),
            self.g_(rows).repeat(self.num_draws, 1),
            seed=derive(seed, "flow"),
        )

    def _check_options(self) -> None:
        find_backbone(self.backbone)
        check_positive(self.learning_rate, "learning_rate")
        for name in ("num_simulations", "num_draws", "batch_size", "epochs"):
            as_count(getattr(self, name), name)
        check_positive(self.gamma, "gamma")
        if not self.transport_weight >= 0:
            raise ValueError(
                f"transport_weight must not be negative, got {self.transport_weight}"
            )

    def _columns(self, materials: Materials, seed: int | None) -> Tensor:
        """Simulate from the prior and, last, at theta*."""
        pool = materials.draw_prior(self.num_simulations, seed=derive(seed, "simulations"))
        x_c = materials.simulate(
            materials.take("theta*"), seed=derive(seed, "calibration simulations")
        )
        return torch.cat([pool.x, x_c])

    def _align(
        self, g: nn.Module, x_u: Tensor, x_c: Tensor, columns: Tensor, seed: int | None
    ) -> nn.Module:
        """Train g (stage B)."""
        target = columns[-len(x_c) :]
        optimiser = torch.optim.Adam(g.parameters(), lr=self.learning_rate, fused=True)
        epochs = tqdm(range(self.epochs), "Aligning", disable=not self.show_progress)
        with seeded(seed, x_u.device):
            for _ in epochs:
                for batch in x_u[torch.randperm(len(x_u))].split(self.batch_size):
                    embedded = g(torch.cat([batch, x_c]))
                    cost = squared_cost(embedded, columns)
                    # The gradient flows through the plan, too, as in the authors' code.
                    moved = (self._weight(cost) * cost).sum(dim=1).mean()
                    paired = (embedded[len(batch) :] - target).square().mean()
                    optimiser.zero_grad()
                    (paired + self.transport_weight * moved).backward()
                    optimiser.step()
        return g.requires_grad_(requires_grad=False)

    def _draw_mixtures(
        self,
        materials: Materials,
        rows: Tensor,
        x_sim: Tensor,
        columns: Tensor,
        seed: int | None,
    ) -> Tensor:
        """Draw theta for every row, shape ``(num_draws, len(rows), dim_theta)``."""
        weight = self._weight(squared_cost(self.g_(rows), columns)).T
        pool = Corrections.among(x_sim, weight.log())
        return sample_mixture(materials.take("posterior"), self.num_draws, pool, seed=seed)

    def _condition(self, x: Tensor, context: Entries | None) -> Tensor:
        return self.g_(x)

    def _weight(self, cost: Tensor) -> Tensor:
        """Weigh every simulation for every observation, ``(N_o, N_s)``.

        N_o times :func:`~ma_sbi_bench.methods.transport.semi_balanced_plan` with tau = 0.
        """
        return (-cost / self.gamma).softmax(dim=1)
