"""References of every comparison: the uncorrected posterior, the Oracle, and the prior."""

from __future__ import annotations

import torch
from torch import Tensor

from ma_sbi.context import Entries
from ma_sbi.protocols import Corrections
from ma_sbi.randomness import seeded
from ma_sbi_bench.methods.materials import Materials
from ma_sbi_bench.methods.method import CorrectingMethod, Method

__all__ = ["NPE", "Oracle", "Prior"]


class NPE(CorrectingMethod):
    """The trained posterior at the observation as it is."""

    reference = "Greenberg et al. 2019"

    def _corrections(
        self, x: Tensor, context: Entries | None, seed: int | None
    ) -> Corrections:
        return Corrections.certain(x)


class Oracle(NPE):
    """The trained posterior at what the simulator would have given instead.

    The best that any correction of x can do with this posterior. Its ``sample`` is to be
    given ``x_sim``, which exists only in tests: it ``reads`` that.
    """

    reads = "x_sim"


class Prior(Method):
    """The prior: what a method must beat to be worth its data."""

    reference = "-"

    def _fit(self, materials: Materials, seed: int | None) -> None:
        pass

    def _sample(
        self, num_samples: int, x: Tensor, context: Entries | None, seed: int | None
    ) -> Tensor:
        with seeded(seed):
            return self.prior_.sample((num_samples, len(x)))

    def _log_prob(self, theta: Tensor, x: Tensor, context: Entries | None) -> Tensor:
        return torch.as_tensor(self.prior_.log_prob(theta)).expand(len(theta), len(x))
