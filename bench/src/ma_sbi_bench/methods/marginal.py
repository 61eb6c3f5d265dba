"""The density of simulations, without their parameters, learned by a flow."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Literal

import torch
import zuko
from torch import Tensor, nn
from tqdm.auto import tqdm

from ma_sbi.posteriors.training_range import TrainingRange
from ma_sbi.randomness import seeded
from ma_sbi.validation import as_count, as_matrix
from ma_sbi_bench.methods.training import BestSoFar

__all__ = ["Marginal", "fit_marginal"]

FLOWS = {"nsf": (zuko.flows.NSF, 2), "maf": (zuko.flows.MAF, 5)}


class Marginal(nn.Module):
    r"""A density of x; made by :func:`fit_marginal`.

    .. math:: q(x) = q_{flow}(A (x - \mu))\, |\det A|

    The flow sees simulations whitened, so that it need not learn what a matrix can say.
    Far from all simulations a flow's density is arbitrary: there it is set to zero.
    """

    center: Tensor
    whitener: Tensor
    log_abs_det: Tensor

    def __init__(self, x: Tensor, flow: nn.Module) -> None:
        super().__init__()
        self.range = TrainingRange.of(x)
        self.flow = flow
        centred = (x - x.mean(dim=0)).double()
        values, vectors = torch.linalg.eigh(centred.T @ centred / len(x))
        # A direction in which simulations never vary is not blown up without bound.
        values = values.clamp(min=1e-6 * values[-1].item())
        self.register_buffer("center", x.mean(dim=0))
        self.register_buffer("whitener", (vectors / values.sqrt()).float())
        self.register_buffer("log_abs_det", (-0.5 * values.log().sum()).float())

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate the log density of x ``(n, dim_x)``, also far outside."""
        whitened = (x - self.center) @ self.whitener
        return self.flow().log_prob(whitened) + self.log_abs_det

    def log_prob(self, x: Tensor) -> Tensor:
        """Evaluate the log density of x ``(n, dim_x)``; minus infinity far outside."""
        with torch.no_grad():
            return self(x).masked_fill(self.range.outside(x), -torch.inf)


def fit_marginal(
    x: Tensor,
    *,
    flow: Literal["nsf", "maf"] = "nsf",
    num_transforms: int | None = None,
    hidden: Sequence[int] = (64, 64),
    learning_rate: float = 2e-3,
    batch_size: int = 512,
    patience: int = 10,
    max_epochs: int = 200,
    validation_fraction: float = 0.1,
    seed: int | None = None,
    show_progress: bool = False,
) -> Marginal:
    """Train a flow on x by maximum likelihood.

    Args:
        x: Simulations, shape ``(n, dim_x)``; at least 20.
        flow: ``"nsf"``, a neural spline flow, or ``"maf"``, a masked autoregressive flow
            that is ten times as fast to evaluate and less flexible.
        num_transforms: Number of transforms; 2 for nsf, 5 for maf if None.
        hidden: Widths of the hidden layers of each.
        learning_rate: Step size of Adam.
        batch_size: Simulations per step.
        patience: Epochs without improvement on held-out simulations before it stops.
        max_epochs: Most epochs.
        validation_fraction: Share of simulations held out.
        seed: Makes training repeatable.
        show_progress: Whether to show a progress bar.

    Returns:
        The density with the weights that did best on held-out simulations.
    """
    x = as_matrix(x, "x")
    as_count(max_epochs, "max_epochs")
    if len(x) < 20:
        raise ValueError(f"training needs at least 20 simulations, got {len(x)}")
    if flow not in FLOWS:
        raise ValueError(f"flow must be one of {', '.join(FLOWS)}, got {flow!r}")
    if not 0 < validation_fraction < 1:
        raise ValueError(
            f"validation_fraction must lie between 0 and 1, got {validation_fraction!r}"
        )
    build, default_transforms = FLOWS[flow]
    num_held_out = math.ceil(validation_fraction * len(x))
    with torch.enable_grad(), seeded(seed, x.device):
        network = build(
            x.shape[1],
            transforms=num_transforms or default_transforms,
            hidden_features=tuple(hidden),
        )
        shuffled = x[torch.randperm(len(x), device=x.device)]
        held_out, training = shuffled[:num_held_out], shuffled[num_held_out:]
        marginal = Marginal(x, network).to(x.device)
        optimiser = torch.optim.Adam(marginal.parameters(), lr=learning_rate)
        best = BestSoFar(network)
        for _ in tqdm(range(max_epochs), "Density", disable=not show_progress):
            _train_epoch(marginal, training, optimiser, batch_size)
            with torch.no_grad():
                best.update(-marginal(held_out).mean().item())
            if best.since >= patience:
                break
        else:
            warnings.warn(
                f"training of q(x) stopped at max_epochs={max_epochs}, before the "
                f"held-out loss had gone {patience} epochs without improving",
                stacklevel=2,
            )
    best.restore()
    return marginal.eval().requires_grad_(requires_grad=False)


def _train_epoch(
    marginal: Marginal, x: Tensor, optimiser: torch.optim.Optimizer, batch_size: int
) -> None:
    for rows in torch.randperm(len(x), device=x.device).split(batch_size):
        loss = -marginal(x[rows]).mean()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(marginal.parameters(), 5.0)
        optimiser.step()
