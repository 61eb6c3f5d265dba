"""Worlds with an exact posterior and density, whose departures are known.

theta is uniform on a box and x = theta + noise, where the noise is a Gaussian of one of
several scales: sbibm's Gaussian mixture (GM) and linear uniform (GLU).
"""

import math
from typing import NamedTuple

import torch
from sbi.utils import BoxUniform
from torch import Tensor
from torch.distributions import Normal

from ma_sbi import CorrectedPosterior
from ma_sbi.posteriors.amortized import Amortized

TEXTS = [
    "The morning power cut left sensor two with an offset.",
    "Cooling water ran warm overnight.",
    "New reagent is in use.",
    "We opened the detector for a repair.",
]
NEGATED = [
    "The morning power cut never left sensor two with an offset.",
    "Cooling water never ran warm overnight.",
    "New reagent is not in use.",
    "We never opened the detector for a repair.",
]
FILLER = ["Quiet shift.", "Logbook signed.", "Visitors toured the building."]
UNRELATED = "The weather was fine and lunch was good."


class Box(Amortized):
    """The exact posterior of theta ~ U[-half, half]^dim, x = theta + Gaussian noise.

    Args:
        dim: Dimensions of theta and of x.
        half: Half the width of the box.
        scales: Standard deviations of the noise; all are as probable, and all columns of
            a row have the same.
        length: Of the shifts that belong to the world.
    """

    def __init__(self, dim, half, scales, length):
        prior = BoxUniform(-half * torch.ones(dim), half * torch.ones(dim))
        super().__init__(prior=prior, dim_x=dim)
        self.dim, self.half, self.length = dim, half, length
        self.scales = torch.tensor(scales, dtype=torch.float64)

    def simulate(self, theta, rng):
        pick = torch.randint(len(self.scales), (len(theta), 1), generator=rng)
        return theta + self.scales[pick].float() * torch.randn(theta.shape, generator=rng)

    def log_density(self, x):
        """The log density of simulations, ``(n, dim) -> (n,)``."""
        whole = self._log_mass(x).logsumexp(dim=0) - math.log(len(self.scales))
        return (whole - self.dim * math.log(2 * self.half)).to(x)

    def log_prob(self, theta, x):
        theta, x = torch.as_tensor(theta).double(), x.double()
        each = [Normal(x, scale).log_prob(theta).sum(dim=-1) for scale in self.scales]
        likelihood = torch.stack(each).logsumexp(dim=0)
        return (likelihood - self._log_mass(x).logsumexp(dim=0)).float()

    def _log_mass(self, x):
        """Log probability of the box around x, for each scale; ``(num_scales, n)``."""
        # By symmetry x may lie on the negative side, where tails are accurate.
        away = -x.double().abs()
        scale = self.scales[:, None, None]
        upper = torch.special.log_ndtr((self.half + away) / scale)
        lower = torch.special.log_ndtr((away - self.half) / scale)
        return (upper + torch.log1p(-(lower - upper).exp())).sum(dim=-1)

    def _draw(self, num_samples, x):
        share = self._log_mass(x).softmax(dim=0).T
        pick = torch.multinomial(share, num_samples, replacement=True).T
        scale = self.scales[pick][..., None]
        centre = x.double()
        ends = torch.tensor([-self.half, self.half], dtype=torch.float64)
        low, high = (torch.special.ndtr((end - centre) / scale) for end in ends)
        part = low + (high - low) * torch.rand(num_samples, *x.shape, dtype=torch.float64)
        part = part.clamp(1e-12, 1 - 1e-12)
        draws = centre + scale * torch.special.ndtri(part)
        return draws.clamp(*(0.999999 * ends)).float()


GM = Box(2, 10.0, [1.0, 0.1], length=3.0)
GLU = Box(10, 1.0, [0.1**0.5], length=1.0)
WORLDS = {"GM": GM, "GLU": GLU}


class Rows(NamedTuple):
    """Rows of a world: what is known of them, and what the simulator would have given."""

    context: list[str]
    x_obs: Tensor
    x_sim: Tensor
    theta: Tensor
    regime: Tensor


class Scene:
    """A world with four shifts of its own.

    Args:
        world: The world.
        seed: Of the shifts and of all rows.
    """

    def __init__(self, world, seed=0):
        self.world = world
        self.rng = torch.Generator().manual_seed(9000 + seed)
        directions = torch.randn(len(TEXTS), world.dim, generator=self.rng)
        self.shifts = world.length * torch.nn.functional.normalize(directions, dim=1)

    def rows(self, n, regime=None, *, departs=True):
        """Draw rows, of regimes in equal shares, and with the regime's text."""
        uniform = torch.rand(n, self.world.dim, generator=self.rng)
        theta = self.world.half * (2 * uniform - 1)
        x_sim = self.world.simulate(theta, self.rng)
        if regime is None:
            regime = torch.randint(len(TEXTS), (n,), generator=self.rng)
        x_obs = x_sim + self.shifts[regime] if departs else x_sim.clone()
        return Rows([TEXTS[i] for i in regime], x_obs, x_sim, theta, regime)

    def again(self, rows):
        """Simulate the rows once more, with noise of their own."""
        return rows._replace(x_sim=self.world.simulate(rows.theta, self.rng))

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.rng)


def log_score(world, rows, corrector=None):
    """Log score of the true parameters, shape ``(n,)``; without a corrector, NPE's."""
    if corrector is None:
        return world.log_prob(rows.theta[None], rows.x_obs)[0]
    corrected = CorrectedPosterior(world, corrector)
    return corrected.log_prob(rows.theta[None], rows.x_obs, rows.context)[0]


def oracle(world, rows):
    """Log score where x_sim itself is known, shape ``(n,)``."""
    return world.log_prob(rows.theta[None], rows.x_sim)[0]
