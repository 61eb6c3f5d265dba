"""Many small classifiers trained at once, each as scikit-learn would train it.

Tests with equal sample counts share folds, initial weights and batches, so that all
networks are evaluated by one batched matrix product.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from numpy.random import RandomState  # what scikit-learn draws from
from sklearn.model_selection import KFold, train_test_split
from sklearn.utils import shuffle
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

__all__ = ["cross_validated_accuracy"]

# The defaults of sklearn.neural_network.MLPClassifier.
BATCH_SIZE, LEARNING_RATE, L2, TOLERANCE, HELD_OUT = 200, 1e-3, 1e-4, 1e-4, 0.1


def cross_validated_accuracy(
    data: Tensor,
    labels: Tensor,
    *,
    hidden: tuple[int, ...],
    max_epochs: int = 1000,
    patience: int = 50,
    num_folds: int = 5,
    seed: int = 1,
) -> Tensor:
    """Train one relu network per test and fold, and score it on the rows left out.

    Follows ``MLPClassifier(early_stopping=True, random_state=seed)`` under
    ``KFold(shuffle=True, random_state=seed)``: the same splits, initial weights and
    batches, and the same stopping rule. Only rounding differs.

    Args:
        data: Inputs of every test, shape ``(batch, num_rows, dim)``.
        labels: Zeros and ones, the same for every test, shape ``(num_rows,)``.
        hidden: Widths of the hidden layers.
        max_epochs: Largest number of passes over the training rows.
        patience: Passes without a better validation accuracy before a network stops.
        num_folds: Number of folds.
        seed: Seed of the folds and of each network.

    Returns:
        Accuracy averaged over folds, shape ``(batch,)``.

    Example:
        >>> labels = (torch.arange(60) % 2).float()
        >>> data = 8 * torch.stack([labels, -labels])[..., None]
        >>> cross_validated_accuracy(data, labels, hidden=(10,), patience=5)
        tensor([1., 1.])
    """
    accuracies = []
    for rows, test in KFold(num_folds, shuffle=True, random_state=seed).split(labels):
        random = RandomState(seed)
        networks = _Networks((data.shape[2], *hidden, 1), len(data), random)
        train, held_out = train_test_split(
            rows, test_size=HELD_OUT, stratify=labels[rows], random_state=random
        )
        _fit(
            networks,
            (data[:, train], labels[train]),
            (data[:, held_out], labels[held_out]),
            random,
            max_epochs=max_epochs,
            patience=patience,
        )
        accuracies.append(networks.accuracy(data[:, test], labels[test]))
    return torch.stack(accuracies).mean(dim=0, dtype=torch.float64).float()


class _Networks:
    """A batch of relu networks, each with its weights in one row, and Adam's moments.

    Args:
        sizes: Widths of all layers, input and output included.
        count: Number of networks; all start from the same weights.
        random: Generator of the initial weights.
    """

    def __init__(self, sizes: tuple[int, ...], count: int, random: RandomState) -> None:
        self.layers = list(pairwise(sizes))
        matrices, biases = [], []
        for fan_in, fan_out in self.layers:
            bound = (6 / (fan_in + fan_out)) ** 0.5
            matrices.append(random.uniform(-bound, bound, fan_in * fan_out))
            biases.append(random.uniform(-bound, bound, fan_out))
        first = torch.from_numpy(np.concatenate(matrices + biases)).float()
        self.widths = [len(part) for part in matrices + biases]
        self.num_penalised = sum(self.widths[: len(matrices)])
        self.weights = first.repeat(count, 1)
        self.moments = self.weights.new_zeros(2, *self.weights.shape)
        self.step = 0

    def logits(self, weights: Tensor, x: Tensor) -> Tensor:
        """Evaluate each network on its own x, ``(batch, num_rows, dim)``."""
        parts, depth = weights.split(self.widths, dim=1), len(self.layers)
        for index, layer in enumerate(self.layers):
            matrix, bias = parts[index].unflatten(1, layer), parts[depth + index]
            x = torch.baddbmm(bias[:, None], x.relu() if index else x, matrix)
        return x[..., 0]

    @torch.no_grad()
    def accuracy(self, x: Tensor, labels: Tensor) -> Tensor:
        """Score each network, shape ``(batch,)``."""
        right = (self.logits(self.weights, x) > 0) == (labels > 0)
        return right.float().mean(dim=1)

    def update(self, x: Tensor, labels: Tensor) -> None:
        """Take one step of Adam on the penalised log loss."""
        with torch.enable_grad():
            weights = self.weights.requires_grad_()
            logits = self.logits(weights, x)
            loss = binary_cross_entropy_with_logits(
                logits, labels.expand_as(logits), reduction="sum"
            )
            (gradient,) = torch.autograd.grad(loss, weights)
        self.weights = weights.detach()
        penalised = slice(self.num_penalised)
        gradient[:, penalised] += L2 * self.weights[:, penalised]
        gradient /= len(labels)
        mean, square = self.moments
        mean.lerp_(gradient, 0.1)
        square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        self.step += 1
        rate = LEARNING_RATE * (1 - 0.999**self.step) ** 0.5 / (1 - 0.9**self.step)
        self.weights.addcdiv_(mean, square.sqrt().add_(1e-8), value=-rate)

    def keep(self, which: Tensor) -> None:
        """Keep only these networks."""
        self.weights, self.moments = self.weights[which], self.moments[:, which]


def _fit(
    networks: _Networks,
    train: tuple[Tensor, Tensor],
    held_out: tuple[Tensor, Tensor],
    random: RandomState,
    *,
    max_epochs: int,
    patience: int,
) -> None:
    """Train until each network's accuracy on held-out rows stalls; keep its best.

    A network that has stopped leaves the batch, so that it costs no more time.
    """
    (x, labels), (x_held_out, labels_held_out) = train, held_out
    best = networks.weights.clone()
    best_accuracy = x.new_full((len(x),), -torch.inf)
    running, stalled = torch.arange(len(x)), torch.zeros(len(x))
    order = np.arange(len(labels))
    for _ in range(max_epochs):
        order = shuffle(order, random_state=random)
        for rows in torch.from_numpy(order).split(BATCH_SIZE):
            networks.update(x[:, rows], labels[rows])
        accuracy = networks.accuracy(x_held_out, labels_held_out)
        gain = accuracy - best_accuracy[running]
        stalled = torch.where(gain < TOLERANCE, stalled + 1, 0)
        best[running[gain > 0]] = networks.weights[gain > 0]
        best_accuracy[running[gain > 0]] = accuracy[gain > 0]
        keep = stalled <= patience
        if not keep.any():
            break
        if not keep.all():
            networks.keep(keep)
            running, stalled = running[keep], stalled[keep]
            x, x_held_out = x[keep], x_held_out[keep]
    networks.weights = best
