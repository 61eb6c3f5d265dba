"""Classifier-free guidance: one diffusion model with and without the context."""

from __future__ import annotations

import torch
from torch import Tensor

from ma_sbi.context import Entries
from ma_sbi.posteriors.diffusion import DiffusionPosterior
from ma_sbi.protocols import Encoder
from ma_sbi.randomness import derive, generator
from ma_sbi_bench.methods.guidance import ContextGuided
from ma_sbi_bench.methods.materials import Materials, Need
from ma_sbi_bench.methods.method import RetrainedMethod
from ma_sbi_bench.methods.training import Backbone, ContextCode, train

__all__ = ["ClassifierFree"]


class ClassifierFree(RetrainedMethod):
    r"""A diffusion model of theta given x and context, guided away from x alone.

    .. math:: \varepsilon = (1 + \lambda)\, \varepsilon_\phi(\theta_t, t, x, z)
        - \lambda\, \varepsilon_\phi(\theta_t, t, x)

    One network is trained on simulations, which have no context, and on calibration
    observations with their true parameters, whose context is dropped at random. The
    MA-SBI paper names this as the variant of its diffusion backbone.

    Guidance sharpens what the context says, which a posterior should rarely do:
    where the context moves it by d, guided draws are moved by about
    :math:`(1 + \lambda) d`. At :math:`\lambda = 0` they follow the trained posterior.

    Args:
        encoder: Context to vectors; the paper's hashed text if None.
        strength: The :math:`\lambda`; 0 for no guidance, -1 for no context.
        drop_probability: Share of calibration rows that are shown without context.
        calibration_share: Share of training rows that are calibration rows; as there are
            fewer of them than simulations, they are repeated, each time with a random
            drop of its context.
        backbone: How the diffusion model is trained: ``"ddpm"``, or for example
            ``functools.partial(fit_ddpm, epochs=100)``.
    """

    reference = "Ho & Salimans 2022; MA-SBI, diffusion backbone"
    needs: frozenset[Need] = frozenset({"simulations", "theta*", "context"})

    def __init__(
        self,
        encoder: Encoder | None = None,
        *,
        strength: float = 0.0,
        drop_probability: float = 0.1,
        calibration_share: float = 0.5,
        backbone: Backbone = "ddpm",
    ) -> None:
        self.encoder = encoder
        self.strength = strength
        self.drop_probability = drop_probability
        self.calibration_share = calibration_share
        self.backbone = backbone

    def _fit(self, materials: Materials, seed: int | None) -> None:
        self._check_options()
        simulated, context = materials.take("simulations"), materials.take("context")
        self.code_ = ContextCode(self.encoder, context)
        rows = self._repeat(len(context), len(simulated.x), derive(seed, "rows"))
        real = self.code_.beside(materials.take("x_obs"), context)[rows]
        dropped = torch.rand(len(real), generator=generator(derive(seed, "drop")))
        real[dropped < self.drop_probability, -self.code_.dim :] = 0.0
        base = train(
            self.backbone,
            materials.prior,
            torch.cat([simulated.theta, materials.take("theta*")[rows]]),
            torch.cat([self.code_.beside(simulated.x), real]),
            seed=derive(seed, "train"),
        )
        if not isinstance(base, DiffusionPosterior):
            raise ValueError(
                f"backbone must train a diffusion model, as fit_ddpm does, got {base!r}"
            )
        self.posterior_ = ContextGuided(base, self.code_.dim, self.strength)

    def _repeat(self, num_real: int, num_simulated: int, seed: int | None) -> Tensor:
        """Choose calibration rows, each about equally often."""
        share = self.calibration_share
        wanted = max(num_real, round(share / (1 - share) * num_simulated))
        order = torch.randperm(num_real, generator=generator(seed))
        return order.repeat(wanted // num_real + 1)[:wanted]

    def _check_options(self) -> None:
        if self.backbone in ("nsf", "maf"):
            raise ValueError("only a diffusion backbone can be guided, such as 'ddpm'")
        if not 0 <= self.drop_probability < 1:
            raise ValueError(
                f"drop_probability must lie in [0, 1), got {self.drop_probability}"
            )
        if not 0 < self.calibration_share < 1:
            raise ValueError(
                f"calibration_share must lie between 0 and 1, got {self.calibration_share}"
            )

    def _condition(self, x: Tensor, context: Entries) -> Tensor:
        return self.code_.beside(x, context)
