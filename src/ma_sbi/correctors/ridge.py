"""Fitting in closed form, with regularisation chosen by the marginal likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from ma_sbi.correctors.fitting import Hypotheses, Triples
from ma_sbi.randomness import generator
from ma_sbi.scaling import median_distance
from ma_sbi.storing.forms import stored

__all__ = ["KernelFit", "Ridge"]

# The width is a coarse choice, for which some thousand rows are enough.
ROWS_FOR_WIDTH = 2_000


@stored()
@dataclass(frozen=True)
class Ridge:
    r"""Kernel ridge regression in closed form: the recipe ``"converged"``.

    The coefficients are a common part plus a Gaussian process over the encoding. The common
    shift is not regularised; slopes of a departure that depends on x are, both their common
    part and the deviations from it. Kernel width and ratio of noise to signal (the
    regularisation) maximise the marginal likelihood: noiseless regime shifts are recovered
    exactly, noisy ones are averaged within a regime, and an uninformative context gives
    only the common part. So does, in the limit, a context many kernel widths away from all
    calibration contexts; nearer, it is extrapolated. A missing context gets the average
    over the triples, unless contexts are missing there as well and so form a regime.

    Up to ``max_landmarks`` distinct contexts the solution is exact; above, it uses that
    many randomly chosen ones (Nystroem). Time and memory are linear in the number
    of triples.

    Attributes:
        max_landmarks: Most distinct contexts that the kernel is centred on.
        widths: Kernel widths tried, in units of the median distance of contexts.
        rounding: Residuals of less than this share of the variance are rounding, not
            noise: a width that explains them, too, is not preferred for it. The more
            triples, the more a smaller value lets rounding decide the width, on which
            contexts that were never seen depend.
    """

    paired: ClassVar[Literal[True]] = True

    max_landmarks: int = 512
    widths: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    rounding: float = 1e-14

    def fit(self, triples: Triples, *, seed: int | None = None) -> KernelFit:
        """Solve in closed form; the seed chooses landmarks where there are too many."""
        return self._solve(triples, seed)[0]

    def fit_and_leave_out(
        self, triples: Triples, *, seed: int | None = None
    ) -> tuple[KernelFit, Tensor]:
        """Fit, and return what the fit to all other triples leaves of each one.

        Returns:
            The fit, and residuals of shape ``(n, dim_x)``. Kernel width and
            regularisation are those of the whole fit.
        """
        fitted, solution = self._solve(triples, seed)
        return fitted, solution.left_out()

    def _solve(self, triples: Triples, seed: int | None) -> tuple[KernelFit, _Solution]:
        rng = generator(0 if seed is None else seed, triples.delta.device)
        landmarks = _choose(triples.encoding, self.max_landmarks, rng)
        unit = median_distance(landmarks)
        few = _choose(torch.arange(len(triples)).to(triples.codes), ROWS_FOR_WIDTH, rng)
        subset = triples.rows(few)
        kernels = [_Kernel.build(landmarks, unit * width) for width in self.widths]
        kernel = kernels[0]
        if len(kernels) > 1:
            kernel = max(
                kernels,
                key=lambda one: _maximise_evidence(one, subset, self.rounding).log_evidence,
            )
        solution = _maximise_evidence(kernel, triples, self.rounding)
        common, deviation = solution.coefficients()
        count = triples.codes.bincount(minlength=len(triples.encoding)).to(common)
        parts = zip(
            triples.encoding.split(kernel.chunk), count.split(kernel.chunk), strict=True
        )
        features = sum(kernel(encoding).T @ rows for encoding, rows in parts)
        average = common + torch.einsum("m,mqd->qd", features / count.sum(), deviation)
        return KernelFit(kernel, common, deviation, average), solution


@stored(common="basis dim_x", deviation="rank basis dim_x", average="basis dim_x")
@dataclass(frozen=True)
class KernelFit:
    """What :class:`Ridge` fitted."""

    kernel: _Kernel
    common: Tensor
    deviation: Tensor
    average: Tensor

    def __call__(self, encoding: Tensor) -> Hypotheses:
        """Map contexts ``(n, dim_z)`` to one hypothesis each."""
        encoding = encoding.to(self.common)
        parts = [
            torch.einsum("nm,mqd->nqd", self.kernel(part), self.deviation)
            for part in encoding.split(self.kernel.chunk)
        ]
        coefficients = self.common + torch.cat(parts)
        if not self.kernel.landmarks.isnan().any():
            coefficients[encoding.isnan().any(dim=1)] = self.average
        return Hypotheses.single(coefficients)


@stored(landmarks="landmarks dim_z?", whitener="landmarks rank")
@dataclass(frozen=True)
class _Kernel:
    """Finite features of a Gaussian kernel: ``features(z) @ features(z')`` is k(z, z').

    Missing contexts, rows of NaN, are equal to each other and unlike all others.
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

    @property
    def chunk(self) -> int:
        """Contexts to take at once, so that their Gram matrix stays in cache."""
        return max(1, 2**20 // len(self.landmarks))


def _gaussian_gram(first: Tensor, second: Tensor, width: float) -> Tensor:
    missing = first.isnan().any(dim=1)[:, None], second.isnan().any(dim=1)
    first, second = first.nan_to_num(), second.nan_to_num()
    first_norm, second_norm = first.square().sum(1), second.square().sum(1)
    squared = torch.addmm(second_norm, first, second.T, alpha=-2).add_(first_norm[:, None])
    gram = squared.clamp_(min=0.0).mul_(-0.5 / width**2).exp_()
    return gram.mul_(missing[0] == missing[1])


@dataclass(frozen=True)
class _Design:
    """The regressors of each triple: features of its context times basis of its x.

    A column of ones next to the kernel's features stands for the common part.
    """

    kernel: _Kernel
    triples: Triples

    @cached_property
    def size(self) -> int:
        """Number of columns."""
        return (self.kernel.whitener.shape[1] + 1) * self.triples.basis.shape[1]

    @cached_property
    def _table(self) -> Tensor | None:
        """The features of every distinct context, unless that takes too much memory."""
        encoding = self.triples.encoding
        return self._features(encoding) if len(encoding) <= self._chunk else None

    @property
    def _chunk(self) -> int:
        return max(1, 2**20 // max(self.size, len(self.kernel.landmarks)))

    def _features(self, encoding: Tensor) -> Tensor:
        features = self.kernel(encoding)
        return torch.cat([features, features.new_ones(len(features), 1)], dim=1)

    def parts(self) -> tuple[Tensor, ...]:
        """Cut the triples into parts whose rows of the design fit into the cache."""
        rows = torch.arange(len(self.triples), device=self.triples.codes.device)
        return rows.split(self._chunk)

    def __call__(self, rows: Tensor | slice = slice(None)) -> Tensor:
        """Return some rows, shape ``(num_rows, size)``."""
        features, basis = self._factors(rows)
        return torch.einsum("nm,nq->nmq", features, basis).flatten(1)

    def of_rows(self) -> tuple[Tensor, Tensor]:
        """Return the products of all rows with each other, and the mean row."""
        features, basis = self._factors(slice(None))
        mean = features.T @ basis / len(basis)
        return (features @ features.T) * (basis @ basis.T), mean.flatten()

    def _factors(self, rows: Tensor | slice) -> tuple[Tensor, Tensor]:
        """Return the features and the basis of some rows, which are multiplied."""
        codes = self.triples.codes[rows]
        if self._table is None:
            features = self._features(self.triples.encoding[codes])
        else:
            features = self._table[codes]
        return features, self.triples.basis[rows]


@dataclass(frozen=True)
class _Solution:
    """The coefficients of largest evidence, under one kernel.

    Attributes:
        log_evidence: Log marginal likelihood.
        design: The regressors.
        spectrum: The design, decomposed.
        shrinkage: Factor of each of its directions, shape ``(rank,)``.
        shift: Mean departure, shape ``(dim_x,)``.
    """

    log_evidence: float
    design: _Design
    spectrum: _Spectrum
    shrinkage: Tensor
    shift: Tensor

    @cached_property
    def weights(self) -> Tensor:
        """Coefficients of the columns of the design, shape ``(size, dim_x)``."""
        values, vectors, rotated, mean, is_of_rows = self.spectrum
        if not is_of_rows:
            return vectors @ (rotated * self.shrinkage[:, None])
        of_rows = vectors @ (rotated * (self.shrinkage / values.sqrt())[:, None])
        return (self.design() - mean).T @ of_rows

    def coefficients(self) -> tuple[Tensor, Tensor]:
        """Return the common coefficients and the deviations of each feature."""
        num_basis = self.design.triples.basis.shape[1]
        *deviation, common = self.weights.reshape(-1, num_basis, len(self.shift))
        common = common.clone()
        common[0] += self.shift - self.spectrum.mean @ self.weights
        return common, torch.stack(deviation)

    def left_out(self) -> Tensor:
        """Return the residual of each triple under the fit to all others.

        Leaving a triple out of a linear fit multiplies its residual by ``1 / (1 - h)``,
        with h its weight in its own prediction; ``(n, dim_x)``.
        """
        triples = self.design.triples
        coefficients = self.spectrum.rotated * self.shrinkage[:, None]
        residuals = []
        for rows in self.design.parts():
            along = self.spectrum.along(self.design, rows)
            own = along.square() @ self.shrinkage
            free = (1 - 1 / len(triples) - own).clamp(min=1e-8)
            left = triples.delta[rows] - self.shift - along @ coefficients
            residuals.append(left / free[:, None])
        return torch.cat(residuals)


def _maximise_evidence(kernel: _Kernel, triples: Triples, rounding: float) -> _Solution:
    """Fit the common part and the deviations at the noise ratio of largest evidence.

    The common shift has a flat prior and is integrated out (restricted maximum likelihood),
    so that a regime with most of the rows is not mistaken for the common part. Common
    slopes have the prior of the deviations: there may be more of them than rows.
    """
    dim_x = triples.delta.shape[1]
    shift = triples.delta.mean(dim=0)
    residual = triples.delta - shift
    total = residual.square().sum(dim=0)
    design = _Design(kernel, triples)
    spectrum = _spectrum(design, residual)
    values, rotated = spectrum.values, spectrum.rotated
    # Ratio of noise to signal variance. One for all dimensions of x, each of which has its
    # own noise level: a few regimes are too few to estimate a ratio from one dimension.
    ratios = torch.logspace(-12, 6, 181).to(values) * values[-1].clamp(min=1e-200)
    inverse = 1.0 / (values[:, None] + ratios)
    explained = torch.einsum("sd,sr->rd", rotated.square(), inverse)
    floor = total.clamp(min=1e-200) * rounding
    freedom = max(1, len(triples) - 1)
    noise = (total - explained).clamp(min=floor) / freedom
    complexity = torch.log1p(values[:, None] / ratios).sum(dim=0)
    log_evidence = -0.5 * (freedom * noise.log().sum(dim=1) + dim_x * complexity)
    best = int(log_evidence.argmax())
    return _Solution(log_evidence[best].item(), design, spectrum, inverse[:, best], shift)


class _Spectrum(NamedTuple):
    """The design matrix, decomposed.

    Attributes:
        values: Eigenvalues of its Gram matrix, shape ``(rank,)``.
        vectors: Eigenvectors, shape ``(num_columns, rank)`` or ``(num_rows, rank)``.
        rotated: The residual along them, shape ``(rank, dim_x)``.
        mean: Means of its columns, shape ``(num_columns,)``.
        is_of_rows: Whether the Gram matrix is that of the rows.
    """

    values: Tensor
    vectors: Tensor
    rotated: Tensor
    mean: Tensor
    is_of_rows: bool

    def along(self, design: _Design, rows: Tensor) -> Tensor:
        """Return some rows of the design along its directions, ``(num_rows, rank)``."""
        if self.is_of_rows:
            return self.vectors[rows] * self.values.sqrt()
        return (design(rows) - self.mean) @ self.vectors


def _spectrum(design: _Design, residual: Tensor) -> _Spectrum:
    """Decompose the design, with the common shift projected out of it.

    The Gram matrix is that of the rows or of the columns, whichever is smaller; that of
    the columns is summed chunk by chunk, so that memory does not grow with the number of
    triples, and that of the rows needs no column of the design.
    """
    if len(residual) < design.size:
        gram, mean = design.of_rows()
        scale, common = gram.trace(), gram.mean(dim=0)
        values, vectors = torch.linalg.eigh(gram - common - common[:, None] + common.mean())
        values, vectors = _without_rounding(values, vectors, scale)
        rotated = values.sqrt()[:, None] * (vectors.T @ residual)
        return _Spectrum(values, vectors, rotated, mean, is_of_rows=True)
    gram = residual.new_zeros(design.size, design.size)
    mean = residual.new_zeros(design.size)
    moment = residual.new_zeros(design.size, residual.shape[1])
    for rows in design.parts():
        matrix = design(rows)
        gram += matrix.T @ matrix
        mean += matrix.sum(dim=0) / len(residual)
        moment += matrix.T @ residual[rows]
    values, vectors = torch.linalg.eigh(gram - len(residual) * torch.outer(mean, mean))
    values, vectors = _without_rounding(values, vectors, gram.trace())
    return _Spectrum(values, vectors, vectors.T @ moment, mean, is_of_rows=False)


def _without_rounding(
    values: Tensor, vectors: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor]:
    """Keep the eigenvalues above rounding error, and at least the largest."""
    least = 1e-14 * scale
    keep = values > least
    keep[-1] = True
    return values[keep].clamp(min=least), vectors[:, keep]


def _choose(values: Tensor, count: int, rng: torch.Generator | None) -> Tensor:
    if len(values) <= count:
        return values
    return values[torch.randperm(len(values), generator=rng, device=values.device)[:count]]
