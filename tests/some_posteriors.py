"""Small posteriors of every kind for one world, whose exact answer is known.

theta ~ U[-2, 2]^3, x ~ N(theta, 0.2^2 I): away from the edges, theta | x ~ N(x, 0.2^2 I).
"""

import os
from functools import lru_cache

import pytest
import torch
import zuko
from sbi.inference import FMPE, NPE
from sbi.inference.posteriors import EnsemblePosterior
from sbi.neural_nets import posterior_flow_nn, posterior_nn
from sbi.utils import BoxUniform
from torch import nn
from torch.distributions import Independent, Normal

from ma_sbi import (
    fit_ddpm,
    fit_flow,
    from_bayesflow,
    from_callable,
    from_sbi,
    from_zuko,
)
from ma_sbi.randomness import numpy_seeded
from tests.no_tracker import NoTracker

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
def sbi_npe(seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
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
        trainer = NPE(PRIOR, builder, tracker=NoTracker(), show_progress_bars=False)
        theta, x = simulations(2000)
        trainer.append_simulations(theta, x[:, None, :])
        trainer.train(learning_rate=5e-3, max_num_epochs=20, show_train_summary=False)
        return trainer.build_posterior()


@lru_cache
def sbi_fmpe():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = posterior_flow_nn("mlp", hidden_features=32, num_layers=2)
        trainer = _trainer(FMPE, vf_estimator=network)
        trainer.train(learning_rate=5e-3, max_num_epochs=20, show_train_summary=False)
        return trainer.build_posterior()


@lru_cache
def sbi_ensemble():
    return EnsemblePosterior([sbi_npe(), sbi_npe(seed=1)], weights=[0.7, 0.3])


def _trainer(method, **options):
    trainer = method(PRIOR, tracker=NoTracker(), show_progress_bars=False, **options)
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


@lru_cache
def lampe_estimator():
    inference = pytest.importorskip("lampe.inference", reason="lampe is not installed")
    with torch.random.fork_rng():
        estimator = inference.NPE(3, 3, transforms=2, hidden_features=(32,))
    estimator.flow.load_state_dict(zuko_flow().state_dict())
    return estimator


@lru_cache
def bayesflow_approximator():
    os.environ.setdefault("KERAS_BACKEND", "torch")
    before = torch.is_grad_enabled()
    try:
        with torch.random.fork_rng(), numpy_seeded(0):
            return _trained_bayesflow()
    finally:
        torch.set_grad_enabled(before)  # to import BayesFlow turns gradients off


def _trained_bayesflow():
    bayesflow = pytest.importorskip(
        "bayesflow", reason="BayesFlow is not installed; it needs Python 3.11 to 3.13"
    )
    import keras

    keras.utils.set_random_seed(0)
    workflow = bayesflow.BasicWorkflow(
        inference_network=bayesflow.networks.CouplingFlow(
            depth=2, subnet_kwargs={"widths": (32,)}
        ),
        inference_variables=["theta", "last"],
        inference_conditions=["x"],
        initial_learning_rate=1e-2,
    )
    theta, x = simulations(2000)
    data = {"theta": theta[:, :2], "last": theta[:, 2:], "x": x}
    data = {name: values.numpy() for name, values in data.items()}
    workflow.fit_offline(data, epochs=12, batch_size=250, verbose=0)
    return workflow


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
    "from_sbi_fmpe": lambda: from_sbi(sbi_fmpe()),
    "from_sbi_ensemble": lambda: from_sbi(sbi_ensemble()),
    "from_zuko": lambda: from_zuko(zuko_flow(), prior=PRIOR),
    "from_zuko_lampe": lambda: from_zuko(lampe_estimator(), prior=PRIOR),
    "from_bayesflow": lambda: from_bayesflow(bayesflow_approximator(), "x", prior=PRIOR),
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
    "ddpm": ddpm_posterior,
}
