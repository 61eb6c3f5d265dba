"""PriorGuide against closed forms: Gaussian prior, likelihood and new prior.

theta ~ N(0, v I), x ~ N(theta, N): the posterior is N(G x, V). Under a new prior
N(mu, diag tau^2) its precision grows by diag(1 / tau^2) - I / v. The network is the exact
denoiser, so what is tested is the guidance.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.distributions import (
    Categorical,
    Independent,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
)

from ma_sbi import fit_ddpm
from ma_sbi.metrics import c2st_batch
from ma_sbi.networks import Standardise
from ma_sbi.posteriors.diffusion import DiffusionPosterior, noise_schedule
from ma_sbi.posteriors.training_range import TrainingRange
from ma_sbi.posteriors.unconstrained import on_real_line
from ma_sbi.randomness import seeded
from ma_sbi_bench.methods import Calibration, Materials, get_method
from ma_sbi_bench.methods.guidance import PriorGuided, RatioMixture
from ma_sbi_bench.methods.prior_guide import PriorGuide, fit_ratio
from ma_sbi_bench.tasks import get_task

DIM = 2
X = torch.tensor([[0.5, 1.0], [-1.0, 0.2]])
MEAN, VARIANCE = torch.tensor([0.8, -0.5]), torch.tensor([0.3, 0.5])
NEW_PRIOR = Independent(Normal(MEAN, VARIANCE.sqrt()), 1)
NARROW = (1.0, torch.tensor([[0.3, 0.2], [0.2, 0.5]]))  # v and N
UNIT = (4.0, 4 / 3 * torch.eye(DIM))  # the posterior has unit variance
NUM_DRAWS = 4000
SPREAD = 4  # standard errors


class ExactDenoiser(nn.Module):
    """The noise in theta_t where theta given x is N(G x, V)."""

    def __init__(self, gain, covariance, signal, scale):
        super().__init__()
        self.theta_scale = Standardise(torch.zeros(DIM), torch.full((DIM,), scale))
        self.x_scale = Standardise(torch.zeros(DIM), torch.ones(DIM))
        self.gain, self.covariance, self.signal = gain, covariance, signal

    def forward(self, theta, step, x):
        left = self.signal[step[0]]
        total = left * self.covariance + (1 - left) * torch.eye(DIM)
        residual = theta - left.sqrt() * x @ self.gain.T
        return (1 - left).sqrt() * torch.linalg.solve(total, residual.T).T


def law(world):
    """Give the gain and covariance of the posterior."""
    variance, noise = world
    covariance = torch.linalg.inv(torch.eye(DIM) / variance + torch.linalg.inv(noise))
    return covariance @ torch.linalg.inv(noise), covariance


def prior_of(world):
    return MultivariateNormal(torch.zeros(DIM), world[0] * torch.eye(DIM))


def exact_posterior(world):
    prior, to_real = on_real_line(prior_of(world), None)
    signal = noise_schedule("rescaled").float()
    return DiffusionPosterior(
        # sbi's map to the real line divides by the deviation of a Gaussian prior.
        ExactDenoiser(*law(world), signal, world[0] ** -0.5),
        signal,
        prior=prior,
        to_real=to_real,
        training_range=TrainingRange.of(3 * torch.randn(100, DIM)),
    )


def exact_ratio(world):
    precision = 1 / VARIANCE - 1 / world[0]
    mean = MEAN / VARIANCE / precision
    return RatioMixture(torch.zeros(1), mean[None], 1 / precision[None])


def target(world, mean=MEAN, variance=VARIANCE):
    """Give the mean, one row per observation, and covariance under the new prior."""
    gain, covariance = law(world)
    precision = torch.linalg.inv(covariance)
    new = torch.linalg.inv(precision + torch.diag(1 / variance - 1 / world[0]))
    return (X @ gain.T @ precision + mean / variance) @ new, new


def guided(world, *, sampler=lambda posterior: posterior, **options):
    base = sampler(exact_posterior(world))
    bound = torch.full((DIM,), 8.0)
    return PriorGuided(base, exact_ratio(world), lower=-bound, upper=bound, **options)


def errors(draws, mean, covariance):
    """Measure the mean in deviations, and the covariance relative to the target's."""
    scale = covariance.diagonal().sqrt()
    found = torch.stack([draws[:, row].T.cov() for row in range(draws.shape[1])])
    relative = (found - covariance) / (scale[:, None] * scale)
    return (draws.mean(dim=0) - mean).div(scale).abs().max(), relative.abs().max()


MEAN_ERROR = SPREAD / math.sqrt(NUM_DRAWS)
COVARIANCE_ERROR = SPREAD * math.sqrt(2 / NUM_DRAWS)


@pytest.mark.parametrize(
    ("world", "spread"),
    [(NARROW, "jacobian"), (UNIT, "jacobian"), (UNIT, "unit")],
    ids=["narrow-jacobian", "unit-jacobian", "unit-unit"],
)
def test_guided_draws_follow_the_closed_form(world, spread):
    # Forty steps of second order: what is left of the discretisation is below 0.01.
    few = guided(world, spread=spread, sampler=lambda base: base.deterministic(40))
    mean_error, covariance_error = errors(few.sample(NUM_DRAWS, X, seed=0), *target(world))
    assert mean_error < MEAN_ERROR + 0.01
    assert covariance_error < COVARIANCE_ERROR + 0.01


def test_the_ancestral_sampler_agrees_up_to_its_discretisation():
    draws = guided(NARROW, spread="jacobian").sample(NUM_DRAWS, X, seed=0)
    mean_error, covariance_error = errors(draws, *target(NARROW))
    assert mean_error < MEAN_ERROR + 0.01
    # 200 ancestral steps make any posterior narrow: the unguided one by 5 %.
    assert covariance_error < COVARIANCE_ERROR + 0.1


def test_langevin_steps_mend_what_the_unit_spread_gets_wrong():
    few = {"sampler": lambda base: base, "spread": "unit"}
    plain, settled = (
        errors(guided(NARROW, **few, **o).sample(1000, X, seed=0), *target(NARROW))[0]
        for o in ({}, {"num_langevin": 4, "langevin_step": 4.0})
    )
    # 0.2 deviations without; a quarter of that, and the error of 1000 draws, with them.
    assert plain > 0.15
    assert settled < 0.05 + SPREAD / math.sqrt(1000)
    assert settled < plain


def unguided(base, **options):
    """Sample as PriorGuide does, towards the old prior."""
    flat = RatioMixture(torch.zeros(1), torch.zeros(1, DIM), torch.full((1, DIM), 1e12))
    bound = torch.full((DIM,), 1e6)
    return PriorGuided(base, flat, lower=-bound, upper=bound, **options)


def test_a_flat_ratio_changes_nothing():
    base = exact_posterior(NARROW)
    same = unguided(base, spread="unit")
    torch.testing.assert_close(same.sample(50, X, seed=0), base.sample(50, X, seed=0))


def test_the_pull_is_the_derivative_of_the_averaged_ratio():
    torch.manual_seed(0)
    ratio = RatioMixture(torch.randn(3), torch.randn(3, DIM), torch.rand(3, DIM) + 0.1)
    square = torch.randn(5, DIM, DIM)
    covariance = square @ square.mT
    center = torch.randn(5, DIM, requires_grad=True)
    parts = MultivariateNormal(
        ratio.mean, ratio.variance.diag_embed() + covariance[:, None]
    ).log_prob(center[:, None])
    value = (parts + ratio.log_weight).logsumexp(dim=1).sum()
    (expected,) = torch.autograd.grad(value, center)
    torch.testing.assert_close(ratio.pull(center.detach(), covariance), expected)
    diagonal = torch.tensor([[0.5, 2.0]])
    full = torch.diag(diagonal[0]).expand(5, -1, -1)
    torch.testing.assert_close(
        ratio.pull(center.detach(), diagonal), ratio.pull(center.detach(), full)
    )


def test_the_fitted_ratio_is_the_quotient_of_two_gaussians():
    torch.manual_seed(0)
    prior = prior_of(NARROW)
    theta = torch.cat([prior.sample((1000,)), NEW_PRIOR.sample((1000,))])
    log_ratio = NEW_PRIOR.log_prob(theta) - prior.log_prob(theta)
    found = fit_ratio(theta, log_ratio, seed=0).log_value(theta)
    new = theta[1000:]
    difference = (found - exact_ratio(NARROW).log_value(theta))[1000:]
    # Up to a constant; no more than a twentieth of how much it varies there.
    varies = exact_ratio(NARROW).log_value(new).std()
    assert difference.std() < varies / 20


def materials(calibration=None):
    few = exact_posterior(NARROW).deterministic(40)
    return Materials(prior=prior_of(NARROW), posterior=few, calibration=calibration)


# Of the guidance only; the sampler is that of the posterior given.
EXACT = {"num_components": 5, "spread": "jacobian", "num_langevin": 0, "num_steps": None}


def calibrated(num, *, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        theta = NEW_PRIOR.sample((num,))
        return Calibration(torch.randn(num, DIM), theta=theta)


@pytest.mark.parametrize("given", ["distribution", "function", "draws"])
def test_the_new_prior_may_be_given_or_estimated(given):
    priors = {
        "distribution": NEW_PRIOR,
        "function": lambda theta: NEW_PRIOR.log_prob(theta) + 7.0,
        "draws": None,
    }
    method = PriorGuide(priors[given], **EXACT)
    assert ("theta*" in method.needs) == (given == "draws")
    method.fit(materials(calibrated(1000) if given == "draws" else None), seed=0)
    draws = method.sample(NUM_DRAWS, X, seed=0)
    mean_error, covariance_error = errors(draws, *target(NARROW))
    # A new prior that is estimated from 1000 draws moves the posterior by its own errors
    # times the share of the prior in the posterior: 0.7 of a deviation, 0.5 of a variance.
    estimated = 1 / 1000 if given == "draws" else 0.0
    mean_noise = math.sqrt(1 / NUM_DRAWS + 0.7**2 * estimated)
    covariance_noise = math.sqrt(2 / NUM_DRAWS + 2 * 0.5**2 * estimated)
    # The mixture for the ratio of the two priors adds a few hundredths.
    assert mean_error < SPREAD * mean_noise + 0.05
    assert covariance_error < SPREAD * covariance_noise + 0.08


def test_each_context_may_have_a_prior_of_its_own():
    low, high = torch.tensor([-0.8, -0.8]), torch.tensor([0.8, 0.8])
    torch.manual_seed(0)
    center = torch.stack([low, high]).repeat(300, 1)
    theta = center + 0.5 * torch.randn(600, DIM)
    data = Calibration(theta, ["low", "high"] * 300, theta=theta)
    method = PriorGuide(by_context=True, **EXACT)
    assert method.needs == {"diffusion", "theta*", "context"}
    method.fit(materials(data), seed=0)
    x = X[:1].expand(3, -1)
    draws = method.sample(2000, x, ["low", "high", "never seen"], seed=0).mean(dim=0)
    for row, mean in enumerate((low, high)):
        expected, covariance = target(NARROW, mean, torch.full((DIM,), 0.25))
        scale = covariance.diagonal().sqrt()
        # The prior is estimated from 300 draws.
        error = SPREAD * (1 / math.sqrt(2000) + 0.5 / math.sqrt(300)) + 0.05
        assert ((draws[row] - expected[0]) / scale).abs().max() < error
    assert (draws[0] < draws[2]).all()
    assert (draws[2] < draws[1]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"spread": "wide"}, "spread must be one of"),
        ({"num_langevin": -1}, "num_langevin"),
        ({"num_steps": 1}, "num_steps"),
        ({"ratio_steps": 0}, "ratio_steps"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        get_method("prior_guide", **options).fit(materials(calibrated(20)))


def test_a_prior_of_few_parameters_is_refused():
    with pytest.raises(ValueError, match="at least 10 true parameters, got 9"):
        PriorGuide().fit(materials(calibrated(9)))


def test_a_new_prior_outside_the_old_one_is_refused():
    task = get_task("two_moons")
    rows = task.draw(50, seed=0)
    base = fit_ddpm(task.prior, rows.theta, rows.x_sim, hidden=8, epochs=1, seed=0)
    outside = Independent(Normal(5 * torch.ones(DIM), torch.ones(DIM)), 1)
    with pytest.raises(ValueError, match="within the prior"):
        PriorGuide(outside).fit(Materials(prior=task.prior, posterior=base), seed=0)


def test_a_guided_posterior_is_not_saved(tmp_path):
    with pytest.raises(ValueError, match="save the one it guides"):
        guided(NARROW).save(tmp_path / "guided.pt")


TASK = get_task("two_moons")
NUM_PRIORS, NUM_OBSERVATIONS, NUM_JUDGED = 5, 3, 500


def draw_prior(kind, seed):
    """Draw a new prior as the authors do: narrower than the old one, centred anywhere."""
    rng = torch.Generator().manual_seed(seed)
    deviation = {"mild": 0.5, "strong": 0.2, "mixture": 0.2}[kind] * 2 / math.sqrt(12)
    center = (1 - 3 * deviation) * (2 * torch.rand(2, DIM, generator=rng) - 1)
    parts = Independent(Normal(center, deviation), 1)
    first = 0.2 + 0.6 * torch.rand((), generator=rng) if kind == "mixture" else 1.0
    weight = torch.tensor([first, 1 - first])
    return MixtureSameFamily(Categorical(weight), parts)


@lru_cache
def moons_posterior():
    """Train until the crescents are thin.

    The noise of the last of 200 rescaled steps is wider than a crescent, hence 1000; and
    fewer simulations or a constant learning rate blur them.
    """
    rows = TASK.draw(1_000_000, seed=0)
    options = {"schedule": "rescaled", "num_steps": 1000, "decay": "cosine", "seed": 0}
    return fit_ddpm(
        TASK.prior, rows.theta, rows.x_sim, epochs=20, batch_size=512, **options
    )


def resampled(draws, new_prior):
    """Pick draws by the new prior: exact, as the old prior of this task is flat."""
    weight = new_prior.log_prob(draws).softmax(dim=0)
    pick = torch.multinomial(weight.T, NUM_JUDGED, replacement=True).T
    return draws.gather(0, pick[..., None].expand(-1, -1, DIM))


class Judged(NamedTuple):
    """A new prior, observations under it, the exact posterior, and the base's C2ST."""

    new_prior: MixtureSameFamily
    x: torch.Tensor
    exact: torch.Tensor
    base: torch.Tensor


@lru_cache
def judged_base(kind, seed):
    new_prior = draw_prior(kind, seed)
    with seeded(seed):
        theta = new_prior.sample((40,))
    inside = theta[TASK.prior.support.check(theta)][:NUM_OBSERVATIONS]
    x = TASK.simulate(inside, seed=100 + seed)
    defaults = PriorGuide()
    base = unguided(
        moons_posterior().ancestral(defaults.num_steps),
        num_langevin=defaults.num_langevin,
        langevin_step=defaults.langevin_step,
    )
    with seeded(seed):
        exact = resampled(TASK.reference(x, 40 * NUM_JUDGED, seed=5), new_prior)
        draws = resampled(base.sample(8 * NUM_JUDGED, x, seed=3), new_prior)
    return Judged(new_prior, x, exact, c2st_batch(draws, exact, recipe="fast"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["prior_guide", "prior_guide_jacobian"])
@pytest.mark.parametrize("kind", ["mild", "strong", "mixture"])
def test_two_moons_under_a_new_prior(name, kind):
    """Guidance costs 0.03 of C2ST at most, over the base with exact weights.

    The base by its old prior would be too easy a bar: a narrow prior looks closer, and
    what is wrong with the base there counts for more, 0.49 becoming 0.54.
    """
    guided, base = [], []
    for seed in range(NUM_PRIORS):
        new_prior, x, exact, bar = judged_base(kind, seed)
        method = get_method(name, target_prior=new_prior)
        method.fit(Materials(prior=TASK.prior, posterior=moons_posterior()), seed=0)
        draws = method.sample(NUM_JUDGED, x, seed=6)
        guided.append(c2st_batch(draws, exact, recipe="fast"))
        base.append(bar)
    guided, base = torch.cat(guided), torch.cat(base)
    difference = guided - base
    error = difference.std() / math.sqrt(len(difference))
    # Strong 0.54 over 0.54, mixture 0.56 over 0.52; the authors' guided figures are 0.52
    # (mild), 0.52 and 0.55.
    assert difference.mean() < 0.03 + 2 * error, (guided.mean(), base.mean())
