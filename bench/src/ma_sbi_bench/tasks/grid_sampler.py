"""Independent draws from any density of a few dimensions on a box."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "LogDensity",
    "integrate_on_grid",
    "integrate_on_turned_grid",
    "sample_on_grid",
    "sample_on_turned_grid",
]

LogDensity = Callable[[Tensor], Tensor]
"""Points ``(num, B, dim)`` to unnormalised log densities ``(num, B)``, one per row."""

# Cells this many nats below the highest one hold next to no mass.
DEPTH = 20.0
# An integral may leave out more than draws may: what is lost is a millionth.
INTEGRAL_DEPTH = 14.0
# A dimension with no more nodes is one in which the density changes little everywhere.
FEW_NODES = 8
MAX_ZOOMS = 12
# Points whose density is evaluated together: bounds the memory.
POINTS_AT_ONCE = 2**14
# To find its axes a density is flattened, so that a ridge between cells' centres is seen.
FLATTENING = 4.0
# A density that is too sharp for the cells is blunted, and sharpened in steps of this: a
# step leaves it wide enough for the cells of the axes that the step before has found.
SHARPENING = 4.0
# Half the width of the turned box, in standard deviations of the flattened density.
HALF_WIDTH = 6.0


def sample_on_grid(
    log_density: LogDensity,
    lower: Tensor,
    upper: Tensor,
    num_samples: int,
    *,
    cells: Sequence[int],
    steps: int,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw from B densities at once, each on its own box.

    The box is shrunk to where the mass is and cut into cells; a cell is drawn by the
    densities at its centre and its neighbours', a point uniformly inside it. A fixed
    number of independence Metropolis steps, with that proposal and the exact density,
    removes the error of the grid. Every draw is the end of a chain of its own, so draws
    are independent.

    Args:
        log_density: What to draw from; ``-inf`` is allowed.
        lower: Lower corners of the boxes, shape ``(B, dim)``, float64.
        upper: Upper corners, shape ``(B, dim)``.
        num_samples: Number of draws for each row.
        cells: Number of cells along each dimension.
        steps: Number of Metropolis steps. Where the grid proposes ``w`` times too
            rarely, a share ``(1 - 1 / w) ** steps`` of the error is left.
        generator: Source of randomness; torch's global generator if None.

    Returns:
        Draws of shape ``(num_samples, B, dim)``.

    Raises:
        ValueError: If a density is zero all over its box.
    """
    lower, upper = _zoom(log_density, lower, upper, [count // 2 for count in cells])
    centres, size = _grid(cells)
    log_mass = log_density(torch.lerp(lower, upper, centres[:, None]))
    _check_mass(log_mass)
    mass = _blurred(log_mass.softmax(dim=0), cells)
    cdf = mass.cumsum(dim=0).T.contiguous()
    shape = (num_samples, len(lower))

    def propose() -> tuple[Tensor, Tensor]:
        level = _uniform(*reversed(shape), generator=generator) * cdf[:, -1:]
        cell = torch.searchsorted(cdf, level).clamp(max=len(centres) - 1).T
        jitter = (_uniform(*shape, len(size), generator=generator) - 0.5) * size
        point = torch.lerp(lower, upper, centres[cell] + jitter)
        return point, mass.gather(0, cell).log()

    def weigh(points: Sequence[Tensor], log_proposals: Sequence[Tensor]) -> Tensor:
        values = log_density(torch.cat(tuple(points)))
        return values.unflatten(0, (-1, num_samples)) - torch.stack(tuple(log_proposals))

    state, log_proposal = propose()
    log_weight = weigh([state], [log_proposal])[0]
    # Proposals do not depend on the state, so a slow density gets many at once.
    for batch in torch.arange(steps).split(max(1, POINTS_AT_ONCE // log_weight.numel())):
        steps_ahead = [
            (*propose(), _uniform(*shape, generator=generator)) for _ in batch.tolist()
        ]
        points, log_proposals, levels = zip(*steps_ahead, strict=True)
        weights = weigh(points, log_proposals)
        for point, proposed, level in zip(points, weights, levels, strict=True):
            accept = level.log() < proposed - log_weight
            state = torch.where(accept[..., None], point, state)
            log_weight = torch.where(accept, proposed, log_weight)
    return state


def sample_on_turned_grid(
    log_density: LogDensity,
    lower: Tensor,
    upper: Tensor,
    num_samples: int,
    *,
    cells: Sequence[int],
    steps: int,
    sharpness: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw as :func:`sample_on_grid`, from densities whose coordinates are correlated.

    The grid is turned and stretched along the principal axes of each density, where the
    same cells resolve a narrow ridge. The density must be defined, and may be positive,
    outside the box, which only says where to look for the mass.

    Args:
        log_density: What to draw from.
        lower: Lower corners of the boxes, shape ``(B, dim)``, float64.
        upper: Upper corners, shape ``(B, dim)``.
        num_samples: Number of draws for each row.
        cells: Number of cells along each dimension.
        steps: Number of Metropolis steps.
        sharpness: How many times as deep the densities fall as the cells can resolve in
            the whole box. Their axes are first looked for in densities that fall less.
        generator: Source of randomness; torch's global generator if None.

    Returns:
        Draws of shape ``(num_samples, B, dim)``.
    """
    turned = _Turned.of(log_density, lower, upper, cells, sharpness)
    point = sample_on_grid(
        turned,
        *turned.box,
        num_samples,
        cells=cells,
        steps=steps,
        generator=generator,
    )
    return turned.back(point)


def integrate_on_grid(
    log_density: LogDensity, lower: Tensor, upper: Tensor, *, cells: Sequence[int]
) -> Tensor:
    """Integrate B densities at once, each over its own box.

    The box is shrunk to where the mass is, except along dimensions of eight nodes or
    less; there by the Gauss-Legendre rule, which is very exact for a smooth density, also
    if it is cut off at the edges.

    Args:
        log_density: What to integrate; ``-inf`` is allowed.
        lower: Lower corners of the boxes, shape ``(B, dim)``, float64.
        upper: Upper corners, shape ``(B, dim)``.
        cells: Number of nodes along each dimension.

    Returns:
        Logarithms of the integrals, shape ``(B,)``.
    """
    few = [count // 2 if count > FEW_NODES else 1 for count in cells]
    lower, upper = _zoom(log_density, lower, upper, few, depth=INTEGRAL_DEPTH)
    rules = [np.polynomial.legendre.leggauss(count) for count in cells]
    axes = [torch.from_numpy((node + 1) / 2) for node, _ in rules]
    weights = [torch.from_numpy(weight / 2) for _, weight in rules]
    nodes = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).flatten(0, -2)
    log_weight = torch.stack(torch.meshgrid(*weights, indexing="ij")).log().sum(dim=0)
    value = log_density(torch.lerp(lower, upper, nodes[:, None]))
    log_mean = (value + log_weight.flatten()[:, None]).logsumexp(dim=0)
    return log_mean + (upper - lower).log().sum(dim=1)


def integrate_on_turned_grid(
    log_density: LogDensity,
    lower: Tensor,
    upper: Tensor,
    *,
    cells: Sequence[int],
    sharpness: float = 1.0,
) -> Tensor:
    """Integrate the densities that :func:`sample_on_turned_grid` draws from.

    By the midpoint rule, which is very exact for a smooth density that has fallen to
    nothing at the edges, once a cell is below its standard deviation.

    Args:
        log_density: What to integrate.
        lower: Lower corners of the boxes, shape ``(B, dim)``, float64.
        upper: Upper corners, shape ``(B, dim)``.
        cells: Number of cells along each dimension.
        sharpness: As there.

    Returns:
        Logarithms of the integrals, shape ``(B,)``.
    """
    turned = _Turned.of(log_density, lower, upper, cells, sharpness)
    lower, upper = _zoom(turned, *turned.box, [count // 2 for count in cells])
    centres, size = _grid(cells)
    log_mass = turned(torch.lerp(lower, upper, centres[:, None])).logsumexp(dim=0)
    log_volume = ((upper - lower) * size).log().sum(dim=1)
    return log_mass + log_volume + turned.root.det().abs().log()


@dataclass(frozen=True)
class _Turned:
    """Densities in coordinates along their principal axes.

    Attributes:
        log_density: The densities in their own coordinates.
        centre: Origins of the new coordinates, shape ``(B, dim)``.
        root: New axes, one per column, shape ``(B, dim, dim)``.
    """

    log_density: LogDensity
    centre: Tensor
    root: Tensor

    @classmethod
    def of(
        cls,
        log_density: LogDensity,
        lower: Tensor,
        upper: Tensor,
        cells: Sequence[int],
        sharpness: float,
    ) -> _Turned:
        few = [count // 2 for count in cells]
        centre = torch.zeros_like(lower)
        turned = cls(log_density, centre, torch.diag_embed(torch.ones_like(lower)))
        while True:
            turned = turned._along_axes(lower, upper, few, sharpness)
            if sharpness <= 1:
                return turned
            sharpness, (lower, upper) = max(1.0, sharpness / SHARPENING), turned.box

    def _along_axes(
        self, lower: Tensor, upper: Tensor, cells: Sequence[int], sharpness: float
    ) -> _Turned:
        """Turn these coordinates, in a box of them, along the axes of blunted densities."""
        centre, root = _principal_axes(
            lambda point: self(point) / sharpness, lower, upper, cells
        )
        return _Turned(self.log_density, self.back(centre[None])[0], self.root @ root)

    @property
    def box(self) -> tuple[Tensor, Tensor]:
        half = torch.full_like(self.centre, HALF_WIDTH)
        return -half, half

    def back(self, point: Tensor) -> Tensor:
        return self.centre + torch.einsum("nbi,bji->nbj", point, self.root)

    def __call__(self, point: Tensor) -> Tensor:
        return self.log_density(self.back(point))


def _principal_axes(
    log_density: LogDensity, lower: Tensor, upper: Tensor, cells: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Return mean ``(B, dim)`` and root of the covariance of the flattened density."""
    lower, upper = _zoom(log_density, lower, upper, [count // 2 for count in cells])
    centres, size = _grid(cells)
    point = torch.lerp(lower, upper, centres[:, None])
    log_mass = log_density(point)
    _check_mass(log_mass)
    weight = (log_mass / FLATTENING).softmax(dim=0)
    mean = torch.einsum("nb,nbi->bi", weight, point)
    deviation = point - mean
    covariance = torch.einsum("nb,nbi,nbj->bij", weight, deviation, deviation)
    within_cell = ((upper - lower) * size).square() / 12
    values, axes = torch.linalg.eigh(covariance + torch.diag_embed(within_cell))
    return mean, axes * values.sqrt()[:, None]


def _zoom(
    log_density: LogDensity,
    lower: Tensor,
    upper: Tensor,
    cells: Sequence[int],
    *,
    depth: float = DEPTH,
) -> tuple[Tensor, Tensor]:
    """Shrink each box to its cells near the highest one, until that changes little.

    The box of a density that is zero everywhere is left as it is.
    """
    centres, size = _grid(cells)
    centres = centres[:, None]
    # One cell more on each side: the mass may begin anywhere between two centres.
    margin = 1.5 * size
    for _ in range(MAX_ZOOMS):
        log_mass = log_density(torch.lerp(lower, upper, centres))
        keep = (log_mass >= log_mass.amax(dim=0) - depth)[..., None]
        low = torch.where(keep, centres - margin, 1.0).amin(dim=0).clamp(min=0.0)
        high = torch.where(keep, centres + margin, 0.0).amax(dim=0).clamp(max=1.0)
        lower, upper = torch.lerp(lower, upper, low), torch.lerp(lower, upper, high)
        if (high - low).prod(dim=1).min() > 0.5:
            break
    return lower, upper


def _grid(cells: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Cut the unit cube: centres ``(prod(cells), dim)`` and cell size ``(dim,)``."""
    axes = [(torch.arange(count, dtype=torch.float64) + 0.5) / count for count in cells]
    centres = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
    size = torch.tensor(cells, dtype=torch.float64).reciprocal()
    return centres.flatten(0, -2), size


def _blurred(mass: Tensor, cells: Sequence[int]) -> Tensor:
    """Lend mass to neighbours: a tail cell's centre may be far below its best point."""
    mass = mass.unflatten(0, tuple(cells))
    for axis in range(len(cells)):
        mass = mass.movedim(axis, -1)
        padded = torch.nn.functional.pad(mass, (1, 1))
        mass = mass / 2 + (padded[..., :-2] + padded[..., 2:]) / 4
        mass = mass.movedim(-1, axis)
    return mass.flatten(0, -2)


def _uniform(*shape: int, generator: torch.Generator | None) -> Tensor:
    return torch.rand(shape, dtype=torch.float64, generator=generator)


def _check_mass(log_mass: Tensor) -> None:
    empty = (~torch.isfinite(log_mass.amax(dim=0))).nonzero().flatten().tolist()
    if empty:
        raise ValueError(
            "the density must be positive somewhere in its box, got zero everywhere "
            f"for {len(empty)} of {log_mass.shape[1]} rows (first: row {empty[0]})"
        )
