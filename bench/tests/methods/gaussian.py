"""A world in closed form: theta ~ N(0, I), x ~ N(theta, s^2 I), theta | x is normal."""

import torch
from torch.distributions import Independent, Normal

from ma_sbi import from_callable
from ma_sbi_bench.methods import Calibration, Materials

NOISE = 0.5
SHRINKAGE = 1 / (1 + NOISE**2)  # theta | x ~ N(SHRINKAGE x, SPREAD^2 I)
SPREAD = NOISE * SHRINKAGE**0.5


def prior(dim=2):
    return Independent(Normal(torch.zeros(dim), torch.ones(dim)), 1)


def exact(x):
    return Independent(Normal(SHRINKAGE * x, SPREAD), 1)


def simulate(theta, *, seed=None):
    rng = None if seed is None else torch.Generator().manual_seed(seed)
    return theta + NOISE * torch.randn(theta.shape, generator=rng)


def draw(n, seed, dim=2, shift=0.0):
    """Draw theta and what is observed: a simulation, shifted."""
    theta = torch.randn(n, dim, generator=torch.Generator().manual_seed(seed))
    return theta, simulate(theta, seed=seed + 1) + shift


def posterior():
    return from_callable(
        lambda n, x: exact(x).sample((n,)),
        lambda theta, x: exact(x).log_prob(theta),
        batched=True,
    )


def materials(num_calibration=200, num_unlabelled=100, dim=2, shift=0.0, **others):
    theta, x_obs = draw(num_calibration, 100, dim, shift)
    return Materials(
        prior=prior(dim),
        posterior=posterior(),
        simulator=others.pop("simulator", simulate),
        calibration=Calibration(x_obs, theta=theta),
        unlabelled=draw(num_unlabelled, 200, dim, shift)[1],
        **others,
    )
