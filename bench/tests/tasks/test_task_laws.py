"""Laws that every task obeys, in every setting."""

from collections import Counter
from inspect import signature
from typing import get_args

import pytest
import torch
from scipy.stats import chi2_contingency

from ma_sbi_bench.tasks import TASKS, Setting, ShiftTask, get_task
from ma_sbi_bench.tasks.regimes import shift_regimes

SETTINGS = get_args(Setting)


def _tasks(condition):
    return pytest.mark.parametrize(
        "name", [name for name in sorted(TASKS) if condition(get_task(name))]
    )


every_task = _tasks(lambda task: True)
every_task_with_reference = _tasks(lambda task: task.has_reference)
every_task_with_evidence = _tasks(lambda task: task.has_evidence)
every_task_with_regimes = _tasks(lambda task: task.regimes)
every_shift_task = _tasks(lambda task: isinstance(task, ShiftTask))
every_task_with_a_shift_length = _tasks(
    lambda task: "shift_length" in signature(type(task)).parameters
)
every_setting = pytest.mark.parametrize("setting", SETTINGS)


@every_task
@every_setting
def test_draws_have_the_stated_shapes_and_types(name, setting):
    task = get_task(name, setting=setting)
    draws = task.draw(9, seed=0)
    assert draws.theta.shape == (9, task.dim_theta)
    assert draws.x_sim.shape == draws.x_obs.shape == (9, task.dim_x)
    assert draws.regime.shape == (9,)
    assert draws.regime.dtype == (torch.int64 if task.regimes else torch.float32)
    assert {values.dtype for values in draws[:3]} == {torch.float32}
    assert len(draws.context) == 9


@every_task_with_reference
def test_reference_has_the_stated_shape_and_type(name):
    task = get_task(name)
    theta = task.reference(task.draw(3, seed=0).x_sim, 7, seed=0)
    assert theta.shape == (7, 3, task.dim_theta)
    assert theta.dtype == torch.float32


@every_task
@every_setting
def test_the_same_seed_gives_the_same_draws_and_another_does_not(name, setting):
    task = get_task(name, setting=setting)
    first, second, other = (task.draw(50, seed=seed) for seed in (3, 3, 4))
    for one, same, different in zip(first[:4], second[:4], other[:4], strict=True):
        assert torch.equal(one, same)
        assert not torch.equal(one, different)
    assert first.context == second.context
    assert first.context != other.context


@pytest.mark.slow
@every_task_with_reference
def test_the_same_seed_gives_the_same_reference_and_another_does_not(name):
    task = get_task(name)
    x = task.draw(2, seed=0).x_sim
    first = task.reference(x, 5, seed=1)
    assert torch.equal(first, task.reference(x, 5, seed=1))
    assert not torch.equal(first, task.reference(x, 5, seed=2))


@every_task
def test_a_seed_leaves_the_global_generator_alone(name):
    task = get_task(name, setting="uninformative")
    before = torch.random.get_rng_state()
    draws = task.draw(8, seed=0)
    task.simulate(draws.theta, seed=0)
    if task.has_reference:
        task.reference(draws.x_sim[:1], 2, seed=0)
    assert torch.equal(torch.random.get_rng_state(), before)


@every_task
def test_without_a_seed_successive_calls_differ(name):
    task = get_task(name)
    theta = task.draw(5, seed=0).theta
    assert not torch.equal(task.simulate(theta), task.simulate(theta))
    assert not torch.equal(task.draw(5).theta, task.draw(5).theta)


@every_task
def test_parameters_and_noise_of_one_seed_are_independent(name):
    task = get_task(name)
    draws = task.draw(4000, seed=0)
    assert torch.equal(task.simulate(draws.theta, seed=0), draws.x_sim)
    # Noise of fixed parameters under the same seed, against the parameters drawn: the
    # same numbers for both would correlate perfectly in some pair of coordinates.
    noise = task.simulate(draws.theta[:1].expand(4000, -1), seed=0)
    # Counts that are too rare to vary have no noise. In double precision: the square of a
    # density far in the tails is no number of single precision.
    noise = noise.double()[:, noise.std(dim=0) > 0]
    joint = torch.cat([draws.theta.double(), noise], dim=1).T
    correlation = torch.corrcoef(joint)[: task.dim_theta, task.dim_theta :]
    assert correlation.abs().max() < 5 / 4000**0.5


@pytest.mark.slow
@every_task
def test_parameters_lie_in_the_support_of_the_prior(name):
    task = get_task(name)
    draws = task.draw(1000, seed=1)
    assert torch.isfinite(task.prior.log_prob(draws.theta)).all()
    if task.has_reference:
        posterior = task.reference(draws.x_obs[:4], 200, regime=draws.regime[:4], seed=1)
        assert torch.isfinite(task.prior.log_prob(posterior)).all()


@every_task_with_regimes
@pytest.mark.parametrize("n", [4, 5, 17, 100])
def test_regimes_are_stratified_and_shuffled(name, n):
    regime = get_task(name).draw(n, seed=0).regime
    counts = Counter(regime.tolist())
    assert set(counts) == {0, 1, 2, 3}
    assert max(counts.values()) - min(counts.values()) <= 1
    if n > 5:
        assert not torch.equal(regime, regime.sort().values)
        assert not torch.equal(regime, regime[:4].repeat(n)[:n])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_fewer_rows_than_regimes_have_distinct_regimes(n):
    assert get_task("slcp").draw(n, seed=0).regime.unique().numel() == n


def test_the_regime_that_is_one_short_varies_with_the_seed():
    task = get_task("gaussian_linear")
    missing = {6 - int(task.draw(3, seed=seed).regime.sum()) for seed in range(40)}
    assert missing == {0, 1, 2, 3}


@every_task
def test_well_specified_data_are_those_of_the_simulator(name):
    draws = get_task(name, setting="well_specified").draw(20, seed=0)
    assert torch.equal(draws.x_obs, draws.x_sim)


@every_shift_task
@pytest.mark.parametrize("setting", ["informative", "uninformative"])
def test_the_departure_is_the_shift_of_the_regime(name, setting):
    task = get_task(name, setting=setting)
    draws = task.draw(50, seed=0)
    shift = task.shift(draws.regime)
    # Adding and taking away rounds twice, to float32's 6e-8 of the larger number.
    atol = 2e-7 * draws.x_obs.abs().max().item()
    torch.testing.assert_close(draws.x_obs - draws.x_sim, shift, rtol=0, atol=atol)


@every_task
def test_settings_differ_in_nothing_but_departure_and_context(name):
    draws = [get_task(name, setting=setting).draw(10, seed=0) for setting in SETTINGS]
    for field in ("theta", "x_sim", "regime"):
        first, *others = (getattr(one, field) for one in draws)
        assert all(torch.equal(first, other) for other in others)


@every_task
@pytest.mark.parametrize("setting", ["informative", "well_specified"])
def test_the_context_is_the_text_of_the_regime(name, setting):
    task = get_task(name, setting=setting)
    draws = task.draw(20, seed=0)
    assert draws.context == [task.contexts(value)[0] for value in draws.regime]
    if task.regimes:
        assert draws.context == [task.regimes[index].text for index in draws.regime]


@every_task_with_regimes
def test_uninformative_context_is_filler_independent_of_the_regime(name):
    task = get_task(name, setting="uninformative")
    draws = task.draw(4000, seed=0)
    pairs = Counter(zip(draws.regime.tolist(), draws.context, strict=True))
    table = [[pairs[k, text] for text in task.uninformative_texts] for k in range(4)]
    assert sum(map(sum, table)) == 4000
    assert chi2_contingency(table).pvalue > 1e-3


@every_task_with_regimes
def test_there_are_four_distinct_texts(name):
    task = get_task(name)
    texts = [regime.text for regime in task.regimes]
    assert len({*texts, *task.uninformative_texts}) == 8


@pytest.mark.parametrize("name", ["gaussian_linear", "slcp", "two_moons"])
def test_random_shifts_have_one_length_and_four_directions(name):
    task = get_task(name)
    shifts = torch.stack([regime.shift for regime in task.regimes])
    assert shifts.shape == (4, task.dim_x)
    torch.testing.assert_close(shifts.norm(dim=1), shifts[0].norm().expand(4))
    assert torch.pdist(shifts).min() > 0.1 * shifts[0].norm()


def test_the_shift_length_is_what_was_asked_for():
    for regime in get_task("slcp", shift_length=2.5).regimes:
        assert regime.shift.norm().item() == pytest.approx(2.5)


@pytest.mark.slow
@every_task_with_reference
def test_without_a_departure_the_regime_changes_no_reference(name):
    task = get_task(name, setting="well_specified")
    draws = task.draw(2, seed=0)
    known = task.reference(draws.x_obs, 5, regime=draws.regime, seed=1)
    assert torch.equal(known, task.reference(draws.x_obs, 5, seed=1))


@every_shift_task
def test_the_reference_in_a_regime_is_that_of_the_data_without_its_shift(name):
    task = get_task(name)
    if not task.has_reference:
        pytest.skip("no exact posterior")
    draws = task.draw(2, seed=0)
    known = task.reference(draws.x_obs, 200, regime=draws.regime, seed=1)
    plain = task.reference(draws.x_obs - task.shift(draws.regime), 200, seed=1)
    # Rounding of x_obs - shift may carry a draw into the next cell of a grid, now
    # and then; with another shift hardly a draw would be the same.
    same = torch.isclose(known, plain, rtol=1e-3, atol=1e-3).all(dim=-1)
    assert same.float().mean() > 0.95


@every_task
def test_an_exact_posterior_has_a_density_and_others_say_that_they_have_none(name):
    task = get_task(name)
    assert task.has_evidence == task.has_reference
    if task.has_evidence:
        return
    draws = task.draw(2, seed=0)
    # A variant has the name of its task.
    with pytest.raises(ValueError, match=f"no density of an exact .* for {task.name}"):
        task.reference_log_prob(draws.theta, draws.x_sim)
    with pytest.raises(ValueError, match=f"evidence of {task.name} is not tractable"):
        task.log_evidence(draws.x_sim)


@every_task_with_evidence
def test_the_exact_density_is_finite_at_the_truth(name):
    task = get_task(name)
    draws = task.draw(4, seed=0)
    log_prob = task.reference_log_prob(draws.theta, draws.x_obs, regime=draws.regime)
    assert log_prob.shape == (4,)
    assert log_prob.dtype == torch.float32
    assert torch.isfinite(log_prob).all()


@every_task_with_evidence
def test_the_exact_density_is_zero_outside_the_support(name):
    task = get_task(name)
    theta = torch.full((1, task.dim_theta), -4.0)
    outside = not task.prior.support.check(theta).item()
    found = task.reference_log_prob(theta, task.draw(1, seed=0).x_sim)
    assert torch.isneginf(found).item() == outside


@pytest.mark.slow
@every_task_with_evidence
def test_one_x_may_hold_for_every_theta(name):
    task = get_task(name)
    theta, x = task.draw(3, seed=0).theta, task.draw(1, seed=1).x_sim
    torch.testing.assert_close(
        task.reference_log_prob(theta, x, regime=0),
        task.reference_log_prob(theta, x.expand(3, -1), regime=0),
    )
    with pytest.raises(ValueError, match="2 for 3 rows of theta"):
        task.reference_log_prob(theta, x.expand(2, -1))


@every_task_with_evidence
def test_without_a_departure_the_regime_changes_no_density(name):
    task = get_task(name, setting="well_specified")
    draws = task.draw(2, seed=0)
    known, plain = (
        task.reference_log_prob(draws.theta, draws.x_obs, regime=regime)
        for regime in (draws.regime, None)
    )
    assert torch.equal(known, plain)


@every_shift_task
def test_the_density_in_a_regime_is_that_of_the_data_without_its_shift(name):
    task = get_task(name)
    if not task.has_evidence:
        pytest.skip("no exact posterior")
    draws = task.draw(3, seed=0)
    x = draws.x_obs.double() - task.shift(draws.regime).double()
    for known, plain in (
        (
            task.reference_log_prob(draws.theta, draws.x_obs, regime=draws.regime),
            task.reference_log_prob(draws.theta, x),
        ),
        (task.log_evidence(draws.x_obs, regime=draws.regime), task.log_evidence(x)),
    ):
        torch.testing.assert_close(known, plain, rtol=1e-5, atol=1e-5)


@every_task
def test_one_regime_may_hold_for_every_row(name):
    task = get_task(name)
    theta = task.draw(3, seed=0).theta
    one, each = (
        task.observe(theta, regime, seed=0) for regime in (1, torch.tensor([1, 1, 1]))
    )
    assert all(map(torch.equal, one, each))


def test_an_unknown_task_is_answered_with_the_names():
    with pytest.raises(ValueError, match=r"gaussian_linear, slcp, .*'lotka'"):
        get_task("lotka")


@every_task
def test_an_unknown_setting_is_answered_with_the_settings(name):
    with pytest.raises(ValueError, match=r"informative, uninformative.*'vague'"):
        get_task(name, setting="vague")


@every_task_with_a_shift_length
@pytest.mark.parametrize("length", [0.0, -1.0, float("nan"), float("inf")])
def test_shift_lengths_must_be_positive_numbers(name, length):
    with pytest.raises(ValueError, match="positive number"):
        get_task(name, shift_length=length)


@every_task
def test_wrong_widths_are_refused(name):
    task = get_task(name)
    with pytest.raises(ValueError, match=f"theta must have {task.dim_theta} columns"):
        task.simulate(torch.zeros(2, task.dim_theta + 1))
    if task.has_reference:
        with pytest.raises(ValueError, match=f"x must have {task.dim_x} columns"):
            task.reference(torch.zeros(2, task.dim_x + 1), 5)
    with pytest.raises(ValueError, match=f"x must have {task.dim_x} columns"):
        task.depart(torch.zeros(2, task.dim_x + 1), 0)


@every_task
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_refused(name, bad):
    task = get_task(name)
    with pytest.raises(ValueError, match="theta must be finite"):
        task.simulate(torch.full((2, task.dim_theta), bad))
    with pytest.raises(ValueError, match="x must be finite"):
        task.depart(torch.full((2, task.dim_x), bad), 0)
    if not task.has_reference:
        return
    with pytest.raises(ValueError, match="x must be finite"):
        task.reference(torch.full((2, task.dim_x), bad), 5)


@every_task_with_reference
def test_an_astronomical_x_is_refused_by_row(name):
    task = get_task(name)
    x = torch.zeros(3, task.dim_x)
    x[1] = 1e12
    with pytest.raises(ValueError, match=r"within 1e\+09 of zero.*rows \[1\]"):
        task.reference(x, 5)


@pytest.mark.parametrize(
    ("regime", "message"),
    [
        ([0, 4], "between 0 and 3"),
        ([-1, 0], "between 0 and 3"),
        ([0, 1, 2], "3 for 2 rows"),
        ([0.0, 1.0], "whole number"),
        ([[0, 1]], "whole number"),
    ],
    ids=str,
)
def test_regimes_that_do_not_exist_are_refused(regime, message):
    task = get_task("two_moons")
    with pytest.raises(ValueError, match=message):
        task.depart(torch.zeros(2, 2), regime)


@pytest.mark.parametrize("count", [0, -3, 1.5])
def test_counts_must_be_positive_integers(count):
    task = get_task("two_moons")
    with pytest.raises(ValueError, match="positive integer"):
        task.draw(count, seed=0)
    with pytest.raises(ValueError, match="positive integer"):
        task.reference(torch.zeros(1, 2), count)


def test_directions_depend_on_nothing_but_dimension_and_seed():
    short, long = shift_regimes(8, 1.0), shift_regimes(8, 2.0)
    for one, other in zip(short, long, strict=True):
        torch.testing.assert_close(2 * one.shift, other.shift)
    assert not torch.equal(short[0].shift, shift_regimes(8, 1.0, seed=1)[0].shift)


@pytest.mark.slow
@every_task_with_reference
@pytest.mark.parametrize("known", ["x_sim", "x_obs and regime"])
def test_the_truth_has_a_uniform_rank_among_reference_draws(name, known):
    # Exactness over the whole prior predictive, extreme x included.
    rows, ranks = 240, 20
    task = get_task(name)
    draws = task.draw(rows, seed=11)
    if known == "x_sim":
        posterior = task.reference(draws.x_sim, ranks - 1, seed=12)
    else:
        posterior = task.reference(draws.x_obs, ranks - 1, regime=draws.regime, seed=12)
    # Magnitudes beside the values: the sign of slcp's scales hides their law.
    for quantity in (torch.Tensor.clone, torch.abs):
        rank = (quantity(posterior) < quantity(draws.theta)).sum(dim=0)
        for column in rank.T:
            count = torch.bincount(column, minlength=ranks).double()
            statistic = ((count - rows / ranks) ** 2 / (rows / ranks)).sum().item()
            # Chi-square with 19 degrees of freedom exceeds 50 with probability 1e-4.
            assert statistic < 50
