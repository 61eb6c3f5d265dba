"""The corrected posterior as a ``NeuralPosterior``, for everything that sbi offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from sbi.inference.posteriors.base_posterior import NeuralPosterior
from sbi.inference.potentials.base_potential import BasePotential
from sbi.utils.sbiutils import mcmc_transform
from torch import Tensor

from ma_sbi.context import as_entries, distinct
from ma_sbi.encoders import CategoryEncoder
from ma_sbi.protocols import Context, Corrections
from ma_sbi.validation import as_matrix

if TYPE_CHECKING:
    from ma_sbi.posterior import CorrectedPosterior

__all__ = ["PackedPosterior", "SBIPosterior"]

Correct = Callable[[Tensor], Corrections]


class SBIPosterior(NeuralPosterior):
    """A corrected posterior that takes x alone.

    Args:
        corrected: The corrected posterior.
        correct: Maps x ``(batch, dim)`` to candidate corrections, context included.
    """

    def __init__(self, corrected: CorrectedPosterior, correct: Correct) -> None:
        prior = getattr(corrected.posterior, "prior", None)
        device = getattr(corrected.posterior, "device", None) or torch.get_default_device()
        super().__init__(
            potential_fn=_Potential(corrected, correct, prior, device),
            theta_transform=None if prior is None else mcmc_transform(prior, device=device),
            device=device,
        )
        self.corrected = corrected
        self.correct = correct
        self.prior = prior

    def sample(
        self,
        sample_shape: torch.Size | tuple[int, ...] = torch.Size(),  # noqa: B008
        x: Tensor | None = None,
        show_progress_bars: bool = False,  # noqa: FBT001, FBT002 (sbi's signature)
        **kwargs: Any,
    ) -> Tensor:
        """Draw ``(*sample_shape, dim_theta)`` for one observation."""
        x = self._x_else_default_x(x)
        if len(x) > 1:
            raise ValueError(
                f"sample takes one observation, got {len(x)}; use sample_batched"
            )
        draws = self.sample_batched(sample_shape, x)
        return draws.squeeze(-2)

    def sample_batched(
        self,
        sample_shape: torch.Size | tuple[int, ...],
        x: Tensor,
        show_progress_bars: bool = False,  # noqa: FBT001, FBT002 (sbi's signature)
        **kwargs: Any,
    ) -> Tensor:
        """Draw ``(*sample_shape, batch, dim_theta)`` for a batch of observations."""
        shape = torch.Size(sample_shape)
        candidates = self.correct(as_matrix(x, "x"))
        draws = self.corrected.sample_candidates(shape.numel(), candidates)
        return draws.reshape(*shape, *draws.shape[1:])

    def log_prob(
        self,
        theta: Tensor,
        x: Tensor | None = None,
        track_gradients: bool = False,  # noqa: FBT001, FBT002 (sbi's signature)
    ) -> Tensor:
        """Evaluate theta ``(n, dim_theta)`` for one observation, shape ``(n,)``."""
        return self.potential(theta, x, track_gradients=track_gradients)

    def log_prob_batched(self, theta: Tensor, x: Tensor) -> Tensor:
        """Evaluate theta ``(n, batch, dim_theta)`` for a batch of observations."""
        return self.corrected.log_prob_candidates(theta, self.correct(as_matrix(x, "x")))


class PackedPosterior(SBIPosterior):
    """A corrected posterior whose x carries its context: each row is ``[x | encoding]``.

    Args:
        corrected: The corrected posterior.
        contexts: Every context that will be packed.
    """

    def __init__(self, corrected: CorrectedPosterior, contexts: Context) -> None:
        self._contexts, _ = distinct(as_entries(contexts))
        encoder = getattr(corrected.corrector, "encoder_", None)
        self._encoder = encoder or CategoryEncoder().fit(self._contexts)
        self._table = self._encode(self._contexts)
        super().__init__(corrected, self._unpack_and_correct)

    def pack(self, x: Any, context: Context) -> Tensor:
        """Put x ``(batch, dim_x)`` and the encoded context side by side."""
        x = as_matrix(x, "x")
        encoding = self._encode(as_entries(context, num_rows=len(x))).to(x)
        distance = torch.cdist(encoding, self._table.to(x)).min(dim=1).values
        if (distance > 1e-6).any():
            row = distance.argmax().item()
            raise ValueError(
                f"the context of row {row} was not among those passed to packed()"
            )
        return torch.cat([x, encoding], dim=1)

    def _encode(self, entries: Any) -> Tensor:
        return as_matrix(self._encoder.transform(entries), "encoding")

    def _unpack_and_correct(self, rows: Tensor) -> Corrections:
        dim_x = rows.shape[1] - self._table.shape[1]
        if dim_x < 1:
            raise ValueError(
                f"rows of width {rows.shape[1]} are not packed; use pack(x, context)"
            )
        place = torch.cdist(rows[:, dim_x:], self._table.to(rows)).argmin(dim=1)
        context = self._contexts.iloc[place.cpu().numpy()]
        return self.corrected.corrections(rows[:, :dim_x], context)


class _Potential(BasePotential):
    """Log density of the corrected posterior at a fixed x, as sbi's optimisers ask."""

    def __init__(
        self, corrected: CorrectedPosterior, correct: Correct, prior: Any, device: Any
    ) -> None:
        super().__init__(prior, x_o=None, device=device)
        self.corrected = corrected
        self.correct = correct

    def __call__(self, theta: Tensor, track_gradients: bool = True) -> Tensor:  # noqa: FBT001, FBT002
        candidates = self.correct(self.x_o)
        if track_gradients and not theta.requires_grad:
            theta = theta.detach().requires_grad_()
        with torch.set_grad_enabled(track_gradients):
            theta = torch.atleast_2d(theta)
            return self.corrected.log_prob_candidates(theta[:, None], candidates)[:, 0]
