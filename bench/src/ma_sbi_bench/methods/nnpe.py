"""Noisy NPE: a posterior trained on simulations to which noise was added."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torch.distributions import Distribution

from ma_sbi.context import Entries
from ma_sbi.networks import Standardise
from ma_sbi.posteriors import load_flow
from ma_sbi.randomness import derive, generator
from ma_sbi.saving import read, write
from ma_sbi_bench.methods.error_model import SpikeAndSlab
from ma_sbi_bench.methods.materials import Materials, Need
from ma_sbi_bench.methods.method import RetrainedMethod
from ma_sbi_bench.methods.training import Backbone, train

__all__ = ["IsotropicNNPE", "NNPE", "load_nnpe"]


class NNPE(RetrainedMethod):
    r"""A posterior trained on simulations that depart as reality may (Ward et al. 2022).

    .. math:: \max_q \; E_{\theta,\, x,\, e} \log q(\theta \mid x + e), \qquad
        e_j \sim \tfrac12 N(0, 0.01^2) + \tfrac12 \mathrm{Cauchy}(0, 0.25)

    with x standardised by the simulations. It approximates the same posterior as
    :class:`~ma_sbi_bench.methods.RNPE`, with the Markov chains exchanged for training.

    Simulations are all it needs. The MA-SBI paper marks NNPE as a method that needs the
    true parameters of real observations; Ward's does not.

    The authors start from the weights of the NPE trained on clean simulations; here
    training starts from random weights. As theirs, the noise is drawn once.

    Args:
        backbone: What to train: a name or a function like ``fit_flow``.
        spike_scale: Noise of a statistic that is right.
        slab_scale: Noise of a statistic that is wrong.
        slab_probability: Prior probability that a statistic is wrong.
    """

    reference = "Ward et al. 2022, arXiv:2210.06564"
    needs: frozenset[Need] = frozenset({"simulations"})

    def __init__(
        self,
        backbone: Backbone = "nsf",
        spike_scale: float = 0.01,
        slab_scale: float = 0.25,
        slab_probability: float = 0.5,
    ) -> None:
        self.backbone = backbone
        self.spike_scale = spike_scale
        self.slab_scale = slab_scale
        self.slab_probability = slab_probability

    def _fit(self, materials: Materials, seed: int | None) -> None:
        noise = SpikeAndSlab(self.spike_scale, self.slab_scale, self.slab_probability)
        simulations = materials.take("simulations")
        self.standardise_ = Standardise.of(simulations.x)
        x = self.standardise_(simulations.x)
        x = x + noise.sample(tuple(x.shape), seed=derive(seed, "noise"), device=x.device)
        self.posterior_ = train(
            self.backbone, materials.prior, simulations.theta, torch.asinh(x), seed=seed
        )

    def _condition(self, x: Tensor, context: Entries | None) -> Tensor:
        # Backbones standardise what they are shown by its moments, and a Cauchy variable
        # has none: one draw of 10^5 would squeeze all others into one point. asinh is a
        # bijection, so the posterior is the same; it leaves small values as they are and
        # takes the logarithm of large ones.
        return torch.asinh(self.standardise_(x))

    def save(self, path: str | Path) -> None:
        """Write it to a file, if it was trained on a flow; :func:`load_nnpe` reads it."""
        self.posterior_.save(path)
        saved = read(path, "flow")
        standardise = self.standardise_.state_dict()
        groups = saved.groups | {"standardise": standardise}
        write(path, "flow", saved.settings, groups)


def load_nnpe(path: str | Path, prior: Distribution) -> NNPE:
    """Load what :meth:`NNPE.save` wrote, fitted.

    Args:
        path: The file.
        prior: The prior it was trained with.
    """
    saved = read(path, "flow")
    method = NNPE()
    method.posterior_ = load_flow(path, prior)
    width = (method.posterior_.dim_x,)
    method.standardise_ = Standardise(
        saved.tensor("standardise", "mean", width),
        saved.tensor("standardise", "scale", width, positive=True),
    )
    method.prior_, method.dim_x_ = method.posterior_.prior, method.posterior_.dim_x
    return method


class IsotropicNNPE(RetrainedMethod):
    r"""NNPE in the form of the MA-SBI paper: Gaussian noise of one scale.

    .. math:: \max_q \; E_{\theta,\, x,\, e} \log q(\theta \mid x + e), \qquad
        e \sim N(0, \sigma^2 I)

    The scale is in the units of x, the same for all dimensions: columns of different
    units get noise that is negligible for one and too large for another.

    Args:
        backbone: What to train: a name or a function like ``fit_flow``.
        scale: Standard deviation of the noise per dimension; the paper's default is 0.3.
            ``"matched"`` gives it the root mean square norm of the departure measured on
            calibration pairs, :math:`\sigma^2 = E\|x_{obs} - x_{sim}\|^2 / d`.

    Attributes:
        scale_: The scale that was used.
    """

    reference = "MA-SBI, after Ward et al. 2022"

    def __init__(
        self, backbone: Backbone = "nsf", scale: float | Literal["matched"] = 0.3
    ) -> None:
        self.backbone = backbone
        self.scale = scale

    @property
    def needs(self) -> frozenset[Need]:  # type: ignore[override]
        """Simulations, and pairs to match the scale to."""
        pairs: frozenset[Need] = frozenset({"pairs"})
        simulations: frozenset[Need] = frozenset({"simulations"})
        return simulations | pairs if self.scale == "matched" else simulations

    def _fit(self, materials: Materials, seed: int | None) -> None:
        self.scale_ = self._find_scale(materials)
        simulations = materials.take("simulations")
        x = simulations.x
        rng = generator(derive(seed, "noise"), x.device)
        x = x + self.scale_ * torch.randn(x.shape, generator=rng, device=x.device)
        self.posterior_ = train(
            self.backbone, materials.prior, simulations.theta, x, seed=seed
        )

    def _find_scale(self, materials: Materials) -> float:
        if self.scale == "matched":
            departure = materials.take("x_obs") - materials.take("pairs")
            scale = departure.double().square().mean().sqrt().item()
            if scale == 0:
                raise ValueError(
                    "scale='matched' needs a departure to match, but x_obs and x_sim are "
                    "the same in every calibration pair"
                )
            return scale
        if not isinstance(self.scale, int | float) or not 0 < self.scale < torch.inf:
            raise ValueError(f"scale must be positive, or 'matched', got {self.scale!r}")
        return float(self.scale)
