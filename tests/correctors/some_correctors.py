"""Small fitted correctors of every kind, for laws that hold for all of them.

Contexts and worlds differ, so that missing entries, numbers, dates and tables all occur.
"""

import warnings
from functools import lru_cache

import numpy as np
import pandas as pd
import torch
from sklearn.feature_extraction.text import TfidfVectorizer

from ma_sbi import (
    BootstrapCorrector,
    CategoryEncoder,
    ComposedCorrector,
    HashEncoder,
    MatchingCorrector,
    NumberEncoder,
    ShiftCorrector,
    check,
    decompose,
    fit_corrector,
    fit_density,
    per_trial,
)
from ma_sbi.correctors import (
    Affine,
    Evidence,
    ForwardCorrector,
    Matching,
    Mixture,
    Network,
    Point,
    RegimeCorrector,
    Regimes,
    ResidualPools,
    Ridge,
    RidgeWithResiduals,
    Shift,
    ShiftLikelihood,
)

N = 60


def rows(n=N, seed=0):
    """Return labels with gaps, observations and simulations."""
    rng = torch.Generator().manual_seed(seed)
    x_sim = torch.randn(n, 2, generator=rng)
    codes = torch.arange(n) % 3
    shift = torch.tensor([[0.0, 0.0], [1.0, -1.0], [0.0, 2.0]])[codes]
    x_obs = x_sim + shift + 0.1 * torch.randn(n, 2, generator=rng)
    labels = np.array(["calm", "storm", None], dtype=object)[codes.numpy()]
    return labels, x_obs, x_sim


def pool(n=600):
    return torch.randn(n, 2, generator=torch.Generator().manual_seed(9))


@lru_cache
def density():
    return fit_density(pool(200), flow="maf", hidden=(8,), max_epochs=2, seed=0)


def normal(x):
    """Evaluate a density of the user's own."""
    return torch.distributions.Normal(0.0, 1.0).log_prob(x).sum(dim=-1)


def table(n=N):
    labels, _, _ = rows(n)
    days = pd.date_range("2024-01-01", periods=n, freq="D")
    return pd.DataFrame({"wind": labels, "day": days, "hour": np.arange(n) % 24})


def _fitted(corrector, context=None, **more):
    labels, x_obs, x_sim = rows()
    context = labels if context is None else context
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(corrector, ForwardCorrector) or more.get("paired", True):
            return corrector.fit(context, x_obs, x_sim, seed=0)
        return corrector.fit(context, x_obs, simulations=pool(), seed=0)


def _unpaired(corrector):
    return _fitted(corrector, paired=False)


def _composed(fitting, departure=None, inference=None, **more):
    parts = departure or Shift(), fitting, inference or Mixture()
    return _fitted(ComposedCorrector(HashEncoder(16), *parts), **more)


def _chosen(context=None, **more):
    labels, x_obs, x_sim = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context = labels if context is None else context
        return fit_corrector(context, x_obs, x_sim, seed=0, **more)


def _outlying():
    labels, x_obs, x_sim = rows()
    x_obs[7] = 500.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_corrector(labels, x_obs, x_sim, seed=0)


def _unpaired_chosen():
    labels, x_obs, _ = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_corrector(labels, x_obs, simulations=pool(), density=density(), seed=0)


def _checked():
    labels, x_obs, x_sim = rows()
    x_obs = x_sim + torch.tensor([1.0, -1.0]) + 0.1 * (x_obs - x_sim)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        judged = check(x_obs, labels, x_sim=x_sim, seed=0).judgement
    return judged.common.corrector


def _decomposed():
    return decompose(_fitted(ShiftCorrector(HashEncoder())), rows()[0])


def _categories():
    labels, *_ = rows()
    return pd.Series(pd.Categorical(labels))


CORRECTORS = {
    "shift": lambda: _fitted(ShiftCorrector(HashEncoder())),
    "shift, the paper's recipe": lambda: _fitted(ShiftCorrector(HashEncoder(), "paper")),
    "shift, a network": lambda: _fitted(
        ShiftCorrector(CategoryEncoder(), Network(layers=2, hidden=4))
    ),
    "shift by numbers": lambda: _fitted(
        ShiftCorrector(NumberEncoder()), context=np.linspace(0, 1, N)
    ),
    "shift by dates": lambda: _fitted(
        ShiftCorrector(NumberEncoder()), context=table()["day"]
    ),
    "shift by categories": lambda: _fitted(
        ShiftCorrector(CategoryEncoder()), context=_categories()
    ),
    "bootstrap": lambda: _fitted(BootstrapCorrector(CategoryEncoder())),
    "bootstrap, wide": lambda: _fitted(
        BootstrapCorrector(HashEncoder(), num_draws=5, width="auto")
    ),
    "matching means": lambda: _unpaired(MatchingCorrector(HashEncoder())),
    "matching distributions": lambda: _unpaired(MatchingCorrector(HashEncoder(), "mmd")),
    "matching a density": lambda: _unpaired(
        MatchingCorrector(HashEncoder(), "likelihood", density())
    ),
    "matching a likelihood": lambda: _unpaired(
        MatchingCorrector(
            HashEncoder(), "likelihood", ShiftLikelihood.of(density(), pool(200))
        )
    ),
    "regimes": lambda: _fitted(RegimeCorrector(HashEncoder())),
    "affine": lambda: _composed(Ridge(), Affine(), Point()),
    "affine network": lambda: _composed(Network(epochs=1, hidden=4), Affine()),
    "composed matching": lambda: _composed(Matching(), inference=Point(), paired=False),
    "pools without noise": lambda: _composed(ResidualPools(7, 1.0, noise=0.01, others=1.0)),
    "pools of columns of noise": lambda: _composed(
        ResidualPools(noise=torch.tensor([0.01, torch.inf]).double())
    ),
    "located": lambda: _composed(RidgeWithResiduals(), Affine()),
    "regimes weighed by evidence": lambda: _composed(
        Regimes(), inference=Evidence(density())
    ),
    "forward": lambda: _fitted(ForwardCorrector(pool(), num_candidates=9)),
    "per trial": lambda: per_trial(
        _fitted(BootstrapCorrector(CategoryEncoder())), rows()[1].shape[1], num_candidates=9
    ),
    "marginal": lambda: _decomposed().marginal,
    "conditional": lambda: _decomposed().conditional,
    "chosen": _chosen,
    "chosen with a density": lambda: _chosen(density=density()),
    "chosen for a table": lambda: _chosen(table()),
    "chosen forwards": lambda: _chosen(simulations=pool()),
    "chosen with outliers": _outlying,
    "chosen without pairs": _unpaired_chosen,
    "chosen from too few rows": lambda: fit_corrector(
        rows(6)[0], rows(6)[1], rows(6)[2], seed=0
    ),
    "common": _checked,
}
"""Every kind of corrector that can be saved whole, by name."""

CONTEXTS = {
    "shift by numbers": [0.1, 0.55, None, 3.0],
    "shift by dates": pd.to_datetime(["2024-01-03", "2024-02-10", None, "2030-01-01"]),
    "chosen for a table": table().iloc[[0, 1, 2, 2]],
}
"""Contexts to correct under, where they are no labels."""


def context_of(name):
    return CONTEXTS.get(name, ["calm", "storm", None, "calm"])


@lru_cache
def corrector(name):
    return CORRECTORS[name]()


def with_own_encoder():
    return _fitted(
        ShiftCorrector(TfidfVectorizer(analyzer="char")), context=["a", "b"] * 30
    )


def with_own_density():
    return _composed(Regimes(), inference=Evidence(normal))


def chosen_with_own_density():
    return _chosen(density=normal)
