"""Training a flow of theta given x by maximum likelihood, as sbi's NPE does.

With one seed it gives, on a processor, the weights that sbi's trainer gives, to the last
bit; a test compares them. It is quicker: sbi's loader takes simulations one by one and
stacks them, here a batch is taken at once. On a GPU the kernels of a step are launched
together, and nothing waits for it before the end of an epoch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ma_sbi.display.progress import say
from ma_sbi.posteriors.cuda_graphs import adam, replayed
from ma_sbi.posteriors.training import DIVERGED

__all__ = ["FlowTraining"]

# Longest gradient, as in sbi.
MAX_NORM = 5.0


@dataclass(frozen=True)
class FlowTraining:
    """Adam until the loss of held-out simulations no longer falls; the best weights stay.

    Attributes:
        learning_rate: Step size of Adam.
        batch_size: Simulations per step.
        patience: Epochs without improvement before it stops.
        max_epochs: Most epochs.
        validation_fraction: Share of simulations held out.
        steps_alike: Whether all steps do the same operations, so that a GPU may record
            them once. An embedding net of the user's may not.
    """

    learning_rate: float
    batch_size: int
    patience: int
    max_epochs: int
    validation_fraction: float
    steps_alike: bool

    def run(
        self, build: Callable[[Tensor, Tensor], Any], theta: Tensor, x: Tensor
    ) -> tuple[Any, float, int]:
        """Build an estimator and train it.

        Args:
            build: Makes an estimator for theta ``(n, dim_theta)`` and x ``(n, dim_x)``,
                from which it takes its scales.
            theta: Parameters on the real line, shape ``(n, dim_theta)``.
            x: Simulations, shape ``(n, dim_x)``.

        Returns:
            The estimator, its held-out loss, and the number of epochs.

        Raises:
            ValueError: If a loss is not finite.
        """
        order = torch.randperm(len(x), device="cpu").to(x.device)
        num_training = int((1 - self.validation_fraction) * len(x))
        training, held_out = order[:num_training], order[num_training:]
        estimator = build(theta[training].cpu(), x[training].cpu()).to(x.device)
        optimiser = adam(estimator.parameters(), self.learning_rate, x.device)

        def train(rows: Tensor) -> Tensor:
            return _step(estimator, optimiser, theta[rows], x[rows])

        @torch.no_grad()
        def evaluate(rows: Tensor) -> Tensor:
            return _losses(estimator, theta[rows], x[rows]).sum()

        train_on = replayed(train, x.device, alike=self.steps_alike)
        loss_of = replayed(evaluate, x.device, alike=self.steps_alike)
        best, best_epoch, state = math.inf, 0, estimator.state_dict()
        for epoch in range(1, self.max_epochs + 1):
            estimator.train()
            losses = [train_on(rows) for rows in self._batches(training)]
            estimator.eval()
            held_out_losses = [loss_of(rows) for rows in self._batches(held_out)]
            loss = self._mean(held_out_losses, len(held_out))
            if not math.isfinite(self._mean(losses, num_training) + loss):
                raise ValueError(DIVERGED.format(self.learning_rate))
            if loss < best:
                best, best_epoch = loss, epoch
                state = {name: one.clone() for name, one in estimator.state_dict().items()}
            say(f"Training, epoch {epoch}")
            if epoch - best_epoch >= self.patience:
                break
        estimator.load_state_dict(state)
        estimator.zero_grad(set_to_none=True)
        return estimator, best, epoch

    def _batches(self, rows: Tensor) -> Iterator[Tensor]:
        """Shuffle rows and cut them into batches of one size, without what is left over."""
        # torch's loader, which sbi uses, draws one number more; without it a seed would
        # give another training.
        torch.empty((), dtype=torch.int64, device="cpu").random_()
        shuffled = rows[torch.randperm(len(rows), device="cpu").to(rows.device)]
        size = min(self.batch_size, len(rows))
        for start in range(0, len(rows) - size + 1, size):
            yield shuffled[start : start + size]

    def _mean(self, sums: list[Tensor], num_rows: int) -> float:
        """Average over simulations the sums of losses of batches."""
        return sum(torch.stack(sums).tolist()) / (
            len(sums) * min(self.batch_size, num_rows)
        )


def _step(
    estimator: Any, optimiser: torch.optim.Optimizer, theta: Tensor, x: Tensor
) -> Tensor:
    """Take a step, and return the sum of the losses before it."""
    optimiser.zero_grad()
    losses = _losses(estimator, theta, x)
    losses.mean().backward()
    nn.utils.clip_grad_norm_(estimator.parameters(), MAX_NORM)
    optimiser.step()
    return losses.detach().sum()


def _losses(estimator: Any, theta: Tensor, x: Tensor) -> Tensor:
    """Give what ``estimator.loss`` gives, without a dimension for draws and its checks."""
    encoded = estimator.embedding_net(x).reshape(len(x), -1)
    return -estimator.net(encoded).log_prob(theta)
