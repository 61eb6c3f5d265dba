r"""Fitting: from calibration triples to coefficients as a function of the context.

Both ways minimise the loss of Eq. 2, :math:`\sum_i \|\delta_i - \hat\delta(z_i)\|^2`:
:class:`Ridge` in closed form with the regularisation that the data ask for,
:class:`Network` with the paper's optimiser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from ma_sbi.networks import perceptron
from ma_sbi.randomness import generator, seeded

__all__ = ["Coefficients", "Fitting", "Network", "Ridge", "Triples"]


@dataclass(frozen=True)
class Triples:
    """Calibration data as the fit sees it.

    Attributes:
        encoding: Encoded distinct contexts, shape ``(num_distinct, dim_z)``.
        codes: Which of them each row has, shape ``(n,)``.
        basis: Basis of the departure at each observation, shape ``(n, num_basis)``.
        delta: Observed minus simulated, shape ``(n, dim_x)``.
    """

    encoding: Tensor
    codes: Tensor
    basis: Tensor
    delta: Tensor

    def __len__(self) -> int:
        return len(self.codes)

    def rows(self, index: Tensor) -> Triples:
        """Select calibration rows."""
        return Triples(
            self.encoding, self.codes[index], self.basis[index], self.delta[index]
        )


class Coefficients(Protocol):
    """A fitted map from encoded contexts to coefficients of the departure."""

    def __call__(self, encoding: Tensor) -> Tensor:
        """Map ``(n, dim_z)`` to ``(n, num_basis, dim_x)``."""
        ...


class Fitting(Protocol):
    """A way to fit coefficients."""

    def fit(self, triples: Triples, *, seed: int | None = None) -> Coefficients:
        """Fit to calibration triples."""
        ...


@dataclass(frozen=True)
class Ridge:
    r"""Kernel ridge regression in closed form: the recipe ``"converged"``.

    The coefficients are a common part, fitted by least squares, plus a Gaussian process
    over the encoding. Kernel width and noise level (hence the regularisation, one per
    dimension of x) maximise the marginal likelihood, so that noiseless regime shifts are
    recovered exactly, noisy ones are averaged within a regime, and a context that tells
    nothing leaves only the common part. A context unlike any that was seen, or missing,
    gets the common part too; missing contexts among the triples form a regime.

    Up to ``max_landmarks`` distinct contexts the solution is exact; beyond, it lives on
    that many randomly chosen ones (Nystroem). Time and memory are linear in the number
    of triples.

    Attributes:
        max_landmarks: Most distinct contexts that the kernel is centred on.
        widths: Kernel widths tried, in units of the median distance of contexts.
    """

    max_landmarks: int = 512
    widths: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)

    def fit(self, triples: Triples, *, seed: int | None = None) -> KernelCoefficients:
        """Solve in closed form; the seed only chooses landmarks beyond the limit."""
        rng = generator(0 if seed is None else seed, triples.delta.device)
        common = _least_squares(triples.basis, triples.delta)
        residual = triples.delta - triples.basis @ common
        centred = Triples(triples.encoding, triples.codes, triples.basis, residual)

        landmarks = _choose(triples.encoding, self.max_landmarks, rng)
        unit = _median_distance(landmarks)
        # The width is a coarse choice: some thousand rows decide it as well as a million.
        few = _choose(torch.arange(len(triples)).to(triples.codes), 10_000, rng)
        subset = centred.rows(few)
        kernels = [_Kernel.build(landmarks, unit * width) for width in self.widths]
        kernel = max(kernels, key=lambda kernel: _evidence(kernel, subset)[0])
        _, deviation = _evidence(kernel, centred)
        return KernelCoefficients(kernel, common, deviation)


@dataclass(frozen=True)
class KernelCoefficients:
    """Coefficients fitted by :class:`Ridge`."""

    kernel: _Kernel
    common: Tensor
    deviation: Tensor

    def __call__(self, encoding: Tensor) -> Tensor:
        """Map ``(n, dim_z)`` to ``(n, num_basis, dim_x)``."""
        features = self.kernel(encoding.to(self.common))
        return self.common + torch.einsum("nm,mqd->nqd", features, self.deviation)


@dataclass(frozen=True)
class _Kernel:
    """Finite features of a Gaussian kernel: ``features(z) @ features(z')`` is k(z, z').

    The zero vector, which is how a missing context is encoded, is unrelated to all others.
    """

    landmarks: Tensor
    width: float
    whitener: Tensor

    @classmethod
    def build(cls, landmarks: Tensor, width: float) -> _Kernel:
        gram = _gaussian_gram(landmarks, landmarks, width)
        values, vectors = torch.linalg.eigh(gram)
        keep = values > 1e-10 * values[-1]
        return cls(landmarks, width, vectors[:, keep] / values[keep].sqrt())

    def __call__(self, encoding: Tensor) -> Tensor:
        return _gaussian_gram(encoding, self.landmarks, self.width) @ self.whitener


def _gaussian_gram(first: Tensor, second: Tensor, width: float) -> Tensor:
    first_norm, second_norm = first.square().sum(1), second.square().sum(1)
    squared = torch.addmm(second_norm, first, second.T, alpha=-2).add_(first_norm[:, None])
    gram = squared.clamp_(min=0.0).mul_(-0.5 / width**2).exp_()
    related = (first != 0).any(dim=1)[:, None] == (second != 0).any(dim=1)
    return gram.mul_(related)


def _evidence(kernel: _Kernel, triples: Triples) -> tuple[float, Tensor]:
    """Fit the deviation from the common part at the noise level of most evidence.

    Returns:
        The log marginal likelihood and the coefficients ``(num_features, num_basis,
        dim_x)``.
    """
    num_features = kernel.whitener.shape[1]
    num_basis, dim_x = triples.basis.shape[1], triples.delta.shape[1]
    size = num_features * num_basis
    gram = triples.delta.new_zeros(size, size)
    moment = triples.delta.new_zeros(size, dim_x)
    # Chunks that stay in cache, whatever the number of triples.
    chunk = max(1, 2**20 // max(size, len(kernel.landmarks)))
    table = kernel(triples.encoding) if len(triples.encoding) <= chunk else None
    for rows in torch.arange(len(triples)).to(triples.codes).split(chunk):
        codes = triples.codes[rows]
        features = kernel(triples.encoding[codes]) if table is None else table[codes]
        design = torch.einsum("nm,nq->nmq", features, triples.basis[rows]).flatten(1)
        gram += design.T @ design
        moment += design.T @ triples.delta[rows]
    total = triples.delta.square().sum(dim=0)

    values, vectors = torch.linalg.eigh(gram)
    values = values.clamp(min=0.0)
    rotated = vectors.T @ moment
    # Ratio of noise to signal variance, one grid for all dimensions of x.
    ratios = torch.logspace(-12, 6, 181).to(gram) * values[-1].clamp(min=1e-200)
    inverse = 1.0 / (values[:, None] + ratios)
    explained = torch.einsum("sd,sr->rd", rotated.square(), inverse)
    # Rounding, not noise, limits how small a residual can be seen.
    floor = total.clamp(min=1e-200) * 1e-14
    noise = (total - explained).clamp(min=floor) / len(triples)
    complexity = torch.log1p(values[:, None] / ratios).sum(dim=0)
    log_evidence = -0.5 * (len(triples) * noise.log() + complexity[:, None])
    best = log_evidence.argmax(dim=0)
    weights = vectors @ (rotated * inverse[:, best])
    score = log_evidence.gather(0, best[None]).sum().item()
    return score, weights.reshape(num_features, num_basis, dim_x)


def _least_squares(basis: Tensor, delta: Tensor) -> Tensor:
    gram = basis.T @ basis
    jitter = 1e-10 * gram.diagonal().mean() * torch.eye(len(gram)).to(gram)
    return torch.linalg.solve(gram + jitter, basis.T @ delta)


def _choose(values: Tensor, count: int, rng: torch.Generator | None) -> Tensor:
    if len(values) <= count:
        return values
    return values[torch.randperm(len(values), generator=rng, device=values.device)[:count]]


def _median_distance(points: Tensor) -> float:
    distance = torch.pdist(points)
    distance = distance[distance > 0]
    return distance.median().item() if len(distance) else 1.0


@dataclass(frozen=True)
class Network:
    """A multilayer perceptron trained with Adam: the recipe ``"paper"``.

    The defaults are those of the paper's appendix. At n_cal = 100 they make 30 optimiser
    steps, which is far from convergence.

    Attributes:
        layers: Number of linear layers.
        hidden: Width of the layers between.
        learning_rate: Step size of Adam.
        batch_size: Rows per step.
        epochs: Passes through the triples.
        weight_decay: Weight decay of Adam.
    """

    layers: int = 3
    hidden: int = 128
    learning_rate: float = 1e-3
    batch_size: int = 256
    epochs: int = 30
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "batch_size", "epochs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")

    def fit(self, triples: Triples, *, seed: int | None = None) -> NetworkCoefficients:
        """Train the network."""
        device = triples.delta.device
        encoding, basis, delta = (
            values.float() for values in (triples.encoding, triples.basis, triples.delta)
        )
        shape = (basis.shape[1], delta.shape[1])
        with torch.enable_grad(), seeded(seed, device):
            network = perceptron(
                encoding.shape[1],
                shape[0] * shape[1],
                layers=self.layers,
                hidden=self.hidden,
            ).to(device)
            optimiser = torch.optim.Adam(
                network.parameters(),
                lr=self.learning_rate,
                weight_decay=self.weight_decay,
            )
            for _ in range(self.epochs):
                order = torch.randperm(len(triples), device=device)
                for rows in order.split(self.batch_size):
                    coefficients = network(encoding[triples.codes[rows]])
                    predicted = torch.einsum(
                        "nq,nqd->nd", basis[rows], coefficients.unflatten(1, shape)
                    )
                    loss = (delta[rows] - predicted).square().sum(dim=1).mean()
                    optimiser.zero_grad()
                    loss.backward()
                    optimiser.step()
        return NetworkCoefficients(
            network.eval().requires_grad_(requires_grad=False), shape
        )


@dataclass(frozen=True)
class NetworkCoefficients:
    """Coefficients fitted by :class:`Network`."""

    network: nn.Module
    shape: tuple[int, int]

    def __call__(self, encoding: Tensor) -> Tensor:
        """Map ``(n, dim_z)`` to ``(n, num_basis, dim_x)``."""
        with torch.no_grad():
            return self.network(encoding.float()).unflatten(1, self.shape)
