"""Semi-balanced entropic optimal transport: columns need not be uniform."""

from __future__ import annotations

import math
import warnings

import torch
from torch import Tensor

from ma_sbi.validation import as_count, double_device

__all__ = ["semi_balanced_plan", "squared_cost"]

_STEPS = 20  # scaling steps between two steps in the log domain


def semi_balanced_plan(
    cost: Tensor,
    gamma: float,
    tau: float = 1.0,
    *,
    tolerance: float = 1e-6,
    max_iterations: int = 10_000,
) -> Tensor:
    r"""Move observations onto simulations at least cost, smoothly.

    .. math::
        \min_P\ \langle P, C\rangle
        + \rho\, \mathrm{KL}(P^\top 1 \,\|\, 1/N_s) + \gamma \langle P, \log P\rangle
        \quad\text{s.t.}\quad P 1 = 1/N_o, \qquad \tau = \rho / (\rho + \gamma)

    With tau = 1 the columns are uniform, too (balanced transport); with tau = 0 they are
    free, and P is a softmax over each row. The scale of gamma is that of the cost.

    Alternates :math:`f \leftarrow -\log N_o - \mathrm{lse}_j(g - C/\gamma)` and
    :math:`g \leftarrow \tau(-\log N_s - \mathrm{lse}_i(f - C/\gamma))`; a row update comes
    last, so that rows are exact. POT solves the same problem
    (``ot.unbalanced.sinkhorn_unbalanced`` with ``reg_m=(inf, rho)``; as the mass is fixed,
    its KL to the product of marginals differs by a constant), and is what the tests
    compare with. It is not used here, because it has no log domain for unbalanced
    transport: from costs of about 700 gamma its plan is all zero, without an error, and
    its stabilised form fails earlier. Here every step in the log domain is followed by
    twenty scaling steps on the kernel that it left, twenty times cheaper, unless those
    overflow.

    Args:
        cost: Cost of moving row i to column j, shape ``(N_o, N_s)``.
        gamma: Entropic regularisation; the larger, the more uniform the plan.
        tau: How strongly columns are forced to be uniform, between 0 and 1.
        tolerance: Change of the column masses, relative, below which it has converged.
        max_iterations: Most iterations; a warning says if they do not suffice.

    Returns:
        The plan, shape ``(N_o, N_s)``, float64; every row sums to ``1 / N_o``. It can be
        differentiated in the cost if tau is 0, and is detached from it otherwise.

    Example:
        >>> plan = semi_balanced_plan(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), gamma=0.5)
        >>> plan.tolist()
        [[0.25, 0.25], [0.25, 0.25]]
    """
    if cost.ndim != 2 or cost.numel() == 0 or not cost.isfinite().all():
        raise ValueError(f"cost must be a finite matrix, got shape {tuple(cost.shape)}")
    if not (math.isfinite(gamma) and gamma > 0):
        raise ValueError(f"gamma must be positive and finite, got {gamma}")
    if not 0 <= tau <= 1:
        raise ValueError(f"tau must be between 0 and 1, got {tau}")
    log_kernel = -cost.to(double_device(cost.device), torch.float64) / gamma
    if tau > 0:
        log_kernel = log_kernel.detach()
        max_iterations = as_count(max_iterations, "max_iterations")
        log_kernel = log_kernel + _potential(log_kernel, tau, tolerance, max_iterations)
    return log_kernel.softmax(dim=1) / len(cost)


def squared_cost(real: Tensor, simulated: Tensor) -> Tensor:
    """Return squared distances over the number of columns, shape ``(N_o, N_s)``."""
    return torch.cdist(real, simulated).square() / real.shape[1]


def _potential(
    log_kernel: Tensor, tau: float, tolerance: float, max_iterations: int
) -> Tensor:
    """Find the column potential g, shape ``(N_s,)``, up to a constant.

    A constant added to g cancels in the plan, but decays only as tau^n; so g is centred
    at each step, and convergence is judged by the range of its change.
    """
    num_rows, num_columns = log_kernel.shape
    potential = log_kernel.new_zeros(num_columns)
    for _ in range(0, max_iterations, _STEPS + 1):
        row = -math.log(num_rows) - (log_kernel + potential).logsumexp(dim=1)
        mass = (log_kernel + row[:, None]).logsumexp(dim=0)
        updated = _centre(-tau * (math.log(num_columns) + mass))
        change = updated - potential
        potential = updated
        if change.max() - change.min() < tolerance:
            return potential
        potential = _scaling_steps(log_kernel + row[:, None], potential, tau)
    warnings.warn(
        f"the transport plan has not converged in {max_iterations} iterations: rows are "
        f"exact, column masses still change by {float(change.abs().max()):.1e}; a larger "
        "gamma converges faster",
        stacklevel=3,
    )
    return potential


def _scaling_steps(log_kernel: Tensor, potential: Tensor, tau: float) -> Tensor:
    """Iterate with products of the kernel; return the start if they overflow."""
    kernel = (log_kernel + potential).exp()
    num_rows, num_columns = kernel.shape
    change = torch.zeros_like(potential)
    for _ in range(_STEPS):
        row = 1 / (num_rows * (kernel @ change.exp()))
        mass = (row @ kernel).log() - potential
        change = _centre(-tau * (math.log(num_columns) + mass)) - potential
    return potential + change if change.isfinite().all() else potential


def _centre(potential: Tensor) -> Tensor:
    return potential - potential.mean()
