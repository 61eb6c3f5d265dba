"""The density of the simulations, with their parameters integrated out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch
import zuko
from torch import Tensor, nn

from ma_sbi.nan import not_drawn, tell
from ma_sbi.posteriors.columns import Columns, cells
from ma_sbi.posteriors.heavy_tailed import HeavyTailed
from ma_sbi.posteriors.training import Training, check_training
from ma_sbi.posteriors.unconstrained import default_device
from ma_sbi.protocols import ArrayLike
from ma_sbi.randomness import derive, generator, seeded
from ma_sbi.saved import Saved, num_weights
from ma_sbi.saving import Packed, read
from ma_sbi.validation import as_count, as_counts, as_matrix, as_shape, double_device

__all__ = ["SimulationDensity", "fit_density", "load_density", "unpack_density"]

KIND = "density"
FLOWS = {"nsf": zuko.flows.NSF, "maf": zuko.flows.MAF}
NUM_TRANSFORMS = {"nsf": 2, "maf": 5}
LEAST_SIMULATIONS = 100
LEAST_HIDDEN = 64
MOST_SPLINES = 32
"""Columns beyond which splines take too long to train."""
HEAVY_SHARE = 1e-3
"""Weight of the heavy-tailed part. It costs 0.001 nats where simulations lie; ten times the
weight changed the error on slcp (1.12 nats, 10,000 simulations) by 0.005."""
SLACK = 2.0
"""The flow counts up to this many times the distance of the farthest simulation."""
BLOCK_ENTRIES = 40_000
"""Entries of x that are evaluated together, to bound memory."""


def fit_density(
    x: ArrayLike,
    *,
    flow: Literal["nsf", "maf"] | None = None,
    num_transforms: int | None = None,
    hidden: Sequence[int] | None = None,
    num_flows: int = 1,
    learning_rate: float = 5e-3,
    batch_size: int = 256,
    patience: int = 10,
    max_epochs: int = 200,
    validation_fraction: float = 0.1,
    seed: int | None = None,
    device: torch.device | str | None = None,
    show_progress: bool | None = None,
) -> SimulationDensity:
    """Learn the density of simulations with a flow.

    Args:
        x: Simulations at parameters from the prior, shape ``(n, dim_x)``; at least 100.
        flow: ``"nsf"``, a neural spline flow, or ``"maf"``, a masked autoregressive flow
            that is less flexible and five to ten times as fast to evaluate. If None, the
            second for more than 32 columns.
        num_transforms: Number of transforms; 2 for nsf, 5 for maf if None.
        hidden: Widths of the hidden layers of each transform; two layers of ``dim_x``,
            but at least 64, if None. With fewer units columns are left out.
        num_flows: Flows that are trained one after the other and averaged. Errors of single
            flows partly cancel; time and memory grow with the number.
        learning_rate: Step size of Adam.
        batch_size: Simulations per step.
        patience: Epochs without improvement on held-out simulations before it stops.
        max_epochs: Most epochs.
        validation_fraction: Share of simulations held out.
        seed: Makes training repeatable.
        device: Where to train and evaluate; torch's default device if None.
        show_progress: Whether to show progress, on standard error; if None, to a person:
            on a terminal or in a notebook.

    Returns:
        The density with the weights that did best on held-out simulations.

    Raises:
        ValueError: If x is not a finite matrix of at least 100 rows that differ.
    """
    if flow is not None and flow not in FLOWS:
        raise ValueError(f"flow must be one of {sorted(FLOWS)}, got {flow!r}")
    check_training(learning_rate, batch_size, validation_fraction)
    training = Training(learning_rate, batch_size, patience, max_epochs, show_progress)
    device = default_device(device)
    lower, upper, columns = _check_simulations(x, double_device(device))
    dim = lower.shape[1]
    if flow is None:
        flow = "nsf" if dim <= MOST_SPLINES else "maf"
    if hidden is None:
        hidden = 2 * (max(LEAST_HIDDEN, dim),)
    if num_transforms is None:
        num_transforms = NUM_TRANSFORMS[flow]
    settings = {
        "flow": flow,
        "num_transforms": as_count(num_transforms, "num_transforms"),
        "hidden": as_counts(hidden, "hidden"),
        "num_flows": as_count(num_flows, "num_flows"),
    }
    with torch.enable_grad(), seeded(seed, device):
        heavy = HeavyTailed.around(_spread(lower, upper))
        lower, upper = (ends.to(device, torch.float32) for ends in (lower, upper))
        order = torch.randperm(len(lower), device=device)
        num_held_out = min(math.ceil(validation_fraction * len(lower)), len(lower) - 1)
        held, kept = order.tensor_split([num_held_out])
        held_out = _spread(lower[held], upper[held])
        flows = _build(settings, dim).to(device)
        for flow_ in flows:
            # Spread anew in every epoch, so that no draw of it is learned.
            training.run(flow_, lambda: _spread(lower[kept], upper[kept]), held_out)
    density = SimulationDensity(flows, columns, heavy, settings=settings)
    held_out = columns.invert(held_out.to(columns.mean))
    density.held_out_loss = -density.log_prob(held_out).mean().item()
    return density


def load_density(
    path: str | Path, *, device: torch.device | str | None = None
) -> SimulationDensity:
    """Load a density that ``SimulationDensity.save`` wrote.

    Args:
        path: The file.
        device: Where to evaluate; torch's default device if None.

    Raises:
        ValueError: If the file holds something else, or does not fit its header.
        OSError: If there is no such file.
    """
    return unpack_density(read(path, KIND), device=device)


def unpack_density(
    saved: Saved, *, device: torch.device | str | None = None
) -> SimulationDensity:
    """Make a density of what ``SimulationDensity.packed`` gave."""
    device = default_device(device)
    precise = double_device(device)
    columns = Columns.stored(saved, precise)
    dim = int(columns.varies.sum())
    heavy = HeavyTailed.stored(saved, dim, precise)
    saved.settings.setdefault("num_flows", 1)
    settings: dict[str, Any] = {
        "flow": saved.choice("flow", FLOWS),
        "num_transforms": saved.count("num_transforms"),
        "hidden": saved.counts("hidden"),
        "num_flows": saved.count("num_flows"),
    }
    held_out_loss = saved.number("held_out_loss")
    if settings["num_flows"] > len(saved.groups):
        saved.refuse(
            f"does not fit its header: it lacks some of {settings['num_flows']} flows"
        )
    groups = [_group(number) for number in range(settings["num_flows"])]
    # One column has nothing that its transforms could depend on: they have no network.
    widths = [dim, *(settings["hidden"] if dim > 1 else []), dim]
    num = settings["num_flows"] * settings["num_transforms"]
    saved.require_weights(
        groups, layers=num * (len(widths) - 1), weights=num * num_weights(widths)
    )
    with seeded(0):  # draws weights, which are overwritten
        flows = _build(settings, dim)
    for flow, group in zip(flows, groups, strict=True):
        saved.fill(flow, group)
    flows.to(device).eval().requires_grad_(requires_grad=False)
    return SimulationDensity(
        flows, columns, heavy, settings=settings, held_out_loss=held_out_loss
    )


class SimulationDensity:
    r"""The density of simulations; made by :func:`fit_density`.

    .. math:: q(x) = (1 - \epsilon)\, q_{flow}(x) + \epsilon\, q_{heavy}(x)

    Of several flows, the mean of their densities counts.

    Far from all simulations a flow is arbitrary. A broad density with heavy tails, of the
    mean and covariance of the simulations and with a weight of 0.001, decides there: the
    log density is finite for every finite x, and falls with the distance. Beyond twice
    the distance of the farthest simulation it is alone.

    Values that simulations share (counts, zeros) have no density. Each was spread
    uniformly over its cell, half way to the next values of its column: what is learned is
    the density of the spread simulations, about the probability of a value divided by the
    width of its cell. It is evaluated at x as it is, also between those values.

    A column in which all simulations are equal takes no part: its equality is an event of
    probability one, and an x that differs from it by ``d`` loses
    ``log(1 + (d / s) ** 2)`` nats, where ``s`` is a hundredth of the constant, or 0.01
    if that is zero.

    Attributes:
        dim_x: Number of columns.
        device: Where it is evaluated.
        held_out_loss: Mean of ``-log q(x)`` over held-out simulations, in nats. They
            decided when training stopped, so it is slightly too low.
    """

    def __init__(
        self,
        flows: nn.ModuleList,
        columns: Columns,
        heavy: HeavyTailed,
        *,
        settings: dict[str, Any],
        held_out_loss: float = math.nan,
    ) -> None:
        self.flows = flows
        self.columns = columns
        self.heavy = heavy
        self.settings = settings
        self.held_out_loss = held_out_loss
        self.dim_x = len(columns.mean)
        self.device = next(flows.parameters()).device

    def log_prob(self, x: ArrayLike) -> Tensor:
        """Evaluate the log density of x ``(n, dim_x)``, in blocks that bound memory.

        Returns:
            Shape ``(n,)``, with the type and on the device of x; finite for finite x.

        Raises:
            ValueError: If x is not a finite matrix of that width.
        """
        given = x if isinstance(x, Tensor) and x.is_floating_point() else None
        dtype = torch.float64 if given is None else given.dtype
        x = as_matrix(x, "x", dim=self.dim_x, dtype=dtype)
        with torch.no_grad():
            blocks = [
                self._log_prob(rows.to(self.columns.mean))
                for rows in x.split(_block_rows(self.dim_x))
            ]
        log_prob = torch.cat(blocks)
        return log_prob.float() if given is None else log_prob.to(given)

    def log_prob_and_gradient(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Evaluate the log density and its gradient by x.

        Args:
            x: Shape ``(n, dim_x)``.

        Returns:
            Shapes ``(n,)`` and ``(n, dim_x)``, with the type and on the device of x. Where
            the flow has no gradient, it is zero.
        """
        values, gradients = [], []
        for block in as_matrix(x, "x", dim=self.dim_x, dtype=x.dtype).split(
            _block_rows(self.dim_x)
        ):
            rows = block.to(self.columns.mean).requires_grad_()
            with torch.enable_grad():
                value = self._log_prob(rows)
                (gradient,) = torch.autograd.grad(value.sum(), rows)
            values.append(value.detach())
            gradients.append(gradient.nan_to_num(0.0, 0.0, 0.0))
        return torch.cat(values).to(x), torch.cat(gradients).to(x)

    def __call__(self, x: ArrayLike) -> Tensor:
        """Evaluate the log density; the same as ``log_prob``."""
        return self.log_prob(x)

    def sample(
        self, num_samples: int | Sequence[int], *, seed: int | None = None
    ) -> Tensor:
        """Draw ``(num_samples, dim_x)``, or ``(*shape, dim_x)``; shared values come spread.

        Draws are of the flow: the broad density is there for what is far from all
        simulations, and would draw nonsense once in a thousand times.
        """
        shape = as_shape(num_samples, "num_samples")
        precise = self.columns.mean.device
        rng = generator(derive(seed, "which"), precise)
        draws = self.heavy.center.expand(math.prod(shape), -1).clone()
        which = torch.randint(
            len(self.flows), draws[:, 0].shape, generator=rng, device=precise
        )
        with torch.no_grad(), seeded(derive(seed, "flow"), self.device):
            for number, flow in enumerate(self.flows):
                rows = (which == number).nonzero().flatten()
                for block in rows.split(_block_rows(self.dim_x)):
                    draws[block] = flow().sample((len(block),)).to(draws)
        tell(not_drawn(draws[None]), "draws", of="the flow", at="draws")
        x = self.columns.invert(self.heavy.bound(draws))
        return x.to(self.device, torch.float32).reshape(*shape, -1)

    def save(self, path: str | Path) -> None:
        """Write the density to a file; :func:`load_density` reads it back."""
        self.packed().write(path)

    def packed(self) -> Packed:
        """Return what it is made of, for a file."""
        flows = {_group(i): flow.state_dict() for i, flow in enumerate(self.flows)}
        groups = {"columns": asdict(self.columns), "heavy": asdict(self.heavy), **flows}
        return Packed(KIND, self.settings | {"held_out_loss": self.held_out_loss}, groups)

    def _log_prob(self, x: Tensor) -> Tensor:
        standardised = self.columns.standardise(x)
        single = standardised.to(self.device, torch.float32)
        each = torch.stack([flow().log_prob(single) for flow in self.flows])
        flow = each.logsumexp(dim=0) - math.log(len(each))
        distance = self.heavy.distance(standardised)
        near = distance < SLACK * self.heavy.radius
        # The broad density would hide that the flow is damaged.
        tell(near & flow.to(x).isnan(), "log densities", of="the flow", at="points")
        near = near & flow.to(x).isfinite()
        log_prob = torch.logaddexp(
            flow.to(x).masked_fill(~near, -torch.inf) + math.log1p(-HEAVY_SHARE),
            self.heavy.log_prob(distance) + math.log(HEAVY_SHARE),
        )
        return log_prob + self.columns.log_abs_det(x) - self.columns.penalty(x)

    def __repr__(self) -> str:
        return (
            f"SimulationDensity({self.settings['flow']}, dim_x={self.dim_x}, "
            f"held_out_loss={self.held_out_loss:.3f} nats)"
        )


def _check_simulations(
    x: ArrayLike, device: torch.device | None
) -> tuple[Tensor, Tensor, Columns]:
    """Return the ends of the standardised cells of simulations, and their columns."""
    single = isinstance(x, Tensor) and x.dtype == torch.float32
    x = as_matrix(x, "x", dtype=torch.float64, device=device, column=True)
    if len(x) < LEAST_SIMULATIONS:
        raise ValueError(
            f"a density needs at least {LEAST_SIMULATIONS} simulations, got {len(x)}"
        )
    rounding = 16 * torch.finfo(torch.float32 if single else torch.float64).eps
    lower, upper = cells(x)
    columns = Columns.of(lower, upper, rounding=rounding)
    if not columns.varies.any():
        raise ValueError(f"x must vary to have a density: all {len(x)} rows are equal")
    return columns.standardise(lower), columns.standardise(upper), columns


def _build(settings: dict[str, Any], dim: int) -> nn.ModuleList:
    return nn.ModuleList(
        FLOWS[settings["flow"]](
            dim,
            transforms=settings["num_transforms"],
            hidden_features=tuple(settings["hidden"]),
        )
        for _ in range(settings["num_flows"])
    )


def _group(number: int) -> str:
    """Name a flow in a file."""
    return f"flow {number}" if number else "flow"


def _spread(lower: Tensor, upper: Tensor) -> Tensor:
    """Draw uniformly from each cell."""
    return torch.lerp(lower, upper, torch.rand_like(lower))


def _block_rows(dim: int) -> int:
    return max(1, BLOCK_ENTRIES // dim)
