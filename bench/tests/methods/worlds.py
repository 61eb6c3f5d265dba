"""A small world with a sensor that reads high, and every method fitted in it.

theta ~ U[-2, 2]^3, x ~ N(theta, 0.2^2 I); when the log says so, 0.5 is added to x_1.
"""

from dataclasses import replace
from functools import lru_cache, partial

import torch

from ma_sbi import fit_ddpm, fit_flow
from ma_sbi_bench.methods import METHODS, Calibration, Materials, Simulations, get_method
from ma_sbi_bench.methods.marginal import fit_marginal
from tests.some_posteriors import NOISE, PRIOR, ddpm_posterior, flow_posterior, simulations

TEXTS = ["All is well.", "The sensor reads high."]
SHIFTS = torch.tensor([[0.0, 0.0, 0.0], [0.5, 0.0, 0.0]])

small_flow = partial(
    fit_flow,
    flow="maf",
    num_transforms=2,
    hidden=(32,),
    learning_rate=5e-3,
    max_epochs=10,
    patience=3,
)
small_ddpm = partial(fit_ddpm, hidden=64, epochs=10, num_steps=50, schedule="rescaled")
small_marginal = partial(fit_marginal, flow="maf", num_transforms=2, max_epochs=10)

# Options that make a fit small; a method without an entry is fitted as it is.
SMALL: dict[str, dict] = {
    "classifier_free": {"backbone": small_ddpm},
    "classifier_free_guided": {"backbone": small_ddpm},
    "concat": {"backbone": small_flow},
    "concat_simulations": {"backbone": small_flow},
    "fmcpe": {"epochs": 10, "num_steps_training": 10, "hidden": 32, "num_blocks": 2},
    "ma_sbi_default": {"most_simulations": 500},
    "frisbi": {"backbone": small_flow, "num_draws": 10, "epochs": 30},
    "nnpe": {"backbone": small_flow},
    "nnpe_isotropic": {"backbone": small_flow},
    "nnpe_matched": {"backbone": small_flow},
    "npe_rs": {"num_transforms": 2, "hidden": (32,), "max_epochs": 10, "patience": 3},
    "prior_guide": {"ratio_steps": 50, "num_components": 5, "num_langevin": 1},
    "prior_guide_jacobian": {"ratio_steps": 50, "num_components": 5},
    "rnpe": {"density": small_marginal, "num_steps": 60},
    "rope_sinkhorn": {"grid": (0.1, 1.0)},
    "rope_sinkhorn_aligned": {"grid": (0.1, 1.0)},
}


def simulate(theta, *, seed=None):
    rng = None if seed is None else torch.Generator().manual_seed(seed)
    return theta + NOISE * torch.randn(theta.shape, generator=rng)


def observe(n, seed):
    """Draw theta, x_sim, x_obs and context, row by row."""
    theta, x_sim = simulations(n, seed=seed)
    regime = torch.arange(n) % len(TEXTS)
    return theta, x_sim, x_sim + SHIFTS[regime], [TEXTS[k] for k in regime]


@lru_cache
def materials(*, diffusion=False):
    """Give everything that any method needs."""
    theta, x_sim, x_obs, context = observe(200, seed=1)
    return Materials(
        prior=PRIOR,
        posterior=ddpm_posterior() if diffusion else flow_posterior(),
        simulations=Simulations(*simulations(2000)),
        simulator=simulate,
        calibration=Calibration(x_obs, context, x_sim, theta),
        unlabelled=observe(100, seed=2)[2],
    )


def make(name):
    return get_method(name, **SMALL.get(name, {}))


def materials_for(method):
    return materials(diffusion="diffusion" in method.needs)


@lru_cache
def fitted(name):
    method = make(name)
    return method.fit(materials_for(method), seed=0)


def without(given, kind):
    """Take one kind of material away."""
    of_calibration = {"context": "context", "theta*": "theta", "pairs": "x_sim"}
    if kind in of_calibration:
        calibration = replace(given.calibration, **{of_calibration[kind]: None})
        return replace(given, calibration=calibration)
    if kind == "x_obs":
        return replace(given, calibration=None)
    if kind == "diffusion":
        return replace(given, posterior=flow_posterior())
    return replace(given, **{kind: None})


NAMES = list(METHODS)
