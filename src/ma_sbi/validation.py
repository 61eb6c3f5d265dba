"""Checks of what the user passes, with clear error messages."""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ma_sbi.doubles import as_doubles
from ma_sbi.labels import match_columns, match_table
from ma_sbi.telling import levels_to_caller

__all__ = [
    "LostPrecision",
    "about_vector",
    "as_count",
    "as_counts",
    "as_matrix",
    "as_pairs",
    "as_pools",
    "as_shape",
    "as_tensor",
    "check_positive",
    "check_precision",
    "double_device",
    "warn_of_precision",
]

# Share of a column's standard deviation that may be lost by rounding.
ROUNDING = 0.01
# Relative spread of sums that should be equal, in double precision.
SUMS = 1e-12


class LostPrecision(UserWarning):
    """Numbers of a column are too near to each other for single precision."""


SEVERAL_TRIALS = (
    ": of several trials of each observation, fit a corrector to single trials, one a row "
    "with the context of its observation, and correct by per_trial(corrector, dim_x)"
)


def as_matrix(
    values: Any,
    name: str,
    *,
    dim: int | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
    column: bool = False,
) -> Tensor:
    """Convert input to a finite matrix with one row per observation.

    Args:
        values: Tensor, array, DataFrame or nested list; one observation may be a vector.
        name: Its name in error messages.
        dim: Number of columns it must have.
        dtype: Type of the result.
        device: Device of the result; that of the input if None.
        column: Whether a vector holds many scalar observations instead of one.

    Raises:
        ValueError: If it is not a finite, non-empty matrix of that width.
    """
    if values is None:
        raise ValueError(f"{name} must be given, got None")
    if not isinstance(values, Tensor):
        # A copy: what the caller changes later must not change what was checked.
        values = torch.from_numpy(as_doubles(values, name).copy())
    elif values.is_complex():
        raise ValueError(f"{name} must hold numbers: got complex numbers")
    matrix = values.detach().to(dtype=dtype, device=device)
    if matrix.ndim == 1:
        # A vector is one observation, unless the observations are scalars.
        matrix = matrix[:, None] if dim == 1 or column else matrix[None, :]
    if matrix.ndim != 2 or matrix.numel() == 0:
        trials = matrix.ndim == 3 and name in ("x", "x_obs")
        raise ValueError(
            f"{name} must be a non-empty matrix (observations x dimensions), "
            f"got shape {tuple(values.shape)}" + (SEVERAL_TRIALS if trials else "")
        )
    if dim is not None and matrix.shape[1] != dim:
        raise ValueError(
            f"{name} must have {dim} columns, got {matrix.shape[1]}: pass those of "
            "training or calibration, in their order"
        )
    if not torch.isfinite(matrix).all():
        rows = (~torch.isfinite(matrix)).any(dim=1).nonzero().flatten().tolist()
        where = f"in {len(rows)} of {len(matrix)} rows (first: row {rows[0]})"
        if torch.isfinite(values).all():
            raise ValueError(
                f"{name} has numbers that are too large for {_precision(dtype)} precision "
                f"{where}: divide by a constant"
            )
        raise ValueError(
            f"{name} must be finite, got NaN or infinite values {where}: leave these "
            "rows out"
        )
    return matrix


def as_tensor(values: Any, name: str) -> Tensor:
    """Convert numbers of any shape to a tensor; one that is a tensor stays as it is.

    Raises:
        ValueError: If something is no number.
    """
    if isinstance(values, Tensor):
        return values
    return torch.from_numpy(as_doubles(values, name).copy()).float()


def check_precision(**sides: Tensor | None) -> None:
    """Refuse columns whose variation single precision, that of posteriors, would lose.

    Args:
        sides: Matrices of double precision with the same columns, by their names; what
            varies in one of them is the scale of all. None is left out.

    Raises:
        ValueError: If the numbers of a column are too large, too small, or too near to each
            other.
    """
    if lost := _lost(**sides):
        raise ValueError(lost)


def warn_of_precision(**sides: Tensor) -> None:
    """Warn where :func:`check_precision` would raise.

    For fits to some of the rows, which may vary less than all of them.
    """
    if lost := _lost(**sides):
        warnings.warn(lost, LostPrecision, stacklevel=levels_to_caller())


def _lost(**sides: Tensor | None) -> str:
    """Say which column single precision would lose; empty if none."""
    given = {
        name: one.detach().cpu().reshape(-1, one.shape[-1])
        for name, one in sides.items()
        if one is not None
    }
    if not given:
        return ""
    single = torch.finfo(torch.float32)
    scale = torch.stack([_spread(one) for one in given.values()]).amax(dim=0)
    for name, one in given.items():
        size = one.abs().amax(dim=0)
        resolution = (single.eps * size).clamp(min=single.eps * single.tiny)
        too_large = size > single.max
        lost = too_large | (scale > 0) & (resolution > ROUNDING * scale)
        if not lost.any():
            continue
        column = int(lost.int().argmax())
        cure = "subtract a constant from it"
        if too_large[column] or size[column] < single.tiny:
            cure = f"{'divide' if too_large[column] else 'multiply'} it by a constant"
        return (
            f"{name}[{column}] varies by {scale[column]:.2g} about values of "
            f"{size[column]:.2g}, which single precision cannot hold; {cure}, wherever "
            "that column is given"
        )
    return ""


def _spread(x: Tensor) -> Tensor:
    """Return the standard deviation of columns ``(n, dim)``, without over- or underflow.

    It is 0 where a column differs by nothing but rounding, as sums to one do, in the
    precision that it was computed in.
    """
    size = x.abs().amax(dim=0)
    size = torch.where(size > 0, size, torch.ones_like(size))
    spread = (x / size).std(dim=0, correction=0)
    was_single = (x.float().double() == x).all(dim=0)
    most = torch.where(was_single, 4 * torch.finfo(torch.float32).eps, SUMS)
    # Integers are never rounded sums.
    rounding = (spread < most) & (x != x.round()).any(dim=0)
    return torch.where(rounding, torch.zeros_like(spread), spread * size)


def _precision(dtype: torch.dtype) -> str:
    return "single" if dtype == torch.float32 else "this"


def as_pairs(x_obs: Any, x_sim: Any) -> tuple[Tensor, Tensor]:
    """Check that observations and simulations are paired row by row (float64)."""
    observed, simulated = _doubles(x_obs, x_sim=match_table(x_obs, x_sim))
    if observed.shape != simulated.shape:
        raise ValueError(
            "x_obs and x_sim must be paired row by row, got "
            f"{_size(observed)} and {_size(simulated)}; without pairs pass simulations="
        )
    return observed, simulated


def as_pools(x_obs: Any, simulations: Any) -> tuple[Tensor, Tensor]:
    """Check that observations and a pool of simulations have the same columns (float64)."""
    simulations = match_columns(x_obs, simulations, "simulations")
    observed, simulated = _doubles(x_obs, simulations=simulations)
    if observed.shape[1] != simulated.shape[1]:
        raise ValueError(
            "x_obs and simulations must have the same columns, got "
            f"{_size(observed)} and {_size(simulated)}"
        )
    return observed, simulated


def as_count(value: int, name: str) -> int:
    """Check that a count is a positive integer."""
    try:
        count = int(value)
        valid = not isinstance(value, bool) and count == value and count >= 1
    except (TypeError, ValueError, RuntimeError):
        valid = False
    if not valid:
        got = reprlib.repr(value) if np.ndim(value) == 0 else f"shape {np.shape(value)}"
        raise ValueError(f"{name} must be a positive integer, got {got}")
    return count


def as_counts(values: Iterable[int], name: str) -> list[int]:
    """Check a list of positive integers, such as widths of layers."""
    if not isinstance(values, Iterable) or isinstance(values, (str, Mapping)):
        raise ValueError(
            f"{name} must be a list of positive integers such as (64, 64), got {values!r}"
        )
    return [as_count(value, name) for value in values]


def about_vector(x: Any, name: str) -> str:
    """Say how a vector is read; nothing if it is none."""
    ndim = getattr(x, "ndim", None)
    if isinstance(x, (list, tuple)) and x:
        ndim = 1 + np.ndim(x[0])
    if ndim != 1:
        return ""
    return (
        f"a vector {name} is {len(x)} observations of one column: pass one observation of "
        f"{len(x)} columns as a matrix with one row"
    )


def as_shape(value: int | Sequence[int], name: str) -> tuple[int, ...]:
    """Check a number of samples, or their shape as sbi and torch take it.

    Example:
        >>> as_shape(100, "num_samples"), as_shape((2, 50), "num_samples")
        ((100,), (2, 50))
    """
    # A torch.Size is a tuple.
    sizes: Sequence[Any] = value if isinstance(value, (tuple, list)) else [value]
    return tuple(as_count(size, name) for size in sizes)


def check_positive(value: float, name: str) -> None:
    """Check that a value is a positive, finite number."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value < float("inf"):
        raise ValueError(f"{name} must be a positive number, got {value!r}")


def double_device(device: torch.device | None) -> torch.device | None:
    """Return the device if it supports float64, else the CPU."""
    lacks_double = device is not None and device.type == "mps"
    return torch.device("cpu") if lacks_double else device


def _doubles(x_obs: Any, **simulated: Any) -> list[Tensor]:
    # A numpy array has a device as well, but it is a string.
    device = double_device(x_obs.device if isinstance(x_obs, Tensor) else None)
    return [
        as_matrix(values, name, dtype=torch.float64, device=device, column=True)
        for name, values in {"x_obs": x_obs, **simulated}.items()
    ]


def _size(matrix: Tensor) -> str:
    return f"{matrix.shape[0]} rows x {matrix.shape[1]} columns"
