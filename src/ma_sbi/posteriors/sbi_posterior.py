"""A posterior with corrections as a ``NeuralPosterior``, for sbi's own tools."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

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
from ma_sbi.validation import as_matrix, as_shape

if TYPE_CHECKING:
    from ma_sbi.posteriors.amortized import Amortized

__all__ = ["PackedPosterior", "SBIPosterior"]

Correct = Callable[[Tensor], Corrections]


class SBIPosterior(NeuralPosterior):
    """A corrected posterior that takes x alone.

    Args:
        posterior: The trained posterior.
        correct: Maps x ``(batch, dim)`` to candidate corrections, context included.
    """

    def __init__(self, posterior: AmortizedPosterior, correct: Correct) -> None:
        self._build(posterior, correct)

    def _build(self, posterior: AmortizedPosterior, correct: Correct) -> None:
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
        sample_shape: int | Sequence[int] = torch.Size(),  # noqa: B008
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
        sample_shape: int | Sequence[int],
        x: Tensor,
        show_progress_bars: bool = False,  # noqa: FBT001, FBT002 (sbi's signature)
        **kwargs: Any,
    ) -> Tensor:
        """Draw ``(*sample_shape, batch, dim_theta)`` for a batch of observations."""
        shape = as_shape(sample_shape, "sample_shape")
        x = _as_rows(x)
        draws = sample_corrected(
            self.posterior, math.prod(shape), x.shape, lambda rows: self.correct(x[rows])
        )
        return draws.reshape(*shape, *draws.shape[1:])

    def log_prob(
        self,
        theta: Tensor,
        x: Tensor | None = None,
        norm_posterior: bool = True,  # noqa: FBT001, FBT002 (sbi's signature)
        track_gradients: bool = False,  # noqa: FBT001, FBT002
        leakage_correction_params: dict[str, Any] | None = None,
    ) -> Tensor:
        """Evaluate theta ``(n, dim_theta)`` for one observation, shape ``(n,)``.

        Args:
            theta: Parameters.
            x: The observation; the default x if None.
            norm_posterior: Whether to normalise over the prior's support, as sbi does.
            track_gradients: Whether the result has gradients.
            leakage_correction_params: Of these, ``num_rejection_samples`` has an effect:
                the most draws to normalise a candidate by.
        """
        # A copy, as the observation is part of it: threads may ask for different ones.
        potential = copy.copy(self.potential_fn)
        potential.posterior = self._normalised(norm_posterior, leakage_correction_params)
        potential.set_x(self._x_else_default_x(x))
        return potential(theta, track_gradients=track_gradients)

    def log_prob_batched(
        self,
        theta: Tensor,
        x: Tensor,
        norm_posterior: bool = True,  # noqa: FBT001, FBT002 (sbi's signature)
        track_gradients: bool = False,  # noqa: FBT001, FBT002
        leakage_correction_params: dict[str, Any] | None = None,
    ) -> Tensor:
        """Evaluate theta ``(n, batch, dim_theta)`` for a batch of observations.

        The other arguments are those of ``log_prob``.
        """
        posterior = self._normalised(norm_posterior, leakage_correction_params)
        x = _as_rows(x)
        with torch.set_grad_enabled(track_gradients):
            return log_prob_corrected(
                posterior, theta, x.shape, lambda rows: self.correct(x[rows])
            )

    @torch.no_grad()
    def leakage_correction(
        self,
        x: Tensor,
        num_rejection_samples: int = 10_000,
        force_update: bool = False,  # noqa: FBT001, FBT002 (sbi's signature)
        show_progress_bars: bool = False,  # noqa: FBT001, FBT002
        rejection_sampling_batch_size: int = 10_000,
    ) -> Tensor:
        """Estimate the mass inside the prior's support for each x, shape ``(batch,)``.

        It is averaged over candidates, each of which ``log_prob`` normalises by its own;
        with one candidate ``log_prob`` is that without ``norm_posterior`` less the log of
        this. The last three arguments are sbi's and have no effect.
        """
        x = _as_rows(x)
        candidates = self.correct(x)
        weight = candidates.log_weight.exp()
        if not hasattr(self.posterior, "acceptance"):
            return weight.sum(dim=0)  # not one of our posteriors: it is not cut
        share, ours = torch.zeros_like(weight), cast("Amortized", self.posterior)
        posterior = ours.of_rows()
        # As many draws in all as one candidate would have: each has some by its weight.
        level = (num_rejection_samples * weight).clamp(min=1).log2().ceil().long()
        level[weight == 0] = -1
        for one in level[level >= 0].unique().tolist():
            members = level == one
            found = posterior.acceptance(candidates.x[members], 2**one)
            share[members] = found.to(share)
        return (share * weight).sum(dim=0)

    def to(self, device: torch.device | str) -> None:
        """Move the posterior to a device, in place as sbi's own; the default x as well."""
        if not hasattr(self.posterior, "to"):
            raise ValueError(
                f"a {type(self.posterior).__name__} cannot be moved: make it on {device}"
            )
        self.posterior.to(device)
        default_x = self.default_x
        self._build(self.posterior, self.correct)
        if default_x is not None:
            self.set_default_x(default_x)

    def set_default_x(self, x: ArrayLike) -> Any:
        """Set the observation to use where none is given."""
        return super().set_default_x(self._one(x))

    def _x_else_default_x(self, x: Any) -> Tensor:
        return super()._x_else_default_x(None if x is None else self._one(x))

    def _one(self, x: Any) -> Any:
        """Give one observation of several dimensions, such as trials, a batch, as sbi."""
        shape = tuple(getattr(self.posterior, "condition_shape", None) or ())
        given = tuple(getattr(x, "shape", ()))
        trials = getattr(self.posterior, "takes_trials", False)
        fits = given[1:] == shape[1:] if trials else given == shape
        return x[None] if fits and len(given) == len(shape) > 1 else x

    def _normalised(self, norm_posterior: bool, params: dict[str, Any] | None) -> Any:  # noqa: FBT001
        num_draws = (params or {}).get("num_rejection_samples")
        if not norm_posterior:
            num_draws = 0
        if num_draws is None or not hasattr(self.posterior, "normalised_by"):
            return self.posterior
        return self.posterior.normalised_by(num_draws)


class PackedPosterior(SBIPosterior):
    """A corrected posterior whose x carries its context.

    A row is ``[x | encoded context | number of the context]``. The number decides; the
    encoding is there for classifiers such as ``LC2ST``'s to see.

    Args:
        posterior: The trained posterior.
        correct: Maps x ``(batch, dim_x)`` and its contexts to candidate corrections.
        encoder: The corrector's fitted encoder, if it has one.
        contexts: Every context that will be packed.
        match: Matches tables of x and its contexts by their names.
    """

    def __init__(
        self,
        posterior: AmortizedPosterior,
        correct: Callable[[Tensor, Context], Corrections],
        encoder: Encoder | None,
        contexts: Context,
        match: Callable[[Any, Any], tuple[Any, Any]],
    ) -> None:
        self._correct_in_context = correct
        self._match = match
        self._contexts, _ = distinct(as_entries(contexts))
        number = torch.arange(len(self._contexts)).float()[:, None]
        if encoder is not None:
            encoding = encode(encoder, self._contexts).nan_to_num().float()
            number = torch.cat([encoding, number], dim=1)
        self._table = number
        super().__init__(posterior, self._unpack_and_correct)

    def pack(self, x: ArrayLike, context: Context) -> Tensor:
        """Put x ``(batch, dim_x)`` and its context side by side."""
        x, context = self._match(x, context)
        x = _as_rows(x)
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


def _as_rows(x: Any) -> Tensor:
    """Flatten observations of several dimensions; the correction checks their width."""
    several = isinstance(x, Tensor) and x.ndim > 2
    return as_matrix(x.flatten(1) if several else x, "x")


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
            self.candidates = self.correct(_as_rows(self.x_o))

    def __call__(self, theta: Tensor, track_gradients: bool = True) -> Tensor:  # noqa: FBT001, FBT002
        if track_gradients and not theta.requires_grad:
            theta = theta.detach().requires_grad_()
        with torch.set_grad_enabled(track_gradients):
            theta = torch.atleast_2d(theta)[:, None]
            return log_prob_mixture(self.posterior, theta, self.candidates)[:, 0]
