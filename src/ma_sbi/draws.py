"""Draws for other tools: ArviZ and pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from ma_sbi.protocols import ArrayLike

__all__ = ["to_arviz", "to_frame"]

RESERVED = ("chain", "draw", "observation")


def to_arviz(
    draws: ArrayLike, *, names: Sequence[str] | None = None, observations: Any = None
) -> Any:
    """Give draws as an ``xarray.Dataset`` that ArviZ takes as a posterior.

    Draws are independent, so they are one chain: ``az.summary(to_arviz(draws))``.

    Args:
        draws: From any posterior, shape ``(num_samples, batch, dim_theta)``, or
            ``(num_samples, dim_theta)`` for one observation.
        names: Names of the parameters; ``theta_0``, ``theta_1``, ... if None.
        observations: One label per observation, such as the index of their table; 0, 1,
            ... if None.

    Returns:
        One variable per parameter, with the dimensions ``chain``, ``draw`` and, if there
        are several, ``observation``.

    Raises:
        ImportError: If xarray is not installed.
        ValueError: If names or labels do not fit the draws.
    """
    try:
        import xarray
    except ImportError as error:
        raise ImportError(
            "to_arviz needs xarray: pip install 'ma-sbi[arviz]'; to_frame does not"
        ) from error
    values, names, observations = _check(draws, names, observations)
    dims = RESERVED if values.ndim == 3 else RESERVED[:2]
    labels: dict[str, Any] = {"chain": [0], "draw": np.arange(len(values))}
    if values.ndim == 3:
        labels["observation"] = observations
    return xarray.Dataset(
        {name: (dims, values[None, ..., i]) for i, name in enumerate(names)}, coords=labels
    )


def to_frame(
    draws: ArrayLike, *, names: Sequence[str] | None = None, observations: Any = None
) -> pd.DataFrame:
    """Give draws as a table with one row per draw of each observation.

    Args:
        draws: From any posterior, shape ``(num_samples, batch, dim_theta)``, or
            ``(num_samples, dim_theta)`` for one observation.
        names: Names of the parameters; ``theta_0``, ``theta_1``, ... if None.
        observations: One label per observation, such as the index of their table; 0, 1,
            ... if None.

    Returns:
        Columns ``observation`` (if there are several), ``draw``, and one per parameter.

    Raises:
        ValueError: If names or labels do not fit the draws.

    Example:
        >>> to_frame(np.zeros((1, 2, 1)), names=["gain"], observations=["a", "b"])
          observation  draw  gain
        0           a     0   0.0
        1           b     0   0.0
    """
    values, names, observations = _check(draws, names, observations)
    number = np.arange(len(values))
    if values.ndim == 2:
        columns: dict[str, Any] = {"draw": number}
    else:
        batch = np.arange(values.shape[1])
        columns = {
            "observation": observations[np.tile(batch, len(values))],
            "draw": number.repeat(len(batch)),
        }
    flat = values.reshape(-1, values.shape[-1])
    return pd.DataFrame(columns | {name: flat[:, i] for i, name in enumerate(names)})


def _check(
    draws: ArrayLike, names: Sequence[str] | None, observations: Any
) -> tuple[np.ndarray, list[str], pd.Index]:
    detach = getattr(draws, "detach", None)  # a tensor's
    values = np.asarray(detach().cpu() if callable(detach) else draws)
    if values.ndim not in (2, 3) or values.size == 0:
        raise ValueError(
            "draws must have shape (num_samples, batch, dim_theta) or (num_samples, "
            f"dim_theta), got {values.shape}"
        )
    dim_theta = values.shape[-1]
    if names is None:
        names = [f"theta_{i}" for i in range(dim_theta)]
    names = [names] if isinstance(names, str) else [str(name) for name in names]
    if len(names) != dim_theta or len(set(names)) < dim_theta:
        raise ValueError(
            f"names must be {dim_theta} different names, one per parameter, got {names}"
        )
    if clash := set(names) & set(RESERVED):
        raise ValueError(f"a parameter cannot be called {clash.pop()!r}; rename it")
    if values.ndim == 2:
        if observations is not None:
            raise ValueError("draws of one observation take no labels of observations")
        return values, names, pd.Index([])
    batch = values.shape[1]
    index = pd.RangeIndex(batch) if observations is None else pd.Index(observations)
    if len(index) != batch:
        raise ValueError(
            f"observations must be {batch} labels, one per observation, got {len(index)}"
        )
    # Its own name, and levels of its own, would be taken for other dimensions.
    return values, names, index.to_flat_index().rename("observation")
