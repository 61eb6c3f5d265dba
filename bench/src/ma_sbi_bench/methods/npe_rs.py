"""Summaries trained to agree with the observations: NPE-RS (Huang et al. 2023)."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from sbi.neural_nets import posterior_nn
from torch import Tensor, nn
from tqdm.auto import tqdm

from ma_sbi.context import Entries
from ma_sbi.networks import Standardise, perceptron
from ma_sbi.posteriors.flow import FlowPosterior
from ma_sbi.posteriors.training_range import TrainingRange
from ma_sbi.posteriors.unconstrained import check_simulations
from ma_sbi.randomness import derive, seeded
from ma_sbi.validation import as_count, check_positive
from ma_sbi_bench.methods.materials import Materials, Need
from ma_sbi_bench.methods.method import RetrainedMethod
from ma_sbi_bench.methods.training import BestSoFar

__all__ = ["NPERS", "squared_mmd"]

NUM_COMPARED = 200  # most rows of each side that the discrepancy looks at
Length = Literal["median", "mean"]
CLIP = 5.0  # largest norm of a gradient


class NPERS(RetrainedMethod):
    r"""A posterior of learned summaries that real and simulated data have in common.

    .. math:: \mathcal L = -E \log q(\theta \mid \eta(x))
        + \lambda\, \mathrm{MMD}^2\bigl[\{\eta(x_i)\}, \{\eta(x_{obs})\}\bigr]

    Summaries eta and flow q are trained together on simulations; the second term removes
    from eta what differs between observations and simulations. The observations
    enter training: pass those to be analysed as ``unlabelled``, and fit again for others.

    Args:
        weight: Weight lambda of the discrepancy. At 0 this is plain NPE; the larger, the
            less is learned from x.
        length: What the discrepancy takes as the scale of the summaries: their
            ``"median"`` distance, the authors', or their ``"mean"`` squared distance. By
            the median, 71 % of the simulations are enough to agree with the observation
            and the rest may stay informative, so that even a weight of 1000 does not
            return the prior; by the mean, it does.
        embedding_net: Network from standardised x ``(n, dim_x)`` to summaries
            ``(n, dim_summary)``, for instance of sets of time series laid out in one row;
            a perceptron if None.
        dim_summary: Summaries of the perceptron; at least 4 and one more than theta has
            if None.
        flow: ``"maf"``, the authors', or ``"nsf"``.
        num_transforms: Number of transforms of the flow.
        hidden: Widths of the hidden layers of each.
        learning_rate: Step size of Adam.
        batch_size: Simulations per step; if None the authors' 50, or more where there
            are more than 1000 simulations, up to 256.
        patience: Epochs without improvement on held-out simulations before it stops.
        max_epochs: Most epochs.
        validation_fraction: Share of simulations held out.
        show_progress: Whether to show a progress bar.
    """

    reference = "Huang et al. 2023, arXiv:2305.15871"
    needs: frozenset[Need] = frozenset({"simulations", "unlabelled"})
    amortised = False
    posterior_: FlowPosterior

    def __init__(
        self,
        weight: float = 1.0,
        *,
        length: Length = "median",
        embedding_net: nn.Module | None = None,
        dim_summary: int | None = None,
        flow: Literal["maf", "nsf"] = "maf",
        num_transforms: int = 3,
        hidden: Sequence[int] = (64, 64),
        learning_rate: float = 5e-4,
        batch_size: int | None = None,
        patience: int = 20,
        max_epochs: int = 500,
        validation_fraction: float = 0.1,
        show_progress: bool = False,
    ) -> None:
        self.weight = weight
        self.length = length
        self.embedding_net = embedding_net
        self.dim_summary = dim_summary
        self.flow = flow
        self.num_transforms = num_transforms
        self.hidden = hidden
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.patience = patience
        self.max_epochs = max_epochs
        self.validation_fraction = validation_fraction
        self.show_progress = show_progress

    def summarise(self, x: Any) -> Tensor:
        """Give the learned summaries of x ``(n, dim_x)``, shape ``(n, dim_summary)``."""
        with torch.no_grad():
            return self._condition(*self._check_input(x, None))

    def _condition(self, x: Tensor, context: Entries | None) -> Tensor:
        return self.summary_(x)

    def _fit(self, materials: Materials, seed: int | None) -> None:
        self._check_options()
        given = materials.take("simulations")
        # Theta stands in for x: the range that matters is that of the summaries.
        checked = check_simulations(materials.prior, given.theta, given.theta, None)
        theta, x = checked.real_theta, given.x.to(checked.real_theta)
        x_obs = materials.take("unlabelled").to(x)
        with seeded(derive(seed, "training"), x.device):
            order = torch.randperm(len(x)).to(x.device)
            num_held_out = min(max(1, round(self.validation_fraction * len(x))), len(x) - 2)
            held_out, training = (
                (theta[rows], x[rows]) for rows in order.tensor_split([num_held_out])
            )
            model = self._build(*training)
            self._train(model, training, held_out, x_obs)
            model.eval().requires_grad_(requires_grad=False)
            summaries = torch.cat([model.summary(part) for part in x.split(NUM_COMPARED)])
        self.summary_ = model.summary
        self.posterior_ = FlowPosterior(
            model.estimator,
            prior=checked.prior,
            to_real=checked.to_real,
            training_range=TrainingRange.of(summaries),
            settings=self._settings,
        )

    @property
    def _settings(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "num_transforms": self.num_transforms,
            "hidden": list(self.hidden),
        }

    def _check_options(self) -> None:
        for name in ("num_transforms", "patience", "max_epochs"):
            as_count(getattr(self, name), name)
        for name in ("dim_summary", "batch_size"):
            if getattr(self, name) is not None:
                as_count(getattr(self, name), name)
        if not self.weight >= 0:
            raise ValueError(f"weight must not be negative, got {self.weight!r}")
        check_positive(self.learning_rate, "learning_rate")
        if not 0 < self.validation_fraction < 1:
            raise ValueError(
                "validation_fraction must lie between 0 and 1, got "
                f"{self.validation_fraction!r}"
            )
        if self.length not in get_args(Length):
            raise ValueError(f"length must be 'median' or 'mean', got {self.length!r}")
        if self.flow not in ("maf", "nsf"):
            raise ValueError(f"flow must be 'maf' or 'nsf', got {self.flow!r}")

    def _build(self, theta: Tensor, x: Tensor) -> _Model:
        network = copy.deepcopy(self.embedding_net)  # the user's own is not trained
        if network is None:
            dim_summary = self.dim_summary or max(4, theta.shape[1] + 1)
            network = perceptron(x.shape[1], dim_summary, layers=3, hidden=64)
        summary = nn.Sequential(Standardise.of(x), network).to(x.device)
        first = summary(x[:2]).detach()
        if first.ndim != 2:
            raise ValueError(
                "embedding_net must turn x (n, dim_x) into summaries (n, dim_summary), got "
                f"shape {tuple(first.shape)} for n = 2"
            )
        build = posterior_nn(
            f"zuko_{self.flow}",
            z_score_x="none",
            hidden_features=tuple(self.hidden),
            num_transforms=self.num_transforms,
        )
        # Of the condition the builder only takes the shape.
        estimator = build(theta, first[:1].expand(len(theta), -1)).to(x.device)
        return _Model(summary, estimator, self.weight, self.length)

    def _train(
        self,
        model: _Model,
        training: tuple[Tensor, Tensor],
        held_out: tuple[Tensor, Tensor],
        x_obs: Tensor,
    ) -> None:
        """Train until the held-out loss stops falling, and restore the best weights."""
        num_rows = len(training[0])
        batch_size = self.batch_size or min(max(50, num_rows // 20), 256)
        optimiser = torch.optim.Adam(model.parameters(), lr=self.learning_rate)
        best = BestSoFar(model)
        for _ in tqdm(range(self.max_epochs), disable=not self.show_progress):
            for batch in torch.randperm(num_rows).to(x_obs.device).split(batch_size):
                compared = _some(training[1]), _some(x_obs)
                loss = model.loss(training[0][batch], training[1][batch], *compared)
                optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), CLIP)
                optimiser.step()
            with torch.no_grad():
                compared = held_out[1][:NUM_COMPARED], x_obs[:NUM_COMPARED]
                best.update(model.loss(*held_out, *compared).item())
            if best.since >= self.patience:
                break
        else:
            warnings.warn(
                f"training stopped at max_epochs={self.max_epochs}, before the held-out "
                f"loss had gone {self.patience} epochs without improving",
                stacklevel=2,
            )
        best.restore()


class _Model(nn.Module):
    """Summaries, the flow that reads them, and what both are trained for."""

    def __init__(
        self, summary: nn.Module, estimator: Any, weight: float, length: Length
    ) -> None:
        super().__init__()
        self.summary = summary
        self.estimator = estimator
        self.weight = weight
        self.length = length

    def loss(self, theta: Tensor, x: Tensor, x_sim: Tensor, x_obs: Tensor) -> Tensor:
        """Add the discrepancy of x_sim from x_obs to the loss of NPE at theta and x."""
        loss = self.estimator.loss(theta, self.summary(x)).mean()
        if self.weight == 0:
            return loss
        summaries = self.summary(x_sim), self.summary(x_obs)
        return loss + self.weight * squared_mmd(*summaries, length=self.length)


def _some(x: Tensor) -> Tensor:
    """Take rows at random, as many as the discrepancy looks at."""
    return x[torch.randperm(len(x))[:NUM_COMPARED].to(x.device)]


def squared_mmd(x: Tensor, y: Tensor, *, length: Length = "median") -> Tensor:
    r"""Estimate the squared maximum mean discrepancy between two sets of points.

    .. math:: \overline{k(x_i, x_j)} - 2\, \overline{k(x_i, y_j)} + \overline{k(y_i, y_j)},
        \qquad k(a, b) = e^{-\|a - b\|^2 / 2 \ell^2}

    Means run over all pairs, a point with itself among them, so that one y is enough.
    Half the median, or mean, squared distance within x is :math:`\ell^2`; its gradient is
    kept, else shrinking all points would seem to bring them closer.

    Args:
        x: Points, shape ``(n, dim)``.
        y: Points, shape ``(m, dim)``.
        length: ``"median"`` or ``"mean"``.

    Returns:
        The biased estimate (V-statistic), a scalar of at least zero.

    Example:
        >>> points = torch.tensor([[0.0], [1.0]])
        >>> squared_mmd(points, points)
        tensor(0.)
    """
    xx, xy, yy = (
        (a[:, None] - b).square().sum(dim=-1) for a, b in ((x, x), (x, y), (y, y))
    )
    # Equal points have no distance to take as a scale.
    typical = xx.median() if length == "median" else xx.mean()
    squared_length = (typical / 2).clamp(min=1e-12)
    means = [(-d / (2 * squared_length)).exp().mean() for d in (xx, xy, yy)]
    return means[0] - 2 * means[1] + means[2]
