"""Priors as numbers, so that they can be saved without code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sbi.utils import BoxUniform
from torch import Tensor
from torch.distributions import (
    Distribution,
    Independent,
    LogNormal,
    MultivariateNormal,
    Normal,
    Uniform,
)

__all__ = ["pack_prior", "unpack_prior"]

# Families of independent parameters, with the names of their numbers.
INDEPENDENT: dict[str, tuple[type[Distribution], tuple[str, str]]] = {
    "uniform": (Uniform, ("low", "high")),
    "normal": (Normal, ("loc", "scale")),
    "lognormal": (LogNormal, ("loc", "scale")),
}
MULTIVARIATE_NORMAL = "multivariate normal"


def pack_prior(prior: Distribution | None) -> tuple[str | None, dict[str, Tensor]]:
    """Return the family of a prior and its numbers; None and no numbers if unknown.

    Example:
        >>> import torch
        >>> pack_prior(BoxUniform(-torch.ones(2), torch.ones(2)))[0]
        'uniform'
    """
    if isinstance(prior, MultivariateNormal):
        numbers = {"loc": prior.loc, "scale_tril": prior.scale_tril}
        return MULTIVARIATE_NORMAL, numbers
    base = getattr(prior, "base_dist", None)
    if isinstance(prior, Independent) and len(prior.event_shape) == 1:
        for name, (family, numbers_of) in INDEPENDENT.items():
            if type(base) is family:
                return name, {one: getattr(base, one) for one in numbers_of}
    return None, {}


def unpack_prior(family: str | None, numbers: Mapping[str, Tensor]) -> Distribution:
    """Rebuild a prior from what :func:`pack_prior` returned.

    Raises:
        ValueError: If there is no such family.
    """
    if family == MULTIVARIATE_NORMAL:
        return MultivariateNormal(numbers["loc"], scale_tril=numbers["scale_tril"])
    if family == "uniform":
        # A class that sbi's checks accept.
        return BoxUniform(numbers["low"], numbers["high"])
    if family in INDEPENDENT:
        kind: Any = INDEPENDENT[family][0]
        return Independent(kind(**numbers), 1)
    raise ValueError(
        "the file does not hold its prior, which is neither uniform, normal nor lognormal, "
        "or was saved by an older version: pass prior= to load_posterior in Python"
    )
