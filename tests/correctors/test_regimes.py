"""Tests for ma_sbi.correctors.regimes."""

import warnings

import pandas as pd
import pytest
import torch
from sklearn.preprocessing import FunctionTransformer

from ma_sbi import (
    CategoryEncoder,
    ComposedCorrector,
    HashEncoder,
    SentenceEncoder,
    ShiftCorrector,
    fit_corrector,
)
from ma_sbi.correctors import (
    Affine,
    Mixture,
    RegimeCorrector,
    Regimes,
    Ridge,
    Shift,
    UnrelatedContext,
)
from tests.correctors.worlds import shifted_world

PLACES = 5 * torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
SHIFTS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
AS_IT_IS = FunctionTransformer()


def placed(num_rows, num_contexts=18, noise=0.0, seed=0):
    """Contexts are points around the place of their regime.

    Returns:
        Contexts, observations, simulations and regimes.
    """
    rng = torch.Generator().manual_seed(seed)
    row = torch.arange(num_rows)
    points = PLACES[torch.arange(num_contexts) % 3]
    points = points + 0.5 * torch.randn(num_contexts, 3, generator=rng)
    code = row % num_contexts
    regime = code % 3
    x_sim = torch.randn(num_rows, 2, generator=rng)
    x_obs = x_sim + SHIFTS[regime] + noise * torch.randn(num_rows, 2, generator=rng)
    return points[code], x_obs, x_sim, regime


@pytest.fixture
def fitted():
    context, x_obs, x_sim, _ = placed(90)
    return RegimeCorrector(AS_IT_IS).fit(context, x_obs, x_sim, seed=0)


def new_places(num=30, seed=1):
    rng = torch.Generator().manual_seed(seed)
    regime = torch.arange(num) % 3
    return PLACES[regime] + 0.5 * torch.randn(num, 3, generator=rng), regime


def test_a_context_that_was_seen_has_what_was_seen_under_it(fitted):
    context, x_obs, x_sim, _ = placed(90)
    found = fitted.corrections(x_obs, context)
    torch.testing.assert_close(found.log_weight.exp().max(dim=0).values, torch.ones(90))
    corrected = fitted.correct(x_obs, context)
    torch.testing.assert_close(corrected, x_sim, atol=1e-5, rtol=0)


def test_a_new_context_has_the_departures_of_its_regime(fitted):
    context, regime = new_places(num=60)
    probability, unlike = fitted.regime_probability(context)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnrelatedContext)
        error = (fitted.shift(context) - SHIFTS[regime]).norm(dim=1)
    # Places are 14 standard deviations apart: whatever is read, is read right.
    assert error[~unlike].max() < 0.01
    assert probability[~unlike].amax(dim=1).min() > 0.99
    # In three dimensions one context in twenty lies beyond the limit, if it is exact.
    assert unlike.sum() <= 12


def test_a_decision_leaves_the_most_probable_regime():
    context, x_obs, x_sim, _ = placed(90)
    between = 0.6 * PLACES[:1] + 0.4 * PLACES[1:2]
    far = torch.full((1, 3), -40.0)
    found = {}
    for decide in (False, True):
        corrector = RegimeCorrector(AS_IT_IS, decide=decide).fit(context, x_obs, x_sim)
        found[decide], _ = corrector.regime_probability(torch.cat([between, far]))
        order = torch.cdist(corrector.regime_shifts_.float(), SHIFTS).argmin(dim=1)
    assert found[False][0].max() < 1
    assert order[found[True][0] == 1].tolist() == [0]
    torch.testing.assert_close(found[True][1], torch.full((3,), 1 / 3).double())


def test_there_is_no_decision_where_contexts_tell_nothing():
    world = shifted_world(40, dim_x=3)
    corrector = RegimeCorrector(HashEncoder(), decide=True).fit(*world[:3])
    with pytest.warns(UnrelatedContext, match="or contexts tell nothing of others"):
        (shift,) = corrector.shift(["a new text"])
    torch.testing.assert_close(shift, world.shifts.mean(dim=0), atol=1e-5, rtol=0)


def test_weights_sum_to_one_and_do_not_depend_on_company(fitted):
    context, _ = new_places()
    x = torch.zeros(30, 2)
    whole = fitted.corrections(x, context)
    torch.testing.assert_close(whole.log_weight.exp().sum(dim=0), torch.ones(30))
    alone = fitted.corrections(x[:1], context[:1])
    torch.testing.assert_close(alone.log_weight.exp(), whole.log_weight[:, :1].exp())


def test_the_discovered_shifts_are_the_true_ones(fitted):
    found = fitted.regime_shifts_.float()
    apart = torch.cdist(found, SHIFTS)
    assert found.shape == (3, 2)
    assert apart.amin(dim=1).max() < 1e-5
    assert len(apart.argmin(dim=1).unique()) == 3


def test_more_rows_do_not_change_how_new_contexts_are_read():
    context, regime = new_places()
    errors = []
    for num_rows in (90, 900):
        seen, x_obs, x_sim, _ = placed(num_rows)
        corrector = RegimeCorrector(AS_IT_IS).fit(seen, x_obs, x_sim)
        errors.append((corrector.shift(context) - SHIFTS[regime]).norm(dim=1))
    torch.testing.assert_close(*errors, atol=1e-5, rtol=0)


def test_a_wording_that_is_sometimes_wrong_keeps_its_shares():
    regime = torch.tensor([0, 0, 0, 1] * 10)
    x_sim = torch.zeros(40, 2)
    notes = ["often"] * 40
    notes[3::8] = ["rare"] * 5
    corrector = RegimeCorrector(CategoryEncoder()).fit(notes, SHIFTS[regime], x_sim)
    shift = corrector.shift(["often", "rare"])
    expected = torch.stack([(30 * SHIFTS[0] + 5 * SHIFTS[1]) / 35, SHIFTS[1]])
    torch.testing.assert_close(shift, expected, atol=1e-6, rtol=0)


def test_contexts_that_are_encoded_alike_share_their_rows():
    first_letter = FunctionTransformer(lambda notes: [[ord(note[0])] for note in notes])
    regime = torch.tensor([0] + [1] * 9 + [2] * 10)
    notes = ["high"] + ["higher"] * 9 + ["low"] * 10
    corrector = RegimeCorrector(first_letter).fit(notes, SHIFTS[regime], torch.zeros(20, 2))
    expected = (0.1 * SHIFTS[0] + 0.9 * SHIFTS[1]).expand(3, 2)
    found = corrector.shift(["high", "higher", "height"])
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def test_contexts_may_be_far_from_the_origin():
    seconds = torch.linspace(0, 100, 60, dtype=torch.float64)[:, None]
    regime = torch.arange(60) // 30
    x_sim = torch.zeros(60, 2)
    near = RegimeCorrector(AS_IT_IS).fit(seconds, SHIFTS[regime], x_sim)
    far = RegimeCorrector(AS_IT_IS).fit(1.7e9 + seconds, SHIFTS[regime], x_sim)
    torch.testing.assert_close(far.shift(1.7e9 + seconds), SHIFTS[regime])
    new = seconds[:-1] + 0.5
    expected = near.shift(new)
    torch.testing.assert_close(far.shift(1.7e9 + new), expected, atol=1e-4, rtol=0)


def test_an_unrelated_context_has_every_regime_with_a_warning(fitted):
    far = torch.full((1, 3), -40.0)
    near, _ = new_places(num=3)
    with pytest.warns(UnrelatedContext, match="1 of them are far"):
        shift = fitted.shift(torch.cat([near, far]))
    torch.testing.assert_close(shift[3], SHIFTS.mean(dim=0), atol=1e-5, rtol=0)
    probability, unlike = fitted.regime_probability(torch.cat([near, far]))
    assert unlike.tolist() == [False, False, False, True]
    torch.testing.assert_close(probability[3], torch.full((3,), 1 / 3).double())


def test_a_missing_context_has_every_regime_and_no_warning():
    world = shifted_world(40, dim_x=3)
    corrector = RegimeCorrector(HashEncoder()).fit(*world[:3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shift = corrector.shift([None])
    torch.testing.assert_close(shift[0], world.shifts.mean(dim=0), atol=1e-5, rtol=0)


def test_missing_contexts_that_were_seen_keep_their_regime():
    world = shifted_world(40, dim_x=3)
    context = pd.Series(world.context).where(pd.Series(world.regime) != 2, None)
    corrector = RegimeCorrector(HashEncoder()).fit(context, world.x_obs, world.x_sim)
    torch.testing.assert_close(
        corrector.shift([None])[0], world.shifts[2], atol=1e-5, rtol=0
    )


def test_contexts_that_are_all_missing_leave_the_shares():
    regime = torch.tensor([0, 0, 0, 1] * 5)
    corrector = RegimeCorrector(HashEncoder())
    corrector.fit([None] * 20, SHIFTS[regime], torch.zeros(20, 2))
    expected = (0.75 * SHIFTS[0] + 0.25 * SHIFTS[1]).expand(2, 2)
    torch.testing.assert_close(corrector.shift([None, "new"]), expected, atol=1e-6, rtol=0)


def test_a_missing_number_is_not_taken_for_zero():
    numbers = [0.0, 1.0] * 10
    regime = torch.arange(20) % 2
    corrector = RegimeCorrector(AS_IT_IS)
    corrector.fit(pd.DataFrame({"z": numbers}), SHIFTS[regime], torch.zeros(20, 2))
    found = corrector.shift(pd.DataFrame({"z": [0.0, 1.0, None]}))
    expected = torch.cat([SHIFTS[:2], SHIFTS[:2].mean(dim=0, keepdim=True)])
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def test_fixed_sentences_lose_nothing():
    world = shifted_world(40)
    regimes = RegimeCorrector(HashEncoder()).fit(*world[:3])
    point = ShiftCorrector(HashEncoder()).fit(*world[:3])
    expected = point.correct(world.x_obs, world.context)
    found = regimes.correct(world.x_obs, world.context)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_one_regime_is_said():
    x_sim = torch.zeros(20, 2)
    with pytest.warns(UserWarning, match="one regime, so the context has no effect"):
        corrector = RegimeCorrector(HashEncoder()).fit(["a", "b"] * 10, x_sim + 1, x_sim)
    torch.testing.assert_close(corrector.shift(["a", "c"]), torch.ones(2, 2))


def test_candidates_of_a_regime_have_its_mean_and_spread():
    context, x_obs, x_sim, regime = placed(900, noise=0.1)
    corrector = RegimeCorrector(AS_IT_IS, num_draws=60).fit(context, x_obs, x_sim, seed=0)
    found = corrector.regime_shifts_.float()
    rows = [(x_obs - x_sim)[regime == one] for one in range(3)]
    means = torch.stack([one.mean(dim=0) for one in rows])
    assert torch.cdist(found, means).amin(dim=1).max() < 1e-4
    spread = corrector.fitted_.departures.std(dim=0)
    # Of 20 draws: a standard error of 1 / sqrt(38); the mean of six.
    assert abs(spread.mean() / 0.1 - 1) < 4 / (38 * 6) ** 0.5


def test_noise_that_is_no_departure_leaves_the_means():
    context, x_obs, x_sim, _ = placed(900, noise=0.1)
    fitting = Regimes(noise=torch.tensor([0.01, 0.01]))
    corrector = ComposedCorrector(AS_IT_IS, Shift(), fitting, Mixture())
    corrector.fit(context, x_obs, x_sim, seed=0)
    spread = corrector.fitted_.departures.std(dim=0)
    # What is left is the error of a mean of 300, and of the variance.
    assert spread.max() < 0.1 * (4 * (2 / 300) ** 0.5) ** 0.5


def test_the_choice_reads_new_contexts_by_regime():
    context, x_obs, x_sim, _ = placed(90)
    chosen = fit_corrector(context, x_obs, x_sim, encoder=AS_IT_IS, seed=0)
    share = {one.name: one.weight_unseen for one in chosen.why.tried}
    assert share["shift by regime"] > 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = chosen.correct(torch.zeros(1, 2), torch.full((1, 3), -40.0))
    # An unrelated context: between no departure and the average one.
    assert found.norm() <= SHIFTS.mean(dim=0).norm() + 1e-5


@pytest.mark.text
def test_other_words_are_understood_and_unrelated_ones_noticed():
    notes = {
        0: [
            "The baseline is too high.",
            "An offset was seen on the detector.",
            "The zero level has drifted upwards.",
            "There is a constant background on the signal.",
            "Zero offset of the detector signal.",
        ],
        1: [
            "The lamp is weak.",
            "Little light comes from the source.",
            "The bulb is old and dim.",
            "The light of the lamp is faint.",
            "An old lamp with little light.",
        ],
    }
    context = [text for texts in notes.values() for text in texts] * 5
    regime = torch.tensor([one for one, texts in notes.items() for _ in texts] * 5)
    x_sim = torch.zeros(50, 2)
    new = ["Readings sit on a pedestal, too high at zero.", "We measured in dim lamplight."]
    fits = {
        "regimes": RegimeCorrector(SentenceEncoder()),
        "ridge": ShiftCorrector(SentenceEncoder(), Ridge(rounding=1e-8)),
    }
    error = {}
    for name, corrector in fits.items():
        corrector.fit(context, SHIFTS[regime], x_sim)
        error[name] = (corrector.shift(new) - SHIFTS[:2]).norm(dim=1).max().item()
    assert error["regimes"] < 0.1 < 0.2 < error["ridge"]
    regimes = fits["regimes"]
    unrelated = ["The group meeting moves to Thursday.", "设备的基线太高了。"]
    assert regimes.regime_probability(unrelated)[1].all()


def test_too_few_candidates_are_refused():
    with pytest.raises(ValueError, match="num_draws must be at least most_regimes"):
        RegimeCorrector(HashEncoder(), num_draws=5).axes()


def test_departures_that_depend_on_x_are_refused():
    corrector = ComposedCorrector(HashEncoder(), Affine(), Regimes(), Mixture())
    with pytest.raises(ValueError, match="Regimes finds shifts only"):
        corrector.fit(*shifted_world(40)[:3])
