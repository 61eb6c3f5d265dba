"""What every method offers, ours or a rival: one way to fit, one way to sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import torch
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from torch import Tensor
from torch.distributions import Distribution
from typing_extensions import Self

from ma_sbi.context import Entries, as_entries
from ma_sbi.mixture import log_prob_mixture, sample_mixture
from ma_sbi.protocols import AmortizedPosterior, Context, Corrections, has_density
from ma_sbi.randomness import derive
from ma_sbi.validation import as_count, as_matrix
from ma_sbi_bench.methods.materials import NEEDS, Materials, Need

__all__ = ["CorrectingMethod", "Method", "RetrainedMethod"]


class Method(BaseEstimator, ABC):
    """A way to infer a posterior for real observations from the available data.

    ``fit`` once, ``sample`` for all observations together. Options are arguments of the
    constructor; :class:`~ma_sbi_bench.methods.Materials` holds the data. What a method
    needs and which laws it keeps are declared here, so that tables and tests are derived
    from them. Hooks for subclasses: ``_fit`` and ``_sample``, and ``_log_prob`` if there is
    a density. They are given checked input; the context is a Series or DataFrame, or None
    for a method that does not need it.

    Attributes:
        reference: Where the method is described.
        needs: Kinds of material that it requires.
        amortised: Whether a new observation costs one evaluation, without training,
            transport or Markov chains of its own.
        rows_independent: Whether the posterior of an observation does not depend on the
            rest of the batch.
        reads: Which data ``sample`` is to be given: what was observed or, for the
            Oracle, what the simulator would have given instead.
    """

    reference: ClassVar[str]
    needs: frozenset[Need] = frozenset()
    amortised: ClassVar[bool] = True
    rows_independent: ClassVar[bool] = True
    reads: ClassVar[Literal["x_obs", "x_sim"]] = "x_obs"

    prior_: Distribution
    dim_x_: int | None

    def fit(self, materials: Materials, *, seed: int | None = None) -> Self:
        """Learn from the available data.

        Args:
            materials: The available data; what the method does not need is ignored.
            seed: Makes the fit repeatable.

        Raises:
            ValueError: If something that the method needs is not there.
        """
        if not isinstance(materials, Materials):
            raise ValueError(f"fit needs Materials(...), got {type(materials)}")
        missing = [kind for kind in NEEDS if kind in self.needs - materials.has]
        if missing:
            wanted = "; ".join(NEEDS[kind] for kind in missing)
            raise ValueError(f"{type(self).__name__} needs {wanted}")
        if seed is None:
            # One is drawn, so that steps of the fit, and what draws later, can share it.
            seed = int(torch.randint(2**62, ()))
        self.__dict__.pop("prior_", None)  # a fit that fails leaves nothing fitted
        self.dim_x_ = materials.dim_x
        with torch.enable_grad():
            self._fit(materials, seed)
        self.prior_ = materials.prior
        return self

    def sample(
        self,
        num_samples: int,
        x: Any,
        context: Context | None = None,
        *,
        seed: int | None = None,
    ) -> Tensor:
        """Draw for a batch of observations, all together.

        Args:
            num_samples: Draws per observation.
            x: Observations, shape ``(batch, dim_x)``.
            context: One entry per observation, or one for all; only for a method that
                needs it, others ignore it.
            seed: Makes the draws repeatable.

        Returns:
            Draws of shape ``(num_samples, batch, dim_theta)``.
        """
        num_samples = as_count(num_samples, "num_samples")
        x, entries = self._check_input(x, context)
        with torch.no_grad():
            return self._sample(num_samples, x, entries, seed)

    def log_prob(self, theta: Any, x: Any, context: Context | None = None) -> Tensor:
        """Evaluate the density, where the method has one.

        Args:
            theta: Parameters, shape ``(num_samples, batch, dim_theta)``.
            x: Observations, shape ``(batch, dim_x)``.
            context: As for :meth:`sample`.

        Returns:
            Log densities of shape ``(num_samples, batch)``.

        Raises:
            ValueError: If the method can only be sampled.
        """
        x, entries = self._check_input(x, context)
        if not self.has_density:
            raise ValueError(f"{type(self).__name__} can be sampled but has no density")
        theta = torch.as_tensor(theta, dtype=torch.float32, device=x.device)
        expected = (len(x), self.prior_.event_shape[0])
        if theta.ndim != 3 or theta.shape[1:] not in (expected, (1, expected[1])):
            raise ValueError(
                "theta must have shape (num_samples, batch, dim_theta), where batch and "
                f"dim_theta are {expected}, got {tuple(theta.shape)}"
            )
        if theta.isnan().any():
            raise ValueError("theta must not be NaN")
        with torch.no_grad():
            return self._log_prob(theta.expand(-1, len(x), -1), x, entries)

    @property
    def has_density(self) -> bool:
        """Whether ``log_prob`` can be evaluated; for most, known once fitted."""
        if type(self)._log_prob is Method._log_prob:
            return False
        return not hasattr(self, "posterior_") or has_density(self.posterior_)

    @abstractmethod
    def _fit(self, materials: Materials, seed: int | None) -> None:
        """Learn from checked materials."""

    @abstractmethod
    def _sample(
        self, num_samples: int, x: Tensor, context: Any, seed: int | None
    ) -> Tensor:
        """Draw for checked input."""

    def _log_prob(self, theta: Tensor, x: Tensor, context: Any) -> Tensor:
        """Evaluate for checked input, where there is a density."""
        raise NotImplementedError

    def _check_input(
        self, x: Any, context: Context | None
    ) -> tuple[Tensor, Entries | None]:
        if not hasattr(self, "prior_"):
            raise NotFittedError(
                f"this {type(self).__name__} is not fitted yet: call fit first"
            )
        device = getattr(getattr(self, "posterior_", None), "device", None)
        x = as_matrix(x, "x", dim=self.dim_x_, device=device)
        if "context" not in self.needs:
            return x, None
        if context is None:
            raise ValueError(
                f"{type(self).__name__} reads the context: pass one entry per observation"
            )
        return x, as_entries(context, num_rows=len(x))


class CorrectingMethod(Method):
    r"""A method that shows the trained posterior other observations.

    .. math:: \tilde q(\theta \mid x) = \sum_k w_k(x)\, \hat q(\theta \mid x_k(x))

    NPE shows x itself, RoPE a weighted pool of simulations, RNPE denoised versions of x,
    MA-SBI what x would have been. Subclasses say what is shown in ``_corrections``.
    """

    needs: frozenset[Need] = frozenset({"posterior"})
    posterior_: AmortizedPosterior
    seed_: int | None

    @abstractmethod
    def _corrections(self, x: Tensor, context: Any, seed: int | None) -> Corrections:
        """Return candidates for checked input."""

    def _fit(self, materials: Materials, seed: int | None) -> None:
        """Keep the posterior; a subclass that learns something calls this first."""
        self.posterior_ = materials.take("posterior")
        self.seed_ = derive(seed, "corrections")

    def corrections(self, x: Any, context: Context | None = None) -> Corrections:
        """Return what the posterior is shown instead of x, with weights.

        Where that is random, as in RNPE, the seed of the fit decides.
        """
        return self._corrections(*self._check_input(x, context), seed=self.seed_)

    def _sample(
        self, num_samples: int, x: Tensor, context: Any, seed: int | None
    ) -> Tensor:
        shown = self._corrections(x, context, derive(seed, "corrections"))
        return sample_mixture(self.posterior_, num_samples, shown, seed=seed)

    def _log_prob(self, theta: Tensor, x: Tensor, context: Any) -> Tensor:
        return log_prob_mixture(
            self.posterior_, theta, self._corrections(x, context, seed=self.seed_)
        )


class RetrainedMethod(Method):
    """A method that trains a posterior of its own.

    ``_fit`` stores it as ``posterior_``; ``_condition`` says what it is shown.
    """

    posterior_: Any  # with a density or without

    def _condition(self, x: Tensor, context: Any) -> Tensor:
        """Turn checked input into what the posterior was trained on; x itself here."""
        return x

    def _sample(
        self, num_samples: int, x: Tensor, context: Any, seed: int | None
    ) -> Tensor:
        condition = self._condition(x, context)
        return self.posterior_.sample(num_samples, condition, seed=seed)

    def _log_prob(self, theta: Tensor, x: Tensor, context: Any) -> Tensor:
        return self.posterior_.log_prob(theta, self._condition(x, context))
