"""Posteriors trained with sbi."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from sbi.inference.posteriors.direct_posterior import DirectPosterior
from sbi.inference.posteriors.vector_field_posterior import VectorFieldPosterior
from sbi.utils.sbiutils import Standardize
from torch import Tensor

from ma_sbi.nan import refuse_weights
from ma_sbi.one_at_a_time import local_filters
from ma_sbi.posteriors.training_range import MomentRange, TrainingRange
from ma_sbi.posteriors.truncation import DenseTruncated, Truncated
from ma_sbi.protocols import ArrayLike
from ma_sbi.saving import Packed

__all__ = ["SBIAdapter", "from_sbi"]


def from_sbi(
    posterior: Any, *, x_train: ArrayLike | None = None, leakage_samples: int = 2_000
) -> SBIAdapter:
    """Adapt a posterior that sbi built.

    Draws lie inside the prior's support and take bounded time, even where sbi's rejection
    sampler would never return. If the posterior has an embedding net, corrections act on
    the raw x before it; an x with several dimensions is passed flattened.

    Args:
        posterior: What ``build_posterior()`` returned.
        x_train: Simulations it was trained on; if given, an x far outside gives a warning.
            If None, the mean and scale that sbi stored for z-scoring are used.
        leakage_samples: Draws per observation to normalise a density that leaks out of
            the prior's support: more are more exact and slower; 0 does not normalise.

    Returns:
        A posterior with ``sample``, and with ``log_prob`` if sbi's has a direct density.

    Raises:
        ValueError: If it is no sbi posterior, or its weights are not finite.
    """
    if not hasattr(posterior, "sample_batched"):
        raise ValueError(
            f"from_sbi expects an sbi posterior, got {type(posterior).__name__}; see "
            "from_zuko and from_callable"
        )
    if isinstance(posterior, DirectPosterior):
        return DirectAdapter(posterior, x_train, leakage_samples)
    return SBIAdapter(posterior, x_train)


class SBIAdapter(Truncated):
    """Any sbi posterior, through its ``sample_batched``."""

    def __init__(self, posterior: Any, x_train: ArrayLike | None = None) -> None:
        self.posterior = posterior
        estimator = _estimator(posterior)
        # A solver that sbi draws with would look for a step without NaN for ever.
        refuse_weights(estimator, f"this {type(posterior).__name__}")
        shape = getattr(estimator, "condition_shape", None)
        self.condition_shape = None if shape is None else torch.Size(shape)
        super().__init__(
            prior=getattr(posterior, "prior", None),
            dim_x=None if shape is None else torch.Size(shape).numel(),
            training_range=_training_range(estimator, x_train),
            device=posterior._device,
        )

    def _condition(self, x: Tensor) -> Tensor:
        if self.condition_shape is None:
            return x
        return x.reshape(len(x), *self.condition_shape)

    def _propose(self, num_samples: int, x: Tensor) -> Tensor:
        options: dict[str, Any] = {"show_progress_bars": False}
        if isinstance(self.posterior, VectorFieldPosterior):
            options["reject_outside_prior"] = False
        with local_filters():
            # Draws outside are rejected by this class, so sbi's warning is not needed.
            warnings.filterwarnings("ignore", message=".*outside.*prior")
            return self.posterior.sample_batched(
                (num_samples,), self._condition(x), **options
            )

    def save(self, path: str | Path, network: str = "maf", **options: Any) -> None:
        """Write the posterior to a file that cannot run code, as a pickle can.

        Args:
            path: The file; :func:`~ma_sbi.load_posterior` reads it.
            network: The ``density_estimator`` that NPE was given by name, or the name that
                ``sbi.neural_nets.posterior_nn`` was; NPE's default is "maf".
            options: The options that ``posterior_nn`` was given.

        Raises:
            ValueError: If these words do not build the network again, or it is not NPE's.
        """
        self.packed(network, **options).write(path)

    def packed(self, network: str = "maf", **options: Any) -> Packed:
        """Return what it is made of, for a file; arguments as of ``save``."""
        from ma_sbi.posteriors.sbi_files import pack_sbi

        return pack_sbi(self, network, **options)

    def __repr__(self) -> str:
        return f"from_sbi({type(self.posterior).__name__})"


class DirectAdapter(SBIAdapter, DenseTruncated):
    """An sbi posterior whose network gives draws and density directly."""

    def __init__(
        self, posterior: Any, x_train: ArrayLike | None, leakage_samples: int
    ) -> None:
        super().__init__(posterior, x_train)
        self.leakage_samples = leakage_samples

    def _propose(self, num_samples: int, x: Tensor) -> Tensor:
        estimator = self.posterior.posterior_estimator
        return estimator.sample((num_samples,), condition=self._condition(x))

    def _density(self, theta: Tensor, x: Tensor) -> Tensor:
        estimator = self.posterior.posterior_estimator
        return estimator.log_prob(theta, condition=self._condition(x))


def _estimator(posterior: Any) -> Any:
    names = ("posterior_estimator", "vector_field_estimator")
    return next((getattr(posterior, n) for n in names if hasattr(posterior, n)), None)


def _training_range(estimator: Any, x_train: ArrayLike | None) -> TrainingRange | None:
    if x_train is not None:
        flat = torch.as_tensor(x_train).flatten(1)
        shape = getattr(estimator, "condition_shape", None)
        if shape is not None and flat.shape[1] != torch.Size(shape).numel():
            raise ValueError(
                f"x_train must have {torch.Size(shape).numel()} columns, as the posterior "
                f"expects of x, got {flat.shape[1]}"
            )
        return TrainingRange.of(flat)
    embedding = getattr(estimator, "embedding_net", None)
    if embedding is None:
        return None
    scales = [part for part in embedding.modules() if isinstance(part, Standardize)]
    if not scales or scales[0]._mean.ndim != 1:
        return None
    return MomentRange.of_moments(scales[0]._mean, scales[0]._std)
