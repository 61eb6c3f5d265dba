"""A check never advises harm: worlds whose posterior is known in closed form.

Two parameters, theta ~ N(0, 1), and x = theta + N(0, 0.5^2). Following the advice must lose
no more than 0.05 nats of log score against no correction on 2,000 fresh rows.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

import ma_sbi
from ma_sbi import CorrectedPosterior, fit_corrector, from_callable
from ma_sbi.choosing import NotPaired
from tests.worlds import exact, law

NOISE = 0.5
SHIFTS = torch.tensor([[1.5, 0.0], [0.0, -1.0], [0.5, 0.5]])
GAINS = torch.tensor([1.8, 1.0, 0.5])
HARM = 0.05


class Rows:
    """Rows in which nothing departs: x_obs and x_sim are the same."""

    def __init__(self, n, seed):
        self.rng = torch.Generator().manual_seed(seed)
        self.theta = self.normal(n)
        self.x_sim = self.theta + NOISE * self.normal(n)
        self.x_obs = self.x_sim.clone()
        self.regime = torch.randint(3, (n,), generator=self.rng)
        self.context = [f"regime {one}" for one in self.regime]

    def normal(self, n):
        return torch.randn(n, 2, generator=self.rng)

    def again(self):
        """Simulate with other random numbers at the same parameters."""
        return self.theta + NOISE * self.normal(len(self.theta))

    def chance(self, share):
        return torch.rand(len(self.theta), 1, generator=self.rng) < share


def nothing(rows):
    pass


def shifted(rows):
    rows.x_obs = rows.x_obs + SHIFTS[rows.regime]


def own_noise(rows):
    rows.x_sim = rows.again()


def shifted_own_noise(rows):
    shifted(rows)
    own_noise(rows)


def gained(rows):
    rows.x_obs = GAINS[rows.regime][:, None] * rows.x_obs


def gain_own_noise(rows):
    gained(rows)
    own_noise(rows)


def filler(rows):
    """Departures of two kinds, about which the context says nothing."""
    rows.x_obs = rows.x_obs + torch.where(rows.chance(0.5), 1.5, -1.5)


def one_in_ten(rows):
    rows.x_obs = rows.x_obs + rows.chance(0.1) * torch.tensor([3.0, 0.0])


def outliers(rows):
    n = len(rows.theta)
    rows.x_obs = rows.x_obs + rows.chance(0.05) * 30 * rows.normal(n)


def inflated(rows):
    rows.x_obs = rows.x_obs + 1.5 * rows.normal(len(rows.theta))


# What is done to the rows of a calibration set alone.


def at_other_parameters(rows):
    n = len(rows.theta)
    rows.x_sim = rows.normal(n) + NOISE * rows.normal(n)


def at_another_population(rows):
    at_other_parameters(rows)
    rows.x_sim = rows.x_sim + 0.8


def shuffled(rows):
    rows.x_sim = rows.x_sim[torch.randperm(len(rows.x_sim), generator=rows.rng)]


def swapped(rows):
    rows.x_obs, rows.x_sim = rows.x_sim, rows.x_obs


def other_columns(rows):
    rows.x_sim = rows.x_sim.flip(1)


def other_units(rows):
    rows.x_obs = 10 * rows.x_obs


def fahrenheit(rows):
    rows.x_sim = 32 + 1.8 * rows.x_sim


def expected(rows):
    rows.x_sim = rows.theta


def control(rows):
    """Measure and simulate at one known setting."""
    rows.theta = torch.tensor([0.3, -0.2]).expand_as(rows.theta)
    departure = rows.x_obs - rows.x_sim
    rows.x_sim = rows.again()
    rows.x_obs = rows.again() + departure


def several(rows):
    rows.x_sim = torch.stack([rows.again() for _ in range(4)], dim=1)


USED = ("use", "use with care", "use the marginal part only")
NOT = ("do not use",)
COMMON = ("use the marginal part only",)
BY_CONTEXT = ("use", "use with care")
# How observations depart, what is done to calibration rows, and which verdicts are right.
WORLDS = {
    "nothing departs": (nothing, None, NOT),
    "a shift": (shifted, None, BY_CONTEXT),
    "other parameters": (nothing, at_other_parameters, NOT),
    "another population": (nothing, at_another_population, NOT),
    "shuffled": (nothing, shuffled, NOT),
    "shuffled, departing": (shifted, shuffled, (*NOT, "use with care")),
    "swapped": (shifted, swapped, NOT),
    "swapped, a gain": (gained, swapped, NOT),
    "an offset": (nothing, fahrenheit, NOT),
    "an offset, departing": (shifted, fahrenheit, NOT),
    "an expected value": (nothing, expected, NOT),
    "an expected value, departing": (shifted, expected, (*BY_CONTEXT, *NOT)),
    "other columns": (shifted, other_columns, NOT),
    "other units": (nothing, other_units, NOT),
    # Without a posterior nothing tells noise: x_sim is a pool, perhaps of other theta.
    "a control run": (shifted, control, (*BY_CONTEXT, *NOT)),
    "filler": (filler, None, COMMON),
    "one in ten": (one_in_ten, None, USED),
    "outliers": (outliers, None, USED),
    "noise inflation": (inflated, None, USED),
    "own noise": (own_noise, None, NOT),
    "own noise, a shift": (shifted_own_noise, None, BY_CONTEXT),
    "own noise, a gain": (gain_own_noise, None, (*USED, *NOT)),
    "several simulations": (shifted, several, BY_CONTEXT),
}


def followed(answer, depart, seed):
    """Return what following the advice gains on fresh rows, with its standard error."""
    fresh = Rows(2000, seed)
    depart(fresh)
    if answer.corrector is None:
        return 0.0, 0.0
    corrected = CorrectedPosterior(exact(), answer.corrector)
    score = corrected.log_prob(fresh.theta[None], fresh.x_obs, fresh.context)[0]
    gain = score - law(fresh.x_obs).log_prob(fresh.theta)
    return gain.mean().item(), (gain.std() / len(gain) ** 0.5).item()


@pytest.mark.parametrize("with_posterior", [True, False], ids=["posterior", "alone"])
@pytest.mark.parametrize("world", WORLDS)
def test_following_the_advice_does_no_harm(world, with_posterior):
    depart, spoil, verdicts = WORLDS[world]
    rows = Rows(150, seed=1)
    depart(rows)
    if spoil is not None:
        spoil(rows)
    posterior = exact() if with_posterior else None
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotPaired)  # said by the verdict, not by a warning
        answer = ma_sbi.check(
            rows.x_obs, rows.context, x_sim=rows.x_sim, posterior=posterior, seed=0
        )
    assert answer.verdict in verdicts, answer
    assert (answer.corrector is None) == (answer.verdict == "do not use")
    gain, error = followed(answer, depart, seed=2)
    assert gain > -HARM - 2 * error, answer


def test_a_control_run_whose_noise_is_known_is_used():
    rows = Rows(150, seed=1)
    shifted(rows)
    control(rows)
    answer = ma_sbi.check(
        rows.x_obs, rows.context, x_sim=rows.x_sim, posterior=exact(), seed=0
    )
    assert answer.verdict in BY_CONTEXT, answer
    assert followed(answer, shifted, seed=2)[0] > 0


def test_what_fit_corrector_gains_is_not_left_lying():
    # The shifts are 1.1 nats on average: 0.8^2 |shift|^2 / 2 / 0.2.
    expected = (0.64 * SHIFTS.square().sum(dim=1) / 0.4).mean().item()
    rows = Rows(150, seed=1)
    shifted(rows)
    answer = ma_sbi.check(rows.x_obs, rows.context, x_sim=rows.x_sim, seed=0)
    gain, error = followed(answer, shifted, seed=2)
    assert abs(gain - expected) < 4 * error + 0.02


def test_noise_of_a_simulator_is_not_drawn_again():
    """Coverage of the corrected posterior is what it should be, and not 99 %."""
    rows = Rows(300, seed=3)
    shifted_own_noise(rows)
    answer = ma_sbi.check(
        rows.x_obs, rows.context, x_sim=rows.x_sim, posterior=exact(), seed=0
    )
    fresh = Rows(2000, seed=4)
    shifted(fresh)
    corrected = CorrectedPosterior(exact(), answer.corrector)
    draws = corrected.sample(200, fresh.x_obs, fresh.context, seed=0)
    rank = (draws < fresh.theta).double().mean(dim=0)
    inside = ((rank > 0.05) & (rank < 0.95)).double().mean().item()
    # 4,000 ranks, of which two share a row: an error of at most 0.007. The means of 300
    # noisy rows may widen or shift what is covered by a few points.
    assert 0.85 < inside < 0.95


@pytest.mark.parametrize("mean", [0.0, 3.0])
def test_noise_that_cannot_be_told_is_said_to_be_so(mean):
    rows = Rows(24, seed=0)
    rows.x_obs = rows.x_obs + mean + 0.3 * rows.normal(24)
    answer = ma_sbi.check(rows.x_obs, rows.context, x_sim=rows.x_sim, seed=0)
    if answer.judgement.plan.data.noise.told:
        pytest.skip("these rows tell it")
    # A mean departure is none of the noise, and is corrected all the same.
    assert (answer.corrector is not None) == (mean > 0), answer
    if answer.corrector is not None or answer.judgement.by_context.gain.low > 0:
        assert any(
            "cannot be told" in reason
            for reason in [*answer.reasons, *answer.advice.doubts]
        )


def as_table(values, names=("a", "b"), index=None):
    return pd.DataFrame(values.numpy(), columns=list(names), index=index)


class TestTables:
    @pytest.fixture
    def rows(self):
        rows = Rows(60, seed=5)
        shifted(rows)
        return rows

    def test_columns_are_matched_by_their_names(self, rows):
        x_obs, x_sim = as_table(rows.x_obs), as_table(rows.x_sim)
        found = fit_corrector(rows.context, x_obs, x_sim[["b", "a"]], seed=0)
        expected = fit_corrector(rows.context, x_obs, x_sim, seed=0)
        assert found.why == expected.why

    def test_rows_are_matched_by_their_labels(self, rows):
        x_obs, x_sim = as_table(rows.x_obs), as_table(rows.x_sim)
        turned = x_sim.iloc[::-1]
        assert (
            ma_sbi.check(x_obs, rows.context, x_sim=turned, seed=0).verdict
            == ma_sbi.check(x_obs, rows.context, x_sim=x_sim, seed=0).verdict
            != "do not use"
        )

    @pytest.mark.parametrize(
        ("names", "index", "message"),
        [
            (("a", "c"), None, "columns of x_obs and x_sim have different names"),
            (("a", "b"), np.arange(60) + 7, "rows of x_obs and x_sim have different names"),
        ],
        ids=["columns", "rows"],
    )
    @pytest.mark.parametrize("how", ["check", "fit"])
    def test_other_labels_are_refused(self, rows, how, names, index, message):
        x_obs, x_sim = as_table(rows.x_obs), as_table(rows.x_sim, names, index)
        call = {
            "fit": lambda: fit_corrector(rows.context, x_obs, x_sim),
            "check": lambda: ma_sbi.check(x_obs, rows.context, x_sim=x_sim),
        }[how]
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_rows_that_a_number_explains_leave_no_room_for_noise(noise):
    """Small departures of x with long tails: second moments alone do not tell noise."""
    rng = np.random.default_rng(0)
    number = rng.normal(size=300)
    x_sim = rng.standard_t(2, size=(300, 2))
    departure = 0.2 * np.outer(number, [1.0, -0.5])
    x_obs = x_sim + departure
    x_sim = x_sim + noise * rng.normal(size=x_sim.shape)
    judgement = ma_sbi.check(x_obs, number, x_sim=x_sim, seed=0).judgement
    assert not judgement.plan.data.noise.told
    assert judgement.noise_told == (noise == 0)
    # Where noise is ruled out, an exchange of rows has nothing to find out.
    assert (judgement.exchange_p_value is None) == (noise == 0)


@pytest.mark.parametrize("with_posterior", [False, True])
def test_counts_that_were_simulated_again_are_left_alone(with_posterior):
    """A rate with a gamma prior, whose posterior given a count is gamma, too."""
    prior = torch.distributions.Gamma(torch.full((2,), 2.0), torch.full((2,), 0.1))

    def given(x):
        return torch.distributions.Gamma(2.0 + x.clamp(min=0.0), torch.tensor(1.1))

    posterior = ma_sbi.from_callable(
        lambda num, x: given(x).sample((num,)),
        lambda theta, x: given(x).log_prob(theta.clamp(min=1e-6)).sum(dim=-1),
        batched=True,
    )
    for seed in range(3):
        rng = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            rate = prior.sample((100,))
        x_obs, x_sim = (torch.poisson(rate, generator=rng) for _ in range(2))
        answer = ma_sbi.check(
            x_obs,
            ["busy", "idle"] * 50,
            x_sim=x_sim,
            posterior=posterior if with_posterior else None,
            seed=0,
        )
        assert answer.corrector is None, answer


@pytest.mark.parametrize("departs", [False, True])
def test_simulations_at_inputs_that_are_known_roughly_show_no_departure(departs):
    rng = torch.Generator().manual_seed(0)
    theta, other, noise = (torch.randn(300, 2, generator=rng) for _ in range(3))
    rough = 0.7 * theta + 0.51**0.5 * other
    runs = rough[:, None] + NOISE * torch.randn(300, 5, 2, generator=rng)
    x_obs = theta + NOISE * noise + departs * torch.tensor([1.5, 0.0])
    answer = ma_sbi.check(x_obs, ["a", "b"] * 150, x_sim=runs, seed=0)
    assert (answer.corrector is not None) == departs, answer


def test_x_sim_that_never_varies_is_said_to_be_at_one_setting():
    rng = torch.Generator().manual_seed(0)
    x_obs = torch.randn(60, 2, generator=rng)
    answer = ma_sbi.check(x_obs, ["a", "b"] * 30, x_sim=torch.zeros(60, 2), seed=0)
    assert answer.corrector is None
    assert "the same in every row" in answer.reasons[0]
    assert "several runs for each row" in answer.reasons[0]
    assert any("Several simulations" in one for one in answer.advice.collect)


def test_a_control_run_is_not_moved_to_the_middle_of_the_prior():
    rng = torch.Generator().manual_seed(0)
    at_one = 1.5 + NOISE * torch.randn(2, 400, 2, generator=rng)
    prior = torch.randn(2000, 2, generator=rng)
    pool = prior + NOISE * torch.randn(2000, 2, generator=rng)
    answer = ma_sbi.check(
        at_one[0], ["a", "b"] * 200, x_sim=at_one[1], simulations=pool, seed=0
    )
    assert answer.corrector is None, answer


def test_simulations_that_are_nearly_all_noise_are_no_control_run():
    """Rows at other parameters, whose context depends on theta, are not corrected."""
    noise, n = 3.0, 120
    prior = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
    shrink = 1 / (1 + noise**2)

    def at(x):
        spread = (noise**2 * shrink) ** 0.5
        return torch.distributions.Independent(
            torch.distributions.Normal(shrink * x, spread), 1
        )

    posterior = from_callable(
        lambda num, x: at(x).sample((num,)),
        lambda theta, x: at(x).log_prob(theta),
        batched=True,
        prior=prior,
    )
    rng = torch.Generator().manual_seed(3)
    theta, others, *noises = torch.randn(4, n, 2, generator=rng)
    context = ["high" if one > 0 else "low" for one in theta[:, 0]]
    x_obs, x_sim = theta + noise * noises[0], others + noise * noises[1]
    with pytest.warns(NotPaired):
        fit_corrector(context, x_obs, x_sim, posterior=posterior, seed=0)
    answer = ma_sbi.check(x_obs, context, x_sim=x_sim, posterior=posterior, seed=0)
    assert answer.corrector is None, answer
    # At one setting they are pairs all the same.
    setting = torch.tensor([4.0, -4.0])
    x_obs, x_sim = setting + noise * noises[0], setting + noise * noises[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotPaired)
        fit_corrector(["a", "b"] * (n // 2), x_obs, x_sim, posterior=posterior, seed=0)


def test_a_control_run_shows_what_the_context_adds():
    """At one setting far from the middle, where the prior pulls what the posterior says."""
    rng = torch.Generator().manual_seed(0)
    noises = torch.randn(2, 180, 2, generator=rng)
    setting, shifts = torch.tensor([1.5, -1.5]), torch.tensor([[0.6, 0.0], [0.0, 0.6]])
    regime = torch.arange(180) % 2
    x_obs = setting + NOISE * noises[0] + shifts[regime]
    x_sim = setting + NOISE * noises[1]
    context = [f"regime {one}" for one in regime]
    posterior = from_callable(
        lambda num, x: law(x).sample((num,)),
        lambda theta, x: law(x).log_prob(theta),
        batched=True,
        prior=torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)),
    )
    answer = ma_sbi.check(x_obs, context, x_sim=x_sim, posterior=posterior, seed=0)
    assert answer.judgement.scored_by == "x_sim"
    assert answer.judgement.adds.low > 0
    assert answer.verdict in ("use", "use with care"), answer
    # The shift of each regime, within four standard errors.
    moved = answer.corrector.correct(torch.zeros(2, 2), ["regime 0", "regime 1"])
    error = NOISE * (2 / 90) ** 0.5
    torch.testing.assert_close(moved, -shifts, atol=4 * error, rtol=0.0)


# x has more columns than theta, and both sides have noise of their own.
MATRIX = torch.tensor([[1.0, 0.5], [-0.5, 1.0], [0.8, 0.8], [0.2, -1.0]])


def simulated(theta, rng):
    return theta @ MATRIX.T + NOISE * torch.randn(len(theta), len(MATRIX), generator=rng)


def mistaken_for_runs(how, num, rng):
    """Rows in which x_sim is not what it should be; the last two are as they should be."""
    theta = torch.randn(num, 2, generator=rng)
    x_obs, x_sim = simulated(theta, rng), simulated(theta, rng)
    return {
        "swapped": (x_sim, x_obs + 0.7),
        "Fahrenheit": (x_obs, 32 + 1.8 * x_sim),
        "Fahrenheit, and a shift": (x_obs + 1.5, 32 + 1.8 * x_sim),
        "a mean of many runs": (x_obs, theta @ MATRIX.T),
        "a shift": (x_obs + 0.7, x_sim),
        "several runs": (
            x_obs + 0.7,
            torch.stack([simulated(theta, rng) for _ in range(4)], dim=1),
        ),
    }[how]


def simulations_of_them(num=2000):
    rng = torch.Generator().manual_seed(10)
    return simulated(torch.randn(num, 2, generator=rng), rng)


def density_of_them(x):
    covariance = MATRIX @ MATRIX.T + NOISE**2 * torch.eye(len(MATRIX))
    zeros = torch.zeros(len(MATRIX))
    return torch.distributions.MultivariateNormal(zeros, covariance).log_prob(x)


@pytest.mark.parametrize(
    ("known", "num"),
    [
        ({"simulations": simulations_of_them()}, 100),
        pytest.param({"simulations": simulations_of_them()}, 800, marks=pytest.mark.slow),
        ({"density": density_of_them}, 100),
    ],
    ids=["simulations, 100", "simulations, 800", "density"],
)
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("swapped", "swapped"),
        ("Fahrenheit", "units"),
        ("Fahrenheit, and a shift", "units"),
        ("a mean of many runs", "expected value"),
        ("a shift", None),
        ("several runs", None),
    ],
)
def test_simulations_show_what_x_sim_is(how, said, known, num):
    x_obs, x_sim = mistaken_for_runs(how, num, torch.Generator().manual_seed(0))
    context = ["a", "b"] * (num // 2)
    answer = ma_sbi.check(x_obs, context, x_sim=x_sim, **known, seed=0)
    assert (answer.corrector is None) == (said is not None), answer
    if said is not None:
        assert said in answer.reasons[0]
        with pytest.warns(NotPaired, match=said):
            fit_corrector(context, x_obs, x_sim, **known, seed=0)


WITHOUT_SPREAD = {
    "a constant": lambda x: torch.zeros(len(x), 1),
    "a total": lambda x: x.sum(dim=1, keepdim=True),
}


@pytest.mark.parametrize("name", WITHOUT_SPREAD)
def test_columns_without_spread_of_their_own_hide_nothing(name):
    def widened(x):
        return torch.cat([x, WITHOUT_SPREAD[name](x)], dim=1)

    x_obs, x_sim = mistaken_for_runs("several runs", 100, torch.Generator().manual_seed(0))
    answer = ma_sbi.check(
        widened(x_obs - 0.7),
        ["a", "b"] * 50,
        x_sim=widened(3 + 1.8 * x_sim[:, 0]),
        simulations=widened(simulations_of_them()),
        seed=0,
    )
    assert answer.corrector is None
    assert "units" in answer.reasons[0]
