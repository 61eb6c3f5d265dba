"""Small posteriors of every kind for one world, whose exact answer is known.

theta ~ U[-2, 2]^3, x ~ N(theta, 0.2^2 I): away from the edges, theta | x ~ N(x, 0.2^2 I).
"""

from functools import lru_cache

import torch
import zuko
from sbi.inference import FMPE, NPE
from sbi.neural_nets import posterior_nn
from sbi.utils import BoxUniform
from torch import nn
from torch.distributions import Independent, Normal

from ma_sbi import fit_ddpm, fit_flow, from_callable, from_sbi, from_zuko
from ma_sbi.posteriors.flow import _NoTracker

NOISE = 0.2
PRIOR = BoxUniform(-2 * torch.ones(3), 2 * torch.ones(3))


def simulations(n, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        theta = PRIOR.sample((n,))
        return theta, theta + NOISE * torch.randn(n, 3)


def exact(x):
    return Independent(Normal(x, NOISE), 1)


@lru_cache
def sbi_npe():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        builder = posterior_nn("zuko_maf", num_transforms=2, hidden_features=(32,))
        trainer = _trainer(NPE, density_estimator=builder)
        trainer.train(learning_rate=5e-3, max_num_epochs=20, show_train_summary=False)
        return trainer.build_posterior()


@lru_cache
def sbi_embedded():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        builder = posterior_nn(
            "zuko_maf",
            num_transforms=2,
            hidden_features=(32,),
            embedding_net=nn.Sequential(nn.Flatten(), nn.Linear(3, 3)),
        )
        trainer = NPE(PRIOR, builder, tracker=_NoTracker(), show_progress_bars=False)
        theta, x = simulations(2000)
        trainer.append_simulations(theta, x[:, None, :])
        trainer.train(learning_rate=5e-3, max_num_epochs=20, show_train_summary=False)
        return trainer.build_posterior()


@lru_cache
def sbi_fmpe():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        trainer = _trainer(FMPE)
        trainer.train(learning_rate=5e-3, max_num_epochs=20, show_train_summary=False)
        return trainer.build_posterior()


def _trainer(method, **options):
    trainer = method(PRIOR, tracker=_NoTracker(), show_progress_bars=False, **options)
    return trainer.append_simulations(*simulations(2000))


@lru_cache
def zuko_flow():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        flow = zuko.flows.MAF(3, 3, transforms=2, hidden_features=(32,))
        optimiser = torch.optim.Adam(flow.parameters(), lr=5e-3)
        theta, x = simulations(2000)
        for _ in range(200):
            loss = -flow(x).log_prob(theta).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return flow


def _small_flow(**options):
    size = {"num_transforms": 2, "hidden": (32,), "learning_rate": 5e-3}
    return fit_flow(PRIOR, *simulations(2000), **size, **options, seed=0)


@lru_cache
def flow_posterior():
    return _small_flow(flow="maf", max_epochs=20)


@lru_cache
def spline_posterior():
    return _small_flow(flow="nsf", max_epochs=15)


@lru_cache
def ddpm_posterior():
    theta, x = simulations(2000)
    return fit_ddpm(PRIOR, theta, x, hidden=64, batch_size=64, epochs=40, seed=0)


DENSE = {
    "from_sbi_npe": lambda: from_sbi(sbi_npe()),
    "from_sbi_embedded": lambda: from_sbi(sbi_embedded()),
    "from_zuko": lambda: from_zuko(zuko_flow(), prior=PRIOR),
    "from_callable": lambda: from_callable(
        lambda n, x: exact(x).sample((n,)),
        lambda theta, x: exact(x).log_prob(theta),
        prior=PRIOR,
    ),
    "from_callable_batched": lambda: from_callable(
        lambda n, x: exact(x).sample((n,)),
        lambda theta, x: exact(x).log_prob(theta),
        batched=True,
        prior=PRIOR,
    ),
    "flow_maf": flow_posterior,
    "flow_nsf": spline_posterior,
    "ddpm_deterministic": lambda: ddpm_posterior().deterministic(20),
}
POSTERIORS = {
    **DENSE,
    "from_sbi_fmpe": lambda: from_sbi(sbi_fmpe()),
    "ddpm": ddpm_posterior,
}
