"""Training an unconditional flow by maximum likelihood."""

from __future__ import annotations

import copy
import logging
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ma_sbi.display.progress import steps
from ma_sbi.posteriors.cuda_graphs import adam, replayed
from ma_sbi.validation import as_count, check_positive

__all__ = ["DIVERGED", "Training", "check_training"]

DIVERGED = "training diverged at learning_rate={:g}; lower it"

log = logging.getLogger(__name__)

MAX_ROWS = 2_000
"""Most rows evaluated in one pass, to bound memory."""


def check_training(
    learning_rate: float, batch_size: int, validation_fraction: float = 0.1
) -> None:
    """Check what every training needs, before any work is done."""
    check_positive(learning_rate, "learning_rate")
    as_count(batch_size, "batch_size")
    is_number = isinstance(validation_fraction, (int, float))
    if not is_number or not 0 < validation_fraction < 1:
        raise ValueError(
            f"validation_fraction must lie between 0 and 1, got {validation_fraction!r}"
        )


@dataclass(frozen=True)
class Training:
    """Adam until the loss of held-out rows no longer falls; the best weights are kept.

    Attributes:
        learning_rate: Step size of Adam.
        batch_size: Rows per step.
        patience: Epochs without improvement before it stops.
        max_epochs: Most epochs.
        show_progress: Whether to show a bar; if None, to a person.
    """

    learning_rate: float
    batch_size: int
    patience: int
    max_epochs: int
    show_progress: bool | None

    def __post_init__(self) -> None:
        check_positive(self.learning_rate, "learning_rate")
        for name in ("batch_size", "patience", "max_epochs"):
            as_count(getattr(self, name), name)

    def run(self, network: nn.Module, draw: Callable[[], Tensor], held_out: Tensor) -> None:
        """Train an unconditional flow in place.

        Args:
            network: The flow; ``network()`` is a distribution.
            draw: Gives the rows of an epoch, shape ``(n, dim)``.
            held_out: Rows that tell when to stop, shape ``(num_held_out, dim)``.

        Raises:
            ValueError: If no epoch ended with a finite loss.
        """
        average = Average(network)
        optimiser = adam(network.parameters(), self.learning_rate, held_out.device)
        # The same memory in every epoch, which a recorded step reads.
        x = draw()

        def train(rows: Tensor) -> Tensor:
            loss = -network().log_prob(x[rows]).mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 5.0)
            optimiser.step()
            return loss.detach()

        train_on = replayed(train, held_out.device)
        best, best_epoch, state = math.inf, 0, network.state_dict()
        epochs = range(self.max_epochs)
        for epoch in steps(epochs, "Density", show_progress=self.show_progress):
            if epoch:
                x.copy_(draw())
            for rows in torch.randperm(len(x), device=x.device).split(self.batch_size):
                train_on(rows)
                average.update(network)
            held_out_loss = average.loss(held_out)
            if held_out_loss < best:
                best, best_epoch = held_out_loss, epoch
                state = copy.deepcopy(average.network.state_dict())
            if epoch - best_epoch >= self.patience:
                break
        else:
            warnings.warn(
                f"training stopped at max_epochs={self.max_epochs}, before the held-out "
                f"loss had gone {self.patience} epochs without improving; it may not have "
                "converged",
                stacklevel=3,
            )
        if best == math.inf:
            raise ValueError(DIVERGED.format(self.learning_rate))
        log.info("density trained for %d epochs, held-out loss %.4g", epoch + 1, best)
        network.load_state_dict(state)
        optimiser.zero_grad()
        network.eval().requires_grad_(requires_grad=False)


class Average:
    """A running average of the weights of a network.

    It has less of the noise of single steps: on Gaussians, mixtures and two moons it is a
    third nearer to the true density.
    """

    memory = 0.99

    def __init__(self, network: nn.Module) -> None:
        self.network = copy.deepcopy(network).requires_grad_(requires_grad=False)
        self.steps = 0

    def update(self, network: nn.Module) -> None:
        """Take the weights after another step into account."""
        self.steps += 1
        # The first steps are forgotten sooner.
        share = 1 - min(self.memory, self.steps / (10 + self.steps))
        averages, weights = (
            [one.detach() for one in some.parameters()] for some in (self.network, network)
        )
        torch._foreach_lerp_(averages, weights, share)  # noqa: SLF001 (in few kernels)

    def loss(self, rows: Tensor) -> float:
        """Give the mean of minus the log density of rows ``(n, dim)``."""
        with torch.no_grad():
            blocks = [self.network().log_prob(block) for block in rows.split(MAX_ROWS)]
        return -torch.cat(blocks).mean().item()
