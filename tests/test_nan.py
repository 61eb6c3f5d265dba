"""NaN is not an answer: it is told or refused, wherever it comes from."""

import copy
import warnings
from operator import attrgetter

import numpy as np
import pytest
import torch
from torch.distributions import Independent, Normal

from ma_sbi import (
    CorrectedPosterior,
    check,
    fit_corrector,
    fit_ddpm,
    fit_density,
    fit_flow,
    from_callable,
    from_sbi,
    from_zuko,
)
from ma_sbi.choosing.chosen import ChosenCorrector, Part
from ma_sbi.correctors import (
    BootstrapCorrector,
    ComposedCorrector,
    Evidence,
    RegimeCorrector,
    ResidualPools,
    Shift,
    ShiftCorrector,
)
from ma_sbi.encoders import CategoryEncoder
from ma_sbi.mixture import log_prob_mixture, sample_mixture
from ma_sbi.nan import NotANumber
from ma_sbi.protocols import Corrections
from tests.some_posteriors import (
    PRIOR,
    ddpm_posterior,
    exact,
    flow_posterior,
    sbi_fmpe,
    sbi_npe,
    simulations,
    spline_posterior,
    zuko_flow,
)


def _damaged(whole, name=""):
    """Copy something, with NaN in place of a weight of the network of this name."""
    whole = copy.deepcopy(whole)
    network = attrgetter(name)(whole) if name else whole
    with torch.no_grad():
        next(network.parameters()).view(-1)[0] = torch.nan
    return whole


DAMAGED = {
    "flow maf": lambda: _damaged(flow_posterior(), "estimator"),
    "flow nsf": lambda: _damaged(spline_posterior(), "estimator"),
    "ddpm": lambda: _damaged(ddpm_posterior().deterministic(3), "network"),
    "from_sbi": lambda: _damaged(from_sbi(sbi_npe()), "posterior.posterior_estimator"),
    "from_zuko": lambda: _damaged(from_zuko(zuko_flow()), "flow"),
    "from_zuko with a prior": lambda: _damaged(from_zuko(zuko_flow(), prior=PRIOR), "flow"),
}
CORRECTOR = ShiftCorrector(CategoryEncoder())
NOTES = ["high", "well"]


def _corrector():
    x = simulations(20)[1]
    return copy.deepcopy(CORRECTOR).fit(NOTES * 10, x, x)


@pytest.mark.parametrize("name", DAMAGED)
def test_draws_of_a_damaged_posterior_are_told(name):
    with pytest.warns(NotANumber, match="draws .* no numbers .* 2 of 2 observations"):
        DAMAGED[name]().sample(3, torch.zeros(2, 3), seed=0)


@pytest.mark.parametrize("name", DAMAGED)
def test_densities_of_a_damaged_posterior_are_told(name):
    with pytest.warns(NotANumber, match="log densities .* no numbers"):
        DAMAGED[name]().log_prob(torch.zeros(1, 2, 3), torch.zeros(2, 3))


@pytest.mark.parametrize("name", DAMAGED)
def test_a_corrected_posterior_tells_it_too(name):
    corrected = CorrectedPosterior(DAMAGED[name](), _corrector())
    with pytest.warns(NotANumber, match="draws"):
        corrected.sample(3, torch.zeros(2, 3), NOTES, seed=0)
    with pytest.warns(NotANumber, match="log densities"):
        corrected.log_prob(torch.zeros(1, 2, 3), torch.zeros(2, 3), NOTES)


REFUSED = {
    "npe": lambda: from_sbi(_damaged(sbi_npe(), "posterior_estimator")),
    # Asked for draws, it would look for a step without NaN for ever.
    "fmpe": lambda: from_sbi(_damaged(sbi_fmpe(), "vector_field_estimator")),
    "zuko": lambda: from_zuko(_damaged(zuko_flow())),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_damaged_network_is_not_adapted(name):
    with pytest.raises(ValueError, match="weights of this .* are not finite"):
        REFUSED[name]()


def test_a_function_that_gives_nan_is_told():
    posterior = from_callable(
        lambda n, x: exact(x).sample((n,)),
        lambda theta, x: torch.nan * exact(x).log_prob(theta),
    )
    with pytest.warns(NotANumber, match="log densities"):
        posterior.log_prob(torch.zeros(1, 1, 3), torch.zeros(1, 3))


class NanFrom:
    """theta | x ~ N(x, 1), but NaN where x is larger; no class of ours."""

    def __init__(self, bound):
        self.bound = bound

    def sample(self, num_samples, x, *, seed=None):
        rng = None if seed is None else torch.Generator().manual_seed(seed)
        draws = x + torch.randn(num_samples, *x.shape, generator=rng)
        return draws.masked_fill((x > self.bound).any(dim=1, keepdim=True), torch.nan)

    def log_prob(self, theta, x):
        found = Independent(Normal(x, 1.0), 1).log_prob(theta)
        return found.masked_fill((x > self.bound).any(dim=1), torch.nan)


def test_the_rows_are_those_of_the_observations():
    x = torch.tensor([[0.0], [5.0], [0.0]])
    with pytest.warns(NotANumber, match=r"1 of 3 observations \(first: row 1\)"):
        sample_mixture(NanFrom(1.0), 2, Corrections.certain(x))
    with pytest.warns(NotANumber, match=r"1 of 3 observations \(first: row 1\)"):
        log_prob_mixture(NanFrom(1.0), torch.zeros(2, 3, 1), Corrections.certain(x))


def _two_candidates(weight):
    """Give observation 1 a second candidate far away, of this weight."""
    x = torch.tensor([[[0.0], [0.0]], [[0.0], [5.0]]])
    weight = torch.tensor([[1 - weight] * 2, [weight] * 2])
    return Corrections(x, weight.log(), torch.zeros(2, 2))


@pytest.mark.parametrize("shared", [False, True])
def test_candidates_left_out_of_a_density_are_told_if_they_weigh(shared):
    theta, posterior = torch.zeros(1, 2, 1), NanFrom(1.0)

    def evaluate(weight):
        candidates = _two_candidates(weight)
        if shared:
            pool, log_weight = candidates.x[:, 1], candidates.log_weight
            candidates = Corrections.among(pool, log_weight)
        return log_prob_mixture(posterior, theta, candidates)

    with pytest.warns(NotANumber, match="log densities"):
        evaluate(0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(0.01)


def test_a_density_does_not_hide_that_its_flow_is_damaged():
    x = simulations(100)[1]
    density = fit_density(x, flow="maf", hidden=(8,), max_epochs=2, seed=0)
    density.flows = _damaged(density.flows)
    with pytest.warns(NotANumber, match="log densities of the flow are no numbers"):
        density.log_prob(x[:5])
    with pytest.warns(NotANumber, match="draws of the flow are no numbers"):
        density.sample(5, seed=0)


def _nan_above(bound):
    """Give a log density of simulations that fails where the first column is larger."""

    def log_density(x):
        return (-0.5 * x.square().sum(dim=1)).masked_fill(x[:, 0] > bound, torch.nan)

    return log_density


def _by_evidence(log_density):
    x_obs, notes, x_sim = _rows()
    axes = Shift(), ResidualPools(), Evidence(log_density)
    corrector = ComposedCorrector(CategoryEncoder(unseen="zero"), *axes)
    return corrector.fit(notes, x_obs, x_sim, seed=0)


@pytest.mark.parametrize("log_prob", [torch.nan, torch.inf, -torch.inf])
def test_the_context_decides_where_no_candidate_has_a_density(log_prob):
    x, notes, _ = _rows()
    nowhere = _by_evidence(lambda x: torch.full_like(x[:, 0], log_prob))
    everywhere = _by_evidence(lambda x: torch.zeros_like(x[:, 0]))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = nowhere.correct(x, notes)
    torch.testing.assert_close(found, everywhere.correct(x, notes))
    # Minus infinity is a log density.
    assert [one.category for one in told] == [NotANumber] * (log_prob != -torch.inf)


def test_a_density_of_another_shape_is_refused():
    x, notes, _ = _rows()
    with pytest.raises(ValueError, match="one number for each of 40 candidates"):
        _by_evidence(lambda x: torch.zeros(len(x), 1)).correct(x, notes)


def test_a_chosen_corrector_does_not_hide_a_density_within():
    x_obs, notes, x_sim = _rows()
    chosen = fit_corrector(notes, x_obs, x_sim, seed=0)
    within = _by_evidence(_nan_above(-torch.inf))
    part = Part("within", within, seen=1.0, unseen=1.0)
    args = chosen.contexts, chosen.dim_x, chosen.why
    with pytest.warns(NotANumber, match="densities of the density .* 40 of 40 obs") as told:
        ChosenCorrector([part], *args).correct(x_obs, ["never seen"] * 40)
    assert [one.category.__name__ for one in told].count("UnrelatedContext") == 1


def test_a_density_that_fails_at_simulations_is_told_or_refused():
    x_obs, notes, x_sim = _rows()
    second, sixth = x_sim[:, 0].topk(6).values[[1, 5]].tolist()
    with pytest.warns(NotANumber, match="of the density .* 1 of 40 simulations"):
        fit_corrector(notes, x_obs, x_sim, density=_nan_above(second), seed=0)
    with pytest.raises(ValueError, match="of the density .* 5 of 40 simulations"):
        fit_corrector(notes, x_obs, x_sim, density=_nan_above(sixth), seed=0)


def test_nothing_is_chosen_by_a_density_that_draws_nan():
    x_obs, notes, x_sim = _rows()
    density = fit_density(simulations(100)[1], hidden=(8,), max_epochs=2, seed=0)
    density.flows = _damaged(density.flows)
    with pytest.raises(ValueError, match="draws of the density are no numbers"):
        fit_corrector(notes, x_obs, x_sim, density=density, seed=0)


class GivesNan(CategoryEncoder):
    """An encoder that fails for one context."""

    def transform(self, context):
        encoding = super().transform(context)
        return np.where(np.asarray(context)[:, None] == "high", np.nan, encoding)


@pytest.mark.parametrize("fit", [ShiftCorrector, RegimeCorrector, BootstrapCorrector])
def test_a_context_that_an_encoder_gives_nan_for_is_not_missing(fit):
    x_obs, notes, x_sim = _rows()
    with pytest.raises(ValueError, match="1 of 2 different contexts .first: 'high'"):
        fit(GivesNan()).fit(notes, x_obs, x_sim, seed=0)


def test_what_cannot_be_is_a_density():
    posterior = flow_posterior()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outside = posterior.log_prob(torch.full((1, 1, 3), 3.0), torch.zeros(1, 3))
    assert outside.item() == -torch.inf


def _rows(n=40):
    x_sim = simulations(n, seed=5)[1]
    departure = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]).repeat(n // 2, 1)
    return x_sim + departure, NOTES * (n // 2), x_sim


def test_nothing_is_chosen_by_a_posterior_that_gives_nan():
    x_obs, notes, x_sim = _rows()
    with pytest.raises(ValueError, match="at x_sim, draws of the posterior are no numbers"):
        fit_corrector(notes, x_obs, x_sim, posterior=DAMAGED["flow maf"](), seed=0)


def test_nothing_is_chosen_by_densities_that_are_nan():
    x_obs, notes, x_sim = _rows()
    posterior = from_callable(
        lambda n, x: exact(x).sample((n,)),
        lambda theta, x: torch.nan * exact(x).log_prob(theta),
        batched=True,
    )
    with pytest.raises(ValueError, match="at x_sim, log densities .* no numbers"):
        fit_corrector(notes, x_obs, x_sim, posterior=posterior, seed=0)


@pytest.mark.parametrize("name", ["flow maf", "ddpm", "from_sbi"])
def test_a_check_refuses_a_posterior_that_gives_nan(name):
    x_obs, notes, x_sim = _rows()
    with pytest.raises(ValueError, match="draws of the posterior are no numbers"):
        check(x_obs, notes, x_sim=x_sim, posterior=DAMAGED[name](), seed=0)


class OnlyDraws:
    """Draws of a posterior, which are NaN for some observations."""

    def __init__(self, bound):
        self.posterior = NanFrom(bound)

    def sample(self, num_samples, x, *, seed=None):
        return self.posterior.sample(num_samples, x, seed=seed)


def test_a_posterior_that_gives_nan_for_corrected_rows_is_not_used():
    x_obs, notes, x_sim = _rows()
    # Several simulations of each row: the check learns its noise without the posterior.
    repeats = x_sim[:, None] + 0.01 * torch.randn(40, 3, 3)
    answer = check(x_obs, notes, x_sim=repeats, posterior=OnlyDraws(1.0), seed=0)
    assert answer.verdict == "do not use"
    assert "The posterior gives no answer: draws" in answer.reasons[0]
    assert answer.corrector is None


@pytest.mark.parametrize("fit", [fit_flow, fit_ddpm])
@pytest.mark.parametrize("learning_rate", [10.0, 1e3])
def test_training_that_diverges_is_an_error(fit, learning_rate):
    few = {"max_epochs": 2} if fit is fit_flow else {"epochs": 2, "hidden": 32}
    with pytest.raises(ValueError, match=r"diverged at learning_rate=10*; lower it"):
        fit(PRIOR, *simulations(100), learning_rate=learning_rate, seed=0, **few)
