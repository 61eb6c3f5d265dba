"""Posteriors trained with sbi."""

from __future__ import annotations

import copy
import math
import warnings
from pathlib import Path
from typing import Any, cast

import torch
from sbi.inference.posteriors.direct_posterior import DirectPosterior
from sbi.inference.posteriors.ensemble_posterior import EnsemblePosterior
from sbi.inference.posteriors.vector_field_posterior import VectorFieldPosterior
from sbi.neural_nets.embedding_nets import PermutationInvariantEmbedding
from sbi.utils.sbiutils import Standardize
from torch import Tensor, nn
from typing_extensions import Self

from ma_sbi.nan import refuse_weights
from ma_sbi.one_at_a_time import local_filters
from ma_sbi.posteriors.training_range import MomentRange, TrainingRange
from ma_sbi.posteriors.truncation import DenseTruncated, Truncated
from ma_sbi.protocols import ArrayLike, has_density
from ma_sbi.saving import Packed
from ma_sbi.telling import untold

__all__ = ["SBIAdapter", "from_sbi"]


def from_sbi(
    posterior: Any, *, x_train: ArrayLike | None = None, leakage_samples: int = 2_000
) -> SBIAdapter:
    """Adapt a posterior that sbi built.

    Draws lie inside the prior's support and take bounded time, even where sbi's rejection
    sampler would never return. If the posterior has an embedding net, corrections act on
    the raw x before it; an x with several dimensions is passed as it is, or flattened.

    With sbi's ``PermutationInvariantEmbedding`` an x is ``(batch, trials, dim)``, and may
    have fewer trials than in training; all rows of one call have the same number.
    :func:`~ma_sbi.per_trial` corrects each of them.

    Args:
        posterior: What ``build_posterior()`` returned.
        x_train: Simulations it was trained on; if given, an x far outside gives a warning.
            If None, the mean and scale that sbi stored for z-scoring are used.
        leakage_samples: Draws per observation to normalise a density that leaks out of
            the prior's support: more are more exact and slower; 0 does not normalise.

    Returns:
        A posterior with ``sample``, and with ``log_prob`` if sbi's has a density: that of
        NPE, of FMPE and NPSE (an integral for each theta, which takes long), and of
        ensembles of these.

    Raises:
        ValueError: If it is no sbi posterior, or its weights are not finite.
    """
    if not hasattr(posterior, "sample_batched"):
        raise ValueError(
            f"from_sbi expects an sbi posterior, got {type(posterior).__name__}; see "
            "from_zuko and from_callable"
        )
    if isinstance(posterior, EnsemblePosterior):
        return EnsembleAdapter(posterior, x_train, leakage_samples)
    if isinstance(posterior, DirectPosterior):
        return DirectAdapter(posterior, x_train, leakage_samples)
    if isinstance(posterior, VectorFieldPosterior):
        return FieldAdapter(posterior, x_train, leakage_samples)
    return SBIAdapter(posterior, x_train)


class SBIAdapter(Truncated):
    """Any sbi posterior, through its ``sample_batched``."""

    # Whether a matrix is rows in any case, and never trials.
    reads_rows = False

    def __init__(self, posterior: Any, x_train: ArrayLike | None = None) -> None:
        self.posterior = posterior
        estimator = _estimator(posterior)
        # A solver that sbi draws with would look for a step without NaN for ever.
        refuse_weights(estimator, f"this {type(posterior).__name__}")
        shape = getattr(estimator, "condition_shape", None)
        self.condition_shape = None if shape is None else torch.Size(shape)
        self.takes_trials = _takes_trials(estimator)
        super().__init__(
            prior=getattr(posterior, "prior", None),
            dim_x=None if shape is None or self.takes_trials else math.prod(shape),
            training_range=_training_range(estimator, x_train),
            device=posterior._device,
        )

    def as_rows(self, x: ArrayLike) -> Tensor:
        """Check observations, and return one row for each, several dimensions flattened."""
        shape = self.condition_shape
        if shape is None:
            return super().as_rows(x)
        given = tuple(getattr(x, "shape", ()))
        fixed = shape[1:] if self.takes_trials else shape
        if len(given) == len(shape) + 1 > 2 and given[len(given) - len(fixed) :] == fixed:
            x = cast(Any, x).reshape(given[0], -1)
        elif given == tuple(shape) and len(shape) > 1 and not self.takes_trials:
            x = cast(Any, x).reshape(1, -1)  # one observation
        elif self.takes_trials and not self.reads_rows and _may_be_trials(given, shape):
            raise ValueError(
                f"x of shape {given} may be one observation of {given[0]} trials or "
                f"{given[0]} observations of one trial: pass x[None] for the first, "
                "x[:, None] for the second"
            )
        x = super().as_rows(x)
        if self.takes_trials:
            num_trials, rest = divmod(x.shape[1], fixed.numel())
            if rest or num_trials > shape[0]:
                raise ValueError(
                    f"x must have shape (batch, trials, {fixed.numel()}) with at most "
                    f"{shape[0]} trials, as in training; got {tuple(given)}"
                )
        return x

    def of_rows(self) -> Self:
        """Return the same posterior, which takes a matrix for rows in any case."""
        if not self.takes_trials or self.reads_rows:
            return self
        other = copy.copy(self)
        other.reads_rows = True
        return other

    def _condition(self, x: Tensor) -> Tensor:
        if self.condition_shape is None:
            return x
        if self.takes_trials:
            # sbi's embedding leaves out what is NaN.
            lacking = self.condition_shape.numel() - x.shape[1]
            x = nn.functional.pad(x, (0, lacking), value=torch.nan)
        return x.reshape(len(x), *self.condition_shape)

    def to(self, device: torch.device | str) -> Self:
        """Move the posterior to a device, in place as sbi does; return it."""
        self.posterior.to(device)
        self.device, self.prior = torch.device(device), self.posterior.prior
        return self

    def _propose(self, num_samples: int, x: Tensor) -> Tensor:
        return self._sbi_draws(num_samples, x)

    def _sbi_draws(self, num_samples: int, x: Tensor, **options: Any) -> Tensor:
        options["show_progress_bars"] = False
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

        if not isinstance(self.posterior, DirectPosterior):
            raise ValueError(
                f"a {type(self.posterior).__name__} of sbi cannot be saved without pickle, "
                "only posteriors of NPE can: write it by torch.save(posterior.posterior, "
                "path), and read it by load_posterior(path, allow_pickle=True), or "
                "--allow-pickle of the commands"
            )
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


class FieldAdapter(SBIAdapter, DenseTruncated):
    """FMPE or NPSE of sbi, whose density is that of an ordinary differential equation."""

    expensive_density = True  # an integral for each theta

    def __init__(
        self, posterior: Any, x_train: ArrayLike | None, leakage_samples: int
    ) -> None:
        super().__init__(posterior, x_train)
        self.leakage_samples = leakage_samples

    def _propose(self, num_samples: int, x: Tensor) -> Tensor:
        return self._sbi_draws(num_samples, x, reject_outside_prior=False)

    def _density(self, theta: Tensor, x: Tensor) -> Tensor:
        estimator = self.posterior.vector_field_estimator
        flow = self.posterior.potential_fn.neural_ode(self._condition(x))
        if not estimator.compose_enabled:
            return flow.log_prob(theta)
        return flow.log_prob(estimator.to_z(theta)) - estimator.log_abs_det()


class EnsembleAdapter(SBIAdapter):
    """Several posteriors of sbi and their weights; each is kept inside the support."""

    def __init__(
        self, posterior: Any, x_train: ArrayLike | None, leakage_samples: int
    ) -> None:
        super().__init__(posterior, None)
        self.members: list[Any] = [
            from_sbi(member, x_train=x_train, leakage_samples=leakage_samples)
            for member in posterior.posteriors
        ]
        first = self.members[0]
        if any(other.condition_shape != first.condition_shape for other in self.members):
            raise ValueError("members of the ensemble expect x of different shapes")
        self.condition_shape, self.takes_trials = first.condition_shape, first.takes_trials
        self.dim_x, self.training_range = first.dim_x, first.training_range

    @property
    def has_density(self) -> bool:
        """Whether all members have one."""
        return all(has_density(member) for member in self.members)

    @property
    def expensive_density(self) -> bool:  # type: ignore[override]
        """Whether a density of any member takes much longer than a draw."""
        return any(member.expensive_density for member in self.members)

    def _draw(self, num_samples: int, x: Tensor) -> Tensor:
        # One member per draw: sbi's own draws come member after member.
        pick = torch.multinomial(self._weight(x), num_samples, replacement=True)
        dim_theta = self.posterior.prior.event_shape[0]
        draws = x.new_empty(num_samples, len(x), dim_theta)
        for number, member in enumerate(self.members):
            chosen = (pick == number).nonzero().flatten()
            if len(chosen):
                draws[chosen] = member._draw(len(chosen), x)
        return draws

    def log_prob(self, theta: ArrayLike, x: ArrayLike) -> Tensor:
        """Evaluate theta ``(num_samples, batch, dim_theta)`` at x ``(batch, dim_x)``."""
        return self.log_prob_by_weight(theta, x, None)

    def log_prob_by_weight(
        self, theta: ArrayLike, x: ArrayLike, weight: Tensor | None
    ) -> Tensor:
        """Evaluate as ``log_prob`` does, where densities at x are to be averaged."""
        if not self.has_density:
            raise ValueError("a member of this ensemble can be sampled but has no density")
        theta, x = self._check_density_input(theta, x)
        members = [member.of_rows() for member in self.members]
        with untold():  # what there is to say is said once, below
            each = torch.stack(
                [member.log_prob_by_weight(theta, x, weight) for member in members]
            )
        return self._told((each + self._weight(x).log()[:, None, None]).logsumexp(dim=0))

    def quick(self) -> Self:
        """Return the same ensemble of quick members."""
        return self._of([member.quick() for member in self.members])

    def normalised_by(self, num_draws: int) -> Self:
        """Return the same ensemble; the density of members is normalised by these draws."""
        return self._of([member.normalised_by(num_draws) for member in self.members])

    def acceptance(self, x: ArrayLike, num_draws: int) -> Tensor:
        """Estimate the share of draws inside the prior's support, shape ``(batch,)``."""
        each = [member.acceptance(x, num_draws) for member in self.members]
        return self._weight(each[0]) @ torch.stack(each)

    def to(self, device: torch.device | str) -> Self:
        """Move all members to a device, in place as sbi does; return the ensemble."""
        for member in self.members:
            member.to(device)
        return super().to(device)

    def of_rows(self) -> Self:
        """Return the same ensemble, which takes a matrix for rows in any case."""
        other = super().of_rows()
        return other._of([member.of_rows() for member in self.members])

    def _weight(self, like: Tensor) -> Tensor:
        return self.posterior.weights.to(like)

    def _of(self, members: list[Any]) -> Self:
        other = copy.copy(self)
        other.members = members
        return other


def _may_be_trials(given: tuple[int, ...], shape: torch.Size) -> bool:
    """Tell whether a matrix is as wide as one trial, and several are allowed."""
    return given[1:] == tuple(shape[1:]) and given[0] > 1 and shape[0] > 1


def _takes_trials(estimator: Any) -> bool:
    """Tell whether an embedding net pools the first dimension of x, whatever its size."""
    embedding = getattr(estimator, "embedding_net", None)
    parts = [] if embedding is None else embedding.modules()
    return any(isinstance(part, PermutationInvariantEmbedding) for part in parts)


def _estimator(posterior: Any) -> Any:
    names = ("posterior_estimator", "vector_field_estimator")
    return next((getattr(posterior, n) for n in names if hasattr(posterior, n)), None)


def _training_range(estimator: Any, x_train: ArrayLike | None) -> TrainingRange | None:
    if x_train is not None and _takes_trials(estimator):
        raise ValueError(
            "x_train is not supported where the number of trials varies; leave it out"
        )
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
