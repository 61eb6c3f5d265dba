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

from ma_sbi.saved import Saved

__all__ = ["pack_prior", "stored_prior", "unpack_prior"]

# Families of independent parameters, with the names of their numbers.
INDEPENDENT: dict[str, tuple[type[Distribution], tuple[str, str]]] = {
    "uniform": (Uniform, ("low", "high")),
    "normal": (Normal, ("loc", "scale")),
    "lognormal": (LogNormal, ("loc", "scale")),
}
NO_PRIOR = "holds a prior whose numbers are no prior"
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


def unpack_prior(family: Any, numbers: Mapping[str, Tensor]) -> Distribution:
    """Rebuild a prior from what :func:`pack_prior` returned.

    Raises:
        ValueError: If there is no such family, or these are not its numbers; the sentence
            goes on from the name of a file.
    """
    if family == MULTIVARIATE_NORMAL:
        loc, scale_tril = _numbers(numbers, "loc", "scale_tril")
        diagonal = scale_tril.diagonal() if scale_tril.ndim == 2 else scale_tril
        if scale_tril.shape != 2 * loc.shape or not (diagonal > 0).all():
            raise ValueError(NO_PRIOR)
        return MultivariateNormal(loc, scale_tril=scale_tril.tril())
    if not isinstance(family, str) or family not in INDEPENDENT:
        raise ValueError(
            "does not hold its prior, which is neither uniform, normal nor lognormal, or "
            "was saved by an older version: pass prior= to load_posterior in Python"
        )
    kind: Any = INDEPENDENT[family][0]
    first, second = _numbers(numbers, *INDEPENDENT[family][1])
    is_box = family == "uniform"
    if first.shape != second.shape or not (second > (first if is_box else 0)).all():
        raise ValueError(NO_PRIOR)
    # A box is of a class that sbi's checks accept.
    return BoxUniform(first, second) if is_box else Independent(kind(first, second), 1)


def stored_prior(saved: Saved, prior: Any, dim_theta: int) -> Any:
    """Return the prior that is given, or else the one in a file, of so many parameters."""
    if prior is None:
        family, numbers = saved.settings.get("prior"), saved.groups.get("prior", {})
        try:
            prior = unpack_prior(family, numbers)
        except ValueError as error:
            saved.refuse(str(error))
    shape = getattr(prior, "event_shape", None)
    if shape is not None and len(shape) == 1 and shape[0] != dim_theta:
        saved.refuse(f"is of {dim_theta} parameters, but the prior of {shape[0]}")
    return prior


def _numbers(numbers: Mapping[str, Tensor], *names: str) -> list[Tensor]:
    found = [numbers[name] for name in names if name in numbers]
    if len(found) < len(names) or any(not one.is_floating_point() for one in found):
        raise ValueError(NO_PRIOR)
    if found[0].ndim != 1 or len(found[0]) == 0:
        raise ValueError(NO_PRIOR)
    return found
