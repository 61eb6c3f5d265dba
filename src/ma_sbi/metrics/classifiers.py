"""Many small classifiers trained at once, each as scikit-learn would train it.

Tests with equal sample counts share folds, initial weights and batches, so that the
networks of all tests and folds are evaluated by one batched matrix product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy.random import RandomState  # what scikit-learn draws from
from sklearn.model_selection import KFold, train_test_split
from torch import Tensor

__all__ = ["cross_validated_accuracy"]

# The defaults of sklearn.neural_network.MLPClassifier.
BATCH_SIZE, LEARNING_RATE, L2, TOLERANCE, HELD_OUT = 200, 1e-3, 1e-4, 1e-4, 0.1
# What these compute then stays in the cache of a processor; another device takes all.
NETWORKS_AT_ONCE = 20


@torch.no_grad()
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
    splits = list(KFold(num_folds, shuffle=True, random_state=seed).split(labels.cpu()))
    # Folds of one size are trained together: where the rows cannot be divided evenly,
    # some have one more.
    by_size = [[s for s in splits if len(s[1]) == n] for n in {len(t) for _, t in splits}]
    on_processor = data.device.type == "cpu"
    at_once = max(1, NETWORKS_AT_ONCE // num_folds) if on_processor else len(data)
    settings = (labels, hidden, max_epochs, patience, seed)
    sums = [
        torch.stack([_accuracies(some, part, *settings) for some in by_size]).sum(dim=0)
        for part in data.split(at_once)
    ]
    return (torch.cat(sums) / num_folds).float()


def _accuracies(
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    data: Tensor,
    labels: Tensor,
    hidden: tuple[int, ...],
    max_epochs: int,
    patience: int,
    seed: int,
) -> Tensor:
    """Train and score the networks of some folds; sum their accuracies, ``(batch,)``."""
    sizes = (data.shape[2], *hidden, 1)
    randoms = [RandomState(seed) for _ in splits]
    weights = np.stack([_initial_weights(sizes, random) for random in randoms])
    parts = [
        train_test_split(
            rows, test_size=HELD_OUT, stratify=labels[rows].cpu(), random_state=random
        )
        for (rows, _), random in zip(splits, randoms, strict=True)
    ]
    train, held_out = (np.stack(rows) for rows in zip(*parts, strict=True))
    networks = _Networks(sizes, torch.from_numpy(weights).to(data), len(data))
    _fit(
        networks,
        _Rows.of(data, labels, train),
        _Rows.of(data, labels, held_out),
        randoms,
        max_epochs=max_epochs,
        patience=patience,
    )
    test = _Rows.of(data, labels, np.stack([rows for _, rows in splits]))
    return networks.accuracy(test).unflatten(0, (len(splits), -1)).double().sum(dim=0)


def _initial_weights(sizes: tuple[int, ...], random: RandomState) -> np.ndarray:
    """Draw the weights that a network starts from: matrices, then biases."""
    matrices, biases = [], []
    for fan_in, fan_out in pairwise(sizes):
        bound = (6 / (fan_in + fan_out)) ** 0.5
        matrices.append(random.uniform(-bound, bound, fan_in * fan_out))
        biases.append(random.uniform(-bound, bound, fan_out))
    return np.concatenate(matrices + biases)


class _Rows(NamedTuple):
    """Some rows of the data of every network, folds one after another.

    Attributes:
        x: Inputs, shape ``(num_networks, num_rows, dim)``.
        labels: Zeros and ones, shape ``(num_networks, num_rows)``.
    """

    x: Tensor
    labels: Tensor

    @classmethod
    def of(cls, data: Tensor, labels: Tensor, rows: np.ndarray) -> _Rows:
        """Take the rows of each fold, ``(num_folds, num_rows)``, from every test."""
        which = torch.from_numpy(rows).to(data.device)
        x = data[:, which].transpose(0, 1).flatten(0, 1)
        return cls(x, labels[which].repeat_interleave(len(data), dim=0))

    def keep(self, which: Tensor) -> _Rows:
        """Take those of some networks."""
        return _Rows(self.x[which], self.labels[which])

    def batches(self, order: Tensor) -> Iterator[_Rows]:
        """Put the rows of each network in its order, and cut them into batches."""
        first = len(order[0]) * torch.arange(len(order), device=order.device)
        flat = (order + first[:, None]).flatten()
        x = self.x.flatten(0, 1).index_select(0, flat).view_as(self.x)
        labels = self.labels.flatten().index_select(0, flat).view_as(self.labels)
        pieces = x.split(BATCH_SIZE, dim=1), labels.split(BATCH_SIZE, dim=1)
        return (_Rows(*pair) for pair in zip(*pieces, strict=True))


class _Networks:
    """A batch of relu networks, each with its weights in one row, and Adam's moments.

    Args:
        sizes: Widths of all layers, input and output included.
        first: Initial weights of each fold, shape ``(num_folds, num_weights)``.
        count: Number of networks of each fold.
    """

    def __init__(self, sizes: tuple[int, ...], first: Tensor, count: int) -> None:
        self.layers = list(pairwise(sizes))
        matrices = [fan_in * fan_out for fan_in, fan_out in self.layers]
        self.widths = [*matrices, *sizes[1:]]
        self.num_penalised = sum(matrices)
        self.weights = first.repeat_interleave(count, dim=0)
        self.moments = self.weights.new_zeros(2, *self.weights.shape)
        self.step = 0

    def _split(self) -> tuple[list[Tensor], Sequence[Tensor]]:
        """Give the matrices and biases of each layer, of all networks."""
        parts, depth = self.weights.split(self.widths, dim=1), len(self.layers)
        matrices = [
            part.unflatten(1, layer)
            for part, layer in zip(parts[:depth], self.layers, strict=True)
        ]
        return matrices, parts[depth:]

    def _evaluate(self, x: Tensor) -> list[Tensor]:
        """Give what every layer is shown, and last the logits ``(batch, rows, 1)``."""
        shown = [x]
        for matrix, bias in zip(*self._split(), strict=True):
            x = _product(shown[-1], matrix).add_(bias[:, None])
            shown.append(x if len(shown) == len(self.layers) else x.relu_())
        return shown

    def accuracy(self, rows: _Rows) -> Tensor:
        """Score each network, shape ``(batch,)``."""
        right = (self._evaluate(rows.x)[-1][..., 0] > 0) == (rows.labels > 0)
        return right.float().mean(dim=1)

    def update(self, rows: _Rows) -> None:
        """Take one step of Adam on the penalised log loss."""
        gradient = self._gradient(rows)
        penalised = slice(self.num_penalised)
        gradient[:, penalised] += L2 * self.weights[:, penalised]
        gradient /= rows.labels.shape[1]
        mean, square = self.moments
        mean.lerp_(gradient, 0.1)
        square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        self.step += 1
        rate = LEARNING_RATE * (1 - 0.999**self.step) ** 0.5 / (1 - 0.9**self.step)
        self.weights.addcdiv_(mean, square.sqrt().add_(1e-8), value=-rate)

    def _gradient(self, rows: _Rows) -> Tensor:
        """Differentiate the summed log loss, quicker than autograd does."""
        shown, (matrices, _) = self._evaluate(rows.x), self._split()
        error = shown.pop().sigmoid_() - rows.labels[..., None]
        by_matrix, by_bias = [], []
        for depth in reversed(range(len(self.layers))):
            by_matrix.append(_product(shown[depth].mT, error).flatten(1))
            by_bias.append(error.sum(dim=1))
            if depth:
                error = _product(error, matrices[depth].mT)
                error.mul_(shown[depth].sign())  # 0 or 1, after relu
        return torch.cat(by_matrix[::-1] + by_bias[::-1], dim=1)

    def keep(self, which: Tensor) -> None:
        """Keep only these networks."""
        self.weights, self.moments = self.weights[which], self.moments[:, which]


def _product(first: Tensor, second: Tensor) -> Tensor:
    """Multiply matrices of a batch; vectors without the matrix product, which is slow."""
    if first.shape[2] == 1:
        return first * second
    if second.shape[2] == 1:
        return (first * second.mT).sum(dim=2, keepdim=True)
    return torch.bmm(first, second)


def _fit(
    networks: _Networks,
    train: _Rows,
    held_out: _Rows,
    randoms: Sequence[RandomState],
    *,
    max_epochs: int,
    patience: int,
) -> None:
    """Train until each network's accuracy on held-out rows stalls; keep its best.

    A network that has stopped leaves the batch, so that it costs no more time.
    """
    device, num_rows = train.x.device, train.x.shape[1]
    best = networks.weights.clone()
    best_accuracy = train.x.new_full((len(best),), -torch.inf)
    running = torch.arange(len(best), device=device)
    stalled = torch.zeros(len(best), device=device)
    fold = running // (len(best) // len(randoms))
    orders = [np.arange(num_rows) for _ in randoms]
    for _ in range(max_epochs):
        # What sklearn.utils.shuffle does, without its checks.
        orders = [o[r.permutation(num_rows)] for o, r in zip(orders, randoms, strict=True)]
        for batch in train.batches(torch.from_numpy(np.stack(orders)).to(device)[fold]):
            networks.update(batch)
        accuracy = networks.accuracy(held_out)
        gain = accuracy - best_accuracy[running]
        stalled = torch.where(gain < TOLERANCE, stalled + 1, 0)
        best[running[gain > 0]] = networks.weights[gain > 0]
        best_accuracy[running[gain > 0]] = accuracy[gain > 0]
        keep = stalled <= patience
        if not keep.any():
            break
        if not keep.all():
            networks.keep(keep)
            train, held_out = train.keep(keep), held_out.keep(keep)
            running, stalled, fold = running[keep], stalled[keep], fold[keep]
    networks.weights = best
