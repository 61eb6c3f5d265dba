"""The corrected posterior: the method, end to end."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ma_sbi.context import Entries, as_entries
from ma_sbi.display.progress import showing
from ma_sbi.display.text import shorten
from ma_sbi.labels import in_columns, match_rows
from ma_sbi.minilm import embedded_once
from ma_sbi.mixture import log_prob_corrected, sample_corrected
from ma_sbi.protocols import (
    AmortizedPosterior,
    ArrayLike,
    Context,
    Corrections,
    Corrector,
    Encoder,
    check_posterior,
    has_density,
)
from ma_sbi.transforming import transform
from ma_sbi.validation import as_matrix, as_shape, as_tensor

if TYPE_CHECKING:
    from ma_sbi.posteriors.sbi_posterior import PackedPosterior, SBIPosterior

__all__ = ["CorrectedPosterior"]

KIND = "corrected posterior"


class CorrectedPosterior:
    r"""A posterior evaluated at what the simulator would have given instead of x.

    .. math:: \tilde q(\theta \mid x, z) = \sum_k w_k(x, z)\, \hat q(\theta \mid x_k(x, z))

    The trained posterior is not changed, only its input. The candidates :math:`x_k` and
    their weights come from the corrector; a point corrector has one candidate. If the
    posterior has an embedding net, the correction acts on the raw x before it.

    Args:
        posterior: Any amortized posterior; ``from_sbi``, ``from_zuko``,
            ``from_bayesflow`` and ``from_callable`` adapt those of other packages.
        corrector: A fitted corrector.
    """

    def __init__(self, posterior: AmortizedPosterior, corrector: Corrector) -> None:
        is_class = isinstance(corrector, type)
        if is_class or not callable(getattr(corrector, "corrections", None)):
            raise ValueError(
                "corrector must offer corrections(x, context), got "
                f"{shorten(repr(corrector))}: pass what fit_corrector returned, or another "
                "corrector that is fitted"
            )
        check_posterior(posterior)
        self.posterior = posterior
        self.corrector = corrector

    @property
    def has_density(self) -> bool:
        """Whether ``log_prob`` can be evaluated: whether the trained posterior has one."""
        return has_density(self.posterior)

    @property
    def columns_(self) -> tuple[str, ...] | None:
        """Names of the columns of x that the corrector was fitted to, if it had names."""
        return getattr(self.corrector, "columns_", None)

    def sample(
        self,
        num_samples: int | Sequence[int],
        x: ArrayLike,
        context: Context,
        *,
        seed: int | None = None,
        show_progress: bool | None = None,
    ) -> Tensor:
        """Draw from the corrected posterior.

        Args:
            num_samples: Draws per observation, or their shape, as in sbi.
            x: Observations, shape ``(batch, dim_x)``.
            context: One entry per observation, or one for all.
            seed: Makes the draws repeatable.
            show_progress: Whether to show progress, on standard error; if None, to a
                person: on a terminal or in a notebook.

        Returns:
            Draws of shape ``(num_samples, batch, dim_theta)``, or ``(*shape, batch,
            dim_theta)``, exchangeable along the first dimension.
        """
        shape = as_shape(num_samples, "num_samples")
        x, entries = self._check(x, context)
        correct = self._correct_some(x, entries)
        with showing("Drawing", show_progress=show_progress), embedded_once():
            draws = sample_corrected(
                self.posterior, math.prod(shape), x.shape, correct, seed=seed
            )
        return draws.reshape(*shape, *draws.shape[1:])

    def log_prob(
        self,
        theta: ArrayLike,
        x: ArrayLike,
        context: Context,
        *,
        show_progress: bool | None = None,
    ) -> Tensor:
        """Evaluate the corrected posterior's density.

        Args:
            theta: Parameters, shape ``(num_samples, batch, dim_theta)``.
            x: Observations, shape ``(batch, dim_x)``.
            context: One entry per observation, or one for all.
            show_progress: As of :meth:`sample`.

        Returns:
            Log densities of shape ``(num_samples, batch)``.
        """
        theta = as_tensor(theta, "theta")
        if theta.ndim != 3:
            raise ValueError(
                "theta must have shape (num_samples, batch, dim_theta), got "
                f"{tuple(theta.shape)}; for one theta per observation pass theta[None]"
            )
        x, entries = self._check(x, context)
        correct = self._correct_some(x, entries)
        with showing("Evaluating densities", show_progress=show_progress), embedded_once():
            return log_prob_corrected(self.posterior, theta, x.shape, correct)

    def _correct_some(self, x: Tensor, entries: Entries) -> Callable[[slice], Corrections]:
        """Return a function that corrects some of the rows."""
        if not getattr(self.corrector, "needs_every_row", False):
            return lambda rows: self.corrector.corrections(x[rows], entries.iloc[rows])
        every = self.corrector.corrections(x, entries)
        return lambda rows: Corrections(
            every.x[:, rows], every.log_weight[:, rows], every.log_abs_det[:, rows]
        )

    def given(self, context: Context) -> SBIPosterior:
        """Fix the context and return a posterior that sbi's own tools accept.

        Args:
            context: One entry, e.g. a text, that holds for every observation.

        Returns:
            An sbi ``NeuralPosterior``, for ``run_sbc``, ``run_tarp``, ``LC2ST``,
            ``pairplot``, ``map`` and the rest of sbi.
        """
        from ma_sbi.posteriors.sbi_posterior import SBIPosterior

        entry = getattr(self.corrector, "entries_of", as_entries)(context, 1)
        encoder = getattr(self.corrector, "encoder_", None)
        if encoder is not None:
            transform(encoder, entry)  # raises now if it cannot encode the context
        return SBIPosterior(self.posterior, partial(_correct_with, self._of_rows(), entry))

    def packed(self, contexts: Context) -> PackedPosterior:
        """Return an sbi posterior whose rows carry their own context.

        For diagnostics over many observations with different contexts::

            packed = corrected.packed(contexts)
            run_sbc(theta, packed.pack(x, contexts), packed)

        Args:
            contexts: Every context that will be packed, in any order.
        """
        from ma_sbi.posteriors.sbi_posterior import PackedPosterior

        encoder = getattr(self.corrector, "encoder_", None)
        rows = self._of_rows()
        return PackedPosterior(
            self.posterior, rows.corrections, encoder, contexts, self._match
        )

    def _of_rows(self) -> CorrectedPosterior:
        """Return the same for x that has one row per observation in any case."""
        of_rows = getattr(self.posterior, "of_rows", None)
        return self if of_rows is None else CorrectedPosterior(of_rows(), self.corrector)

    def corrections(self, x: ArrayLike, context: Context) -> Corrections:
        """Return the candidates that the posterior is evaluated at, with weights."""
        return self.corrector.corrections(*self._check(x, context))

    def save(self, path: str | Path, **options: Any) -> None:
        """Write the corrector and the posterior to one file; :meth:`load` reads it.

        Args:
            path: The file.
            options: Of the ``save`` of the posterior: for one of sbi, the name and the
                options of its network.

        Raises:
            ValueError: If one of them cannot be saved.
        """
        from ma_sbi.correctors.composed import BaseCorrector

        if not isinstance(self.corrector, BaseCorrector):
            raise ValueError(f"a {type(self.corrector).__name__} cannot be saved")
        if not hasattr(self.posterior, "packed"):
            raise ValueError(
                f"a {type(self.posterior).__name__} is code, and cannot be saved: save the "
                "corrector alone, corrected.corrector.save(path), and later correct the "
                "posterior anew, CorrectedPosterior(posterior, load_corrector(path))"
            )
        from ma_sbi.correctors.files import save_corrector

        packed = self.posterior.packed(**options)
        save_corrector(self.corrector, path, KIND, posterior=packed)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        encoder: Encoder | None = None,
        density: Callable[[Tensor], Tensor] | None = None,
        device: torch.device | str | None = None,
        **options: Any,
    ) -> CorrectedPosterior:
        """Load what :meth:`save` wrote; draws are the same, to the last bit.

        Args:
            path: The file.
            encoder: As of :func:`~ma_sbi.load_corrector`.
            density: Likewise.
            device: Where to draw; torch's default device if None.
            options: Of the posterior: ``prior=``, if the file does not hold it, and
                ``embedding_net=`` of a flow.

        Raises:
            ValueError: If the file holds something else, or does not fit together.
            OSError: If there is no such file.
        """
        from ma_sbi.loading import load_kept

        kept = load_kept(
            path, KIND, encoder=encoder, density=density, device=device, **options
        )
        return cls(kept.posterior, kept.corrector)

    def _match(self, x: ArrayLike, context: Context) -> tuple[Any, Any]:
        """Match rows and columns of tables by their names."""
        x = in_columns(self.columns_, x, getattr(self.posterior, "dim_x", None))
        x, context = match_rows(x=x, context=context)
        return x, context

    def _check(self, x: ArrayLike, context: Context) -> tuple[Tensor, Entries]:
        as_rows = getattr(self.posterior, "as_rows", None)
        if as_rows is None:
            dim_x, device = (getattr(self.posterior, n, None) for n in ("dim_x", "device"))
            as_rows = partial(as_matrix, name="x", dim=dim_x, device=device)
        x, context = self._match(x, context)
        x = as_rows(x)
        return x, as_entries(context, num_rows=len(x))

    def __repr__(self) -> str:
        return f"CorrectedPosterior({self.posterior!r}, {self.corrector!r})"


def _correct_with(corrected: CorrectedPosterior, entry: Entries, x: Tensor) -> Corrections:
    """Correct every row of x with the same context."""
    return corrected.corrections(x, entry.iloc[[0] * len(x)])
