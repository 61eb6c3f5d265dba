"""Robust NPE: the trained posterior, averaged over denoised versions of x."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from ma_sbi.context import Entries
from ma_sbi.networks import Standardise
from ma_sbi.protocols import Corrections
from ma_sbi.randomness import derive, generator
from ma_sbi.validation import as_count
from ma_sbi_bench.methods.denoising import Denoised, denoise
from ma_sbi_bench.methods.error_model import SpikeAndSlab
from ma_sbi_bench.methods.marginal import Marginal, fit_marginal
from ma_sbi_bench.methods.materials import Materials, Need
from ma_sbi_bench.methods.method import CorrectingMethod

__all__ = ["RNPE", "ChainsNotMixed"]

Density = Literal["nsf", "maf"] | Callable[..., Marginal]
"""How q(x) is learned: a name, or ``fit(x, seed=seed)``."""


class ChainsNotMixed(UserWarning):
    """The chains of an observation have not converged."""


class RNPE(CorrectingMethod):
    r"""The trained posterior averaged over what x may have been without its errors.

    .. math:: \tilde q(\theta \mid y) = \int \hat q(\theta \mid x)\, p(x \mid y)\, dx,
        \qquad p(x \mid y) \propto q(x) \prod_j p(y_j \mid x_j)

    q(x) is a flow trained on the simulations, and the error of each statistic follows
    :class:`~ma_sbi_bench.methods.error_model.SpikeAndSlab` (Ward et al. 2022). The integral
    is an average over the states of Markov chains, run for each observation at every
    call: draws of one call share their ``num_chains * num_states`` versions
    of x, and a density has the noise of that many versions.

    The authors run one chain of 120,000 steps of mixed Hamiltonian Monte Carlo per
    observation on a block neural autoregressive flow; here many short chains of all
    observations move together (:mod:`ma_sbi_bench.methods.denoising`), and q(x) is learned
    from simulations with the noise of a spike, so that constant statistics and counts,
    which have no density, are allowed.

    Args:
        spike_scale: Error of a statistic that is right, in standard deviations of the
            simulations.
        slab_scale: Error of a statistic that is wrong.
        slab_probability: Prior probability that a statistic is wrong.
        density: What learns q(x): ``"nsf"``, or ``"maf"``, faster and less flexible; or a
            function like :func:`~ma_sbi_bench.methods.marginal.fit_marginal`.
        num_chains: Chains per observation.
        num_steps: Steps of each chain, the first half of them burn-in; 50 per statistic,
            but at least 300, if None.
        num_states: States kept of each chain.
        max_r_hat: Split R-hat above which a warning is given. What is kept are the ends
            of many chains, so they need not be long, only long enough to forget their
            start: at 1.2 they are about nine autocorrelation times long.
        show_progress: Whether to show progress bars.

    Example:
        Which statistics of which observation does the simulator not explain?

        >>> method.misspecification(x_obs)  # doctest: +SKIP
        tensor([[0.4571, 1.0000]])
    """

    reference = "Ward et al. 2022, arXiv:2210.06564"
    needs: frozenset[Need] = frozenset({"posterior", "simulations"})
    amortised = False

    max_rows = 50_000
    """Most chains moved in one pass; more observations than that take turns."""
    max_starts = 10_000
    """Most simulations among which the chains look for a start."""

    def __init__(
        self,
        spike_scale: float = 0.01,
        slab_scale: float = 0.25,
        slab_probability: float = 0.5,
        density: Density = "nsf",
        num_chains: int = 200,
        num_steps: int | None = None,
        num_states: int = 1,
        max_r_hat: float = 1.2,
        *,
        show_progress: bool = False,
    ) -> None:
        self.spike_scale = spike_scale
        self.slab_scale = slab_scale
        self.slab_probability = slab_probability
        self.density = density
        self.num_chains = num_chains
        self.num_steps = num_steps
        self.num_states = num_states
        self.max_r_hat = max_r_hat
        self.show_progress = show_progress

    def denoise(self, x: Any, *, seed: int | None = None) -> Denoised:
        """Run the chains for observations x ``(batch, dim_x)``.

        Returns:
            Versions of x in its own units, ``(num_chains * num_states, batch, dim_x)``,
            the probability that each statistic is wrong and the split R-hat of each,
            ``(batch, dim_x)``.
        """
        x, _ = self._check_input(x, None)
        with torch.no_grad():
            return self._denoise(x, seed)

    def misspecification(self, x: Any, *, seed: int | None = None) -> Tensor:
        r"""Give :math:`P(m_j = 1 \mid y)`, that a statistic is wrong, ``(batch, dim_x)``.

        About ``slab_probability`` for a statistic that is as usual, since a slab fits it
        nearly as well as a spike; near one if the simulations do not explain it.
        """
        return self.denoise(x, seed=seed).misspecified

    def _fit(self, materials: Materials, seed: int | None) -> None:
        super()._fit(materials, seed)
        simulations = materials.take("simulations").x
        self.standardise_ = Standardise.of(simulations)
        self.error_model_ = self._check_options(len(simulations))
        self.simulations_ = self.standardise_(simulations)
        fit = self.density
        if not callable(fit):
            fit = partial(fit_marginal, flow=fit, show_progress=self.show_progress)
        # A statistic that is constant, a count or a function of the others has no density;
        # with noise as small as that of a right statistic it has.
        rng = generator(derive(seed, "smoothing"), simulations.device)
        noise = torch.randn(simulations.shape, generator=rng, device=simulations.device)
        smooth = self.simulations_ + self.spike_scale * noise
        self.marginal_ = fit(smooth, seed=derive(seed, "marginal"))

    def _check_options(self, num_simulations: int) -> SpikeAndSlab:
        num_steps = self._find_num_steps()
        for name, count, least in (
            ("num_chains", self.num_chains, 6),
            ("num_steps", num_steps, 8),
            ("num_states", self.num_states, 1),
        ):
            if as_count(count, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {count}")
        if self.num_states > num_steps // 2:
            raise ValueError(
                f"num_states={self.num_states} states cannot be kept of the "
                f"{num_steps // 2} after the burn-in; raise num_steps"
            )
        if self.num_chains > min(num_simulations, self.max_starts):
            raise ValueError(
                f"num_chains={self.num_chains} chains need as many simulations to start "
                f"from, got {num_simulations} (at most {self.max_starts} are used)"
            )
        return SpikeAndSlab(self.spike_scale, self.slab_scale, self.slab_probability)

    def _find_num_steps(self) -> int:
        if self.num_steps is not None:
            return self.num_steps
        return max(300, 50 * len(self.standardise_.mean))

    def _corrections(
        self, x: Tensor, context: Entries | None, seed: int | None
    ) -> Corrections:
        shown = self._denoise(x, seed).x
        same = shown.new_zeros(shown.shape[:2])
        # Chains that leave their spike are no map of x, so there is no Jacobian.
        return Corrections(shown, same - math.log(len(shown)), same)

    def _denoise(self, x: Tensor, seed: int | None) -> Denoised:
        blocks = [
            self._run_chains(self.standardise_(rows), derive(seed, f"block {number}"))
            for number, rows in enumerate(x.split(max(1, self.max_rows // self.num_chains)))
        ]
        result = Denoised(
            self.standardise_.invert(torch.cat([block.x for block in blocks], dim=1)),
            torch.cat([block.misspecified for block in blocks]),
            torch.cat([block.r_hat for block in blocks]),
        )
        self._warn(result.r_hat)
        return result

    def _run_chains(self, y: Tensor, seed: int | None) -> Denoised:
        marginal = self.marginal_.to(y.device)
        return denoise(
            marginal.log_prob,
            y,
            self._starts(y, derive(seed, "starts")),
            self.error_model_,
            num_steps=self._find_num_steps(),
            num_states=self.num_states,
            seed=derive(seed, "chains"),
            show_progress=self.show_progress,
        )

    def _starts(self, y: Tensor, seed: int | None) -> Tensor:
        """Draw different simulations for each observation, in proportion to p(y | x).

        Simulations are draws from q(x), so these are nearly draws from p(x | y) where it
        is wide, and the flow is never evaluated far from its training data. That no
        simulation is taken twice (Gumbel-top-k) keeps the starts apart.
        """
        pool = self.simulations_[: self.max_starts].to(y)
        rng = generator(seed, y.device)
        starts = []
        for row in y:
            fit = self.error_model_.log_prob(row - pool).sum(dim=1)
            uniform = torch.rand(len(pool), generator=rng, device=y.device)
            gumbel = -(-uniform.clamp(min=1e-20).log()).clamp(min=1e-20).log()
            starts.append(pool[(fit + gumbel).topk(self.num_chains).indices])
        return torch.stack(starts, dim=1)

    def _warn(self, r_hat: Tensor) -> None:
        rows = (r_hat > self.max_r_hat).any(dim=1).nonzero().flatten().tolist()
        if rows:
            row, statistic = divmod(int(r_hat.argmax()), r_hat.shape[1])
            warnings.warn(
                f"the chains of {len(rows)} of {len(r_hat)} observations have not mixed "
                f"(split R-hat up to {r_hat.max():.2f}, row {row}, statistic "
                f"{statistic}): raise num_steps={self._find_num_steps()}",
                ChainsNotMixed,
                stacklevel=4,
            )
