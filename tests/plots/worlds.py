"""Data, a corrector and a posterior whose pictures are known."""

from types import SimpleNamespace

import torch
from torch.distributions import Independent, Normal

from ma_sbi import CorrectedPosterior, from_callable
from ma_sbi.choosing.why import Tried, Why
from ma_sbi.correctors import BaseCorrector
from ma_sbi.protocols import Corrections

SHIFTS = {"warm": 1.0, "cool": 0.0}
# The share of rows in which the note is believed.
BELIEVED = 0.75


class Believing(BaseCorrector):
    """Takes the shift of a note off with a weight of 3/4, and nothing with 1/4."""

    def corrections(self, x, context):
        shift = torch.tensor([SHIFTS.get(one, 0.0) for one in context])[:, None]
        weight = torch.tensor([BELIEVED, 1 - BELIEVED]).log()[:, None].expand(2, len(x))
        x = torch.as_tensor(x, dtype=torch.float32)
        return Corrections(torch.stack([x - shift, x]), weight, torch.zeros_like(weight))


def law(x):
    return Independent(Normal(x, 0.5), 1)


def world(num=60, dim=2, seed=0):
    rng = torch.Generator().manual_seed(seed)
    theta = torch.randn(num, dim, generator=rng)
    x_sim = theta + 0.5 * torch.randn(num, dim, generator=rng)
    context = [list(SHIFTS)[row % 2] for row in range(num)]
    shift = torch.tensor([SHIFTS[one] for one in context])[:, None]
    noise = 0.2 * torch.randn(num, dim, generator=rng)
    corrector = Believing()
    posterior = from_callable(
        lambda n, x: law(x).sample((n,)), lambda t, x: law(x).log_prob(t), batched=True
    )
    return SimpleNamespace(
        theta=theta,
        x_sim=x_sim,
        x_obs=x_sim + shift + noise,
        context=context,
        corrector=corrector,
        corrected=CorrectedPosterior(posterior, corrector),
    )


WHY = Why(
    tried=(
        Tried("nothing departs", "", 0.0, 0.0, 0.01, 0.4),
        Tried("shift", "", 1.5, 0.25, 0.99, 0.6),
        Tried("affine", "", -0.5, 0.1, 0.0, 0.0),
    ),
    inference="mixture",
    scored_by="x_sim",
    num_rows=60,
    encoder="",
    reasons=(),
    gain=(1.6, 0.2),
)
