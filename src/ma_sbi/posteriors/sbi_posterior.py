"""A posterior with corrections as a ``NeuralPosterior``, for sbi's own tools."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from sbi.inference.posteriors.base_posterior import NeuralPosterior
from sbi.inference.potentials.base_potential import BasePotential
from sbi.utils.sbiutils import mcmc_transform
from torch import Tensor

from ma_sbi.context import as_entries, distinct, match
from ma_sbi.correctors.composed import encode
from ma_sbi.mixture import log_prob_corrected, log_prob_mixture, sample_corrected
from ma_sbi.protocols import AmortizedPosterior, ArrayLike, Context, Corrections, Encoder
from ma_sbi.randomness import seeded
from ma_sbi.validation import as_matrix

__all__ = ["PackedPosterior", "SBIPosterior"]

Correct = Callable[[Tensor], Corrections]


class SBIPosterior(NeuralPosterior):
    """A corrected posterior that takes x alone.

    Args:
        posterior: The trained posterior.
        correct: Maps x ``(batch, dim)`` to candidate corrections, context included.
    """

    def __init__(self, posterior: AmortizedPosterior, correct: Correct) -> None:
        prior = getattr(posterior, "prior", None)
        device = getattr(posterior, "device", None) or torch.get_default_device()
        # sbi may try the prior out by sampling it; the caller's generator stays as it is.
        with seeded(0):
            to_real = None if prior is None else mcmc_transform(prior, device=device)
        potential = _Potential(posterior, correct, prior, device)
        super().__init__(potential, theta_transform=to_real, device=device)
        self.posterior = posterior
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
        x = as_matrix(x, "x")
        draws = sample_corrected(
            self.posterior, shape.numel(), x.shape, lambda rows: self.correct(x[rows])
        )
        return draws.reshape(*shape, *draws.shape[1:])

    def log_prob(
        self,
        theta: Tensor,
        x: Tensor | None = None,
        track_gradients: bool = False,  # noqa: FBT001, FBT002 (sbi's signature)
    ) -> Tensor:
        """Evaluate theta ``(n, dim_theta)`` for one observation, shape ``(n,)``."""
        # A copy, as the observation is part of it: threads may ask for different ones.
        potential = copy.copy(self.potential_fn)
        potential.set_x(self._x_else_default_x(x))
        return potential(theta, track_gradients=track_gradients)

    def log_prob_batched(self, theta: Tensor, x: Tensor) -> Tensor:
        """Evaluate theta ``(n, batch, dim_theta)`` for a batch of observations."""
        x = as_matrix(x, "x")
        return log_prob_corrected(
            self.posterior, theta, x.shape, lambda rows: self.correct(x[rows])
        )


class PackedPosterior(SBIPosterior):
    """A corrected posterior whose x carries its context.

    A row is ``[x | encoded context | number of the context]``. The number decides; the
    encoding is there for classifiers such as ``LC2ST``'s to see.

    Args:
        posterior: The trained posterior.
        correct: Maps x ``(batch, dim_x)`` and its contexts to candidate corrections.
        encoder: The corrector's fitted encoder, if it has one.
        contexts: Every context that will be packed.
    """

    def __init__(
        self,
        posterior: AmortizedPosterior,
        correct: Callable[[Tensor, Context], Corrections],
        encoder: Encoder | None,
        contexts: Context,
    ) -> None:
        self._correct_in_context = correct
        self._contexts, _ = distinct(as_entries(contexts))
        number = torch.arange(len(self._contexts)).float()[:, None]
        if encoder is not None:
            encoding = encode(encoder, self._contexts).nan_to_num().float()
            number = torch.cat([encoding, number], dim=1)
        self._table = number
        super().__init__(posterior, self._unpack_and_correct)

    def pack(self, x: ArrayLike, context: Context) -> Tensor:
        """Put x ``(batch, dim_x)`` and its context side by side."""
        x = as_matrix(x, "x")
        entries = as_entries(context, num_rows=len(x))
        number = match(self._contexts, entries)
        unknown = number >= len(self._contexts)
        if unknown.any():
            row = int(unknown.argmax())
            raise ValueError(
                f"the context of row {row} was not among those passed to packed()"
            )
        return torch.cat([x, self._table[number].to(x)], dim=1)

    def _unpack_and_correct(self, rows: Tensor) -> Corrections:
        dim_x = rows.shape[1] - self._table.shape[1]
        number = rows[:, -1].round().long().cpu()
        if dim_x < 1 or not ((number >= 0) & (number < len(self._contexts))).all():
            raise ValueError("these rows are not packed; use pack(x, context)")
        context = self._contexts.iloc[number.numpy()]
        return self._correct_in_context(rows[:, :dim_x], context)


class _Potential(BasePotential):
    """Log density of the corrected posterior at a fixed x, as sbi's optimisers ask."""

    def __init__(
        self, posterior: AmortizedPosterior, correct: Correct, prior: Any, device: Any
    ) -> None:
        self.posterior = posterior
        self.correct = correct
        super().__init__(prior, x_o=None, device=device)

    def set_x(self, x_o: Tensor | None, x_is_iid: bool | None = True) -> None:  # noqa: FBT001, FBT002
        """Remember x and its corrections, which every evaluation shares."""
        super().set_x(x_o, x_is_iid)
        if x_o is not None:
            if len(self.x_o) > 1:
                raise ValueError(
                    f"one observation is expected, got {len(self.x_o)}; use "
                    "log_prob_batched or sample_batched"
                )
            self.candidates = self.correct(self.x_o)

    def __call__(self, theta: Tensor, track_gradients: bool = True) -> Tensor:  # noqa: FBT001, FBT002
        if track_gradients and not theta.requires_grad:
            theta = theta.detach().requires_grad_()
        with torch.set_grad_enabled(track_gradients):
            theta = torch.atleast_2d(theta)[:, None]
            return log_prob_mixture(self.posterior, theta, self.candidates)[:, 0]
