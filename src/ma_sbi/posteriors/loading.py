"""Loading a saved posterior of any kind."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.distributions import Distribution

from ma_sbi.posteriors import density, diffusion, flow
from ma_sbi.saving import kind_of

__all__ = ["load_posterior"]


def load_posterior(
    path: str | Path,
    prior: Distribution | None = None,
    *,
    device: torch.device | str | None = None,
) -> flow.FlowPosterior | diffusion.DiffusionPosterior:
    """Load a posterior that ``FlowPosterior.save`` or ``DiffusionPosterior.save`` wrote.

    Args:
        path: The file.
        prior: The prior it was trained with; needed only if the file does not hold it,
            because it is neither uniform, normal nor lognormal.
        device: Where to sample; torch's default device if None.

    Raises:
        ValueError: If the file holds something else, or not its prior.
    """
    kind = kind_of(path)
    if kind == flow.KIND:
        return flow.load_flow(path, prior, device=device)
    if kind == diffusion.KIND:
        return diffusion.load_ddpm(path, prior, device=device)
    if kind == density.KIND:
        raise ValueError(
            f"{path} holds a density of simulations, not a posterior; load_density reads it"
        )
    raise ValueError(f"{path} holds {kind!r}, expected a flow or a diffusion model")
