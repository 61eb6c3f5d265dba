"""The context as one more input of the neural posterior."""

from __future__ import annotations

import torch
from torch import Tensor

from ma_sbi.context import Entries
from ma_sbi.protocols import Encoder
from ma_sbi.randomness import derive
from ma_sbi_bench.methods.materials import Materials, Need
from ma_sbi_bench.methods.method import RetrainedMethod
from ma_sbi_bench.methods.training import Backbone, ContextCode, train

__all__ = ["ConcatNPE"]


class ConcatNPE(RetrainedMethod):
    r"""A neural posterior :math:`q(\theta \mid x, z)` that reads the encoded context.

    Trained on calibration observations with their true parameters. The paper trains on
    them alone, and a few hundred rows are few for a posterior; ``with_simulations`` adds
    every simulation, with an empty code where the context would be.

    Args:
        encoder: Context to vectors; the paper's hashed text if None.
        backbone: How the posterior is trained.
        with_simulations: Whether to train on the simulations, too.
    """

    reference = "MA-SBI, ablation"

    def __init__(
        self,
        encoder: Encoder | None = None,
        backbone: Backbone = "nsf",
        *,
        with_simulations: bool = False,
    ) -> None:
        self.encoder = encoder
        self.backbone = backbone
        self.with_simulations = with_simulations

    @property
    def needs(self) -> frozenset[Need]:  # type: ignore[override]
        """True parameters and contexts, and simulations if they are to be used."""
        always: frozenset[Need] = frozenset({"theta*", "context"})
        return always | {"simulations"} if self.with_simulations else always

    def _fit(self, materials: Materials, seed: int | None) -> None:
        context = materials.take("context")
        self.code_ = ContextCode(self.encoder, context)
        theta = materials.take("theta*")
        x = self.code_.beside(materials.take("x_obs"), context)
        if self.with_simulations:
            simulated = materials.take("simulations")
            theta = torch.cat([theta, simulated.theta])
            x = torch.cat([x, self.code_.beside(simulated.x)])
        self.posterior_ = train(
            self.backbone, materials.prior, theta, x, seed=derive(seed, "train")
        )

    def _condition(self, x: Tensor, context: Entries) -> Tensor:
        return self.code_.beside(x, context)
