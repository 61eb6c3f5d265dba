"""Cost is bounded: many rows are worked through in blocks, and answered as if in one."""

import warnings

import numpy as np
import pytest
import torch
from torch.distributions import Independent, Normal

from ma_sbi import (
    BootstrapCorrector,
    CategoryEncoder,
    CorrectedPosterior,
    HashEncoder,
    from_callable,
)
from ma_sbi.checking.inputs import MOST_CONTEXTS, prepare
from ma_sbi.choosing.outliers import find_outliers
from ma_sbi.choosing.targets import SimulatedData
from ma_sbi.correctors import BaseCorrector, ComposedCorrector, Shift
from ma_sbi.correctors.discovery import discover
from ma_sbi.correctors.inference import Mixture
from ma_sbi.correctors.likelihood import BoundedDensity
from ma_sbi.correctors.regimes import Regimes
from ma_sbi.correctors.unseen import UnseenContext
from ma_sbi.mixture import ROWS_AT_ONCE, log_prob_mixture, sample_mixture
from ma_sbi.posteriors.training_range import OutsideTrainingRange
from ma_sbi.protocols import Corrections
from tests.largest import watch_tensors

NUM_ROWS = 2 * ROWS_AT_ONCE + 1


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def posterior(x_train=None):
    return from_callable(
        lambda num, x: Independent(Normal(x, 0.1), 1).sample((num,)),
        lambda theta, x: Independent(Normal(x, 0.1), 1).log_prob(theta),
        batched=True,
        x_train=x_train,
    )


class TwoShifts(BaseCorrector):
    """Two candidates, and a record of how many rows were corrected at once."""

    def __init__(self):
        self.sizes = []

    def corrections(self, x, context):
        self.sizes.append(len(x))
        log_weight = torch.tensor([0.25, 0.75]).log()[:, None].expand(2, len(x))
        shifts = torch.tensor([[[1.0]], [[-1.0]]])
        return Corrections(x + shifts, log_weight, torch.zeros(2, len(x)))


def x_of(num_rows, dim_x=2):
    return torch.randn(num_rows, dim_x, generator=generator())


def test_many_rows_are_corrected_in_blocks_and_few_at_once():
    corrector = TwoShifts()
    corrected = CorrectedPosterior(posterior(), corrector)
    assert corrected.sample(2, x_of(NUM_ROWS), "any", seed=0).shape == (2, NUM_ROWS, 2)
    assert corrector.sizes == [ROWS_AT_ONCE, ROWS_AT_ONCE, 1]
    corrector.sizes.clear()
    corrected.sample(2, x_of(ROWS_AT_ONCE), "any", seed=0)
    assert corrector.sizes == [ROWS_AT_ONCE]


def test_wide_rows_are_corrected_fewer_at_a_time():
    corrector = TwoShifts()
    corrected = CorrectedPosterior(posterior(), corrector)
    corrected.log_prob(torch.zeros(1, 300, 2000), x_of(300, 2000), "any")
    assert max(corrector.sizes) * 2000 <= 2**18
    assert sum(corrector.sizes) == 300


def test_draws_of_a_table_that_is_one_block_are_those_of_its_candidates():
    corrected = CorrectedPosterior(posterior(), TwoShifts())
    x = x_of(50)
    expected = sample_mixture(posterior(), 7, TwoShifts().corrections(x, None), seed=3)
    assert torch.equal(corrected.sample(7, x, "any", seed=3), expected)


def test_densities_in_blocks_are_those_of_all_rows_at_once():
    corrected = CorrectedPosterior(posterior(), TwoShifts())
    x = x_of(NUM_ROWS)
    theta = x + 1 + 0.1 * x_of(NUM_ROWS).flip(0)
    whole = log_prob_mixture(posterior(), theta[None], TwoShifts().corrections(x, None))
    torch.testing.assert_close(corrected.log_prob(theta[None], x, "any"), whole)
    one = torch.ones(3, 1, 2)
    whole = log_prob_mixture(posterior(), one, TwoShifts().corrections(x, None))
    torch.testing.assert_close(corrected.log_prob(one, x, "any"), whole)


def test_blocks_have_draws_of_their_own():
    corrected = CorrectedPosterior(posterior(), TwoShifts())
    draws = corrected.sample(1, torch.zeros(2 * ROWS_AT_ONCE, 2), "any", seed=0)[0]
    assert not torch.equal(draws[:ROWS_AT_ONCE], draws[ROWS_AT_ONCE:])
    again = corrected.sample(1, torch.zeros(2 * ROWS_AT_ONCE, 2), "any", seed=0)[0]
    assert torch.equal(draws, again)


def test_a_batch_of_theta_that_does_not_match_is_refused():
    corrected = CorrectedPosterior(posterior(), TwoShifts())
    with pytest.raises(ValueError, match=f"batch of {NUM_ROWS}, as x has, got 5"):
        corrected.log_prob(torch.zeros(1, 5, 2), x_of(NUM_ROWS), "any")


def test_what_is_said_of_rows_in_blocks_is_said_once_of_all():
    x = x_of(NUM_ROWS)
    x[::2] += 1000
    notes = np.where(np.arange(NUM_ROWS) % 2, "seen", "never seen")
    corrector = BootstrapCorrector(CategoryEncoder(unseen="zero"))
    corrector.fit(["seen", "other"] * 20, x_of(40), x_of(40))
    corrected = CorrectedPosterior(posterior(x_train=x_of(100)), corrector)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        corrected.sample(1, x, notes, seed=0)
    told = {one.category: one for one in caught}
    assert len(caught) == len(told)
    unseen = next(one for kind, one in told.items() if issubclass(kind, UnseenContext))
    half = ROWS_AT_ONCE + 1
    assert str(unseen.message).startswith(f"{half} of {NUM_ROWS} rows have a context")
    outside = told[OutsideTrainingRange]
    assert str(outside.message).startswith(f"{half} of {NUM_ROWS} observations (first: row")
    assert unseen.filename == outside.filename == __file__


def test_a_thousand_candidates_of_many_rows_are_never_held_together():
    x = x_of(NUM_ROWS, 1)
    notes = ["one", "two"] * (NUM_ROWS // 2) + ["one"]
    corrector = BootstrapCorrector(CategoryEncoder(), num_draws=200)
    corrector.fit(notes[:1000], x[:1000], x_of(1000, 1).flip(0), seed=0)
    corrected = CorrectedPosterior(posterior(), corrector)
    with watch_tensors() as watch:
        corrected.sample(1, x, notes, seed=0)
    assert watch.largest <= 200 * ROWS_AT_ONCE < 200 * NUM_ROWS


def test_regimes_are_sought_without_a_square_of_departures():
    num = 3000
    delta = torch.randn(num, 1, generator=generator(), dtype=torch.float64)
    delta[: num // 10] = 5.0  # one that repeats
    with watch_tensors() as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        share = discover(delta, torch.arange(num) % 7, torch.tensor([1e-9]), 3)
    assert watch.largest < num**2 / 10
    torch.testing.assert_close(share.sum(dim=1), torch.ones(num).double())
    assert (share[: num // 10, 0] == 1).all()
    assert (share[num // 10 :, 0] == 0).all()


def test_many_contexts_are_not_compared_with_all_others_at_once():
    num = 3000
    labels = [f"label {row}" for row in range(num)]
    corrector = ComposedCorrector(HashEncoder(dim=8), Shift(), Regimes(), Mixture())
    x_sim = x_of(num, 1)
    x_obs = x_sim + (torch.arange(num) % 2).float()[:, None]
    corrector.fit(labels[:2500], x_obs[:2500], x_sim[:2500])
    with watch_tensors() as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        corrector.corrections(x_obs[:2500], labels[:2500])
    assert watch.largest < 2500**2


def contexts(kind, num_rows, num_contexts):
    number = np.arange(num_rows) % num_contexts
    if kind == "numbers":
        return number.astype(float)
    return [f"line {one}" for one in number]


@pytest.mark.parametrize(
    ("kind", "num_contexts", "most"),
    [
        ("regimes", 1200, MOST_CONTEXTS["regimes"]),
        ("text", 6000, MOST_CONTEXTS["text"]),
        ("numbers", 6000, MOST_CONTEXTS["numbers"]),
    ],
)
def test_a_check_reads_so_many_contexts_whatever_their_kind(kind, num_contexts, most):
    x = x_of(6000)
    context = contexts(kind, 6000, num_contexts)
    encoder = None if kind == "numbers" else HashEncoder(dim=4)
    subject = _prepared(x, context, encoder)
    assert len(set(subject.entries)) == most
    # All rows of a context are kept.
    assert len(subject.x_obs) == most * (6000 // num_contexts)
    assert f"Of 6000 rows with {num_contexts} different contexts" in subject.notes[0]
    assert subject.x_obs.shape == _prepared(x, context, encoder).x_obs.shape


@pytest.mark.parametrize(
    ("kind", "num_contexts"), [("regimes", 300), ("text", 1000), ("numbers", 2000)]
)
def test_a_check_reads_ordinary_tables_whole(kind, num_contexts):
    encoder = None if kind == "numbers" else HashEncoder(dim=4)
    subject = _prepared(x_of(2000), contexts(kind, 2000, num_contexts), encoder)
    assert len(subject.x_obs) == 2000
    assert not any("chosen at random" in note for note in subject.notes)


def _prepared(x, context, encoder):
    return prepare(x, context, encoder=encoder, seed=0)


def test_departures_that_are_far_are_compared_in_blocks():
    num = 4000
    x_sim = x_of(num).double()
    x_obs = x_sim.clone()
    x_obs[:200, 0] += 1e4 * torch.arange(1, 201)
    with watch_tensors() as watch, pytest.MonkeyPatch.context() as patch:
        patch.setattr("ma_sbi.choosing.outliers.DISTANCES_AT_ONCE", 1000)
        found = find_outliers(x_obs, x_sim)
    assert watch.largest < 200**2
    assert torch.equal(found, torch.arange(num) < 200)
    assert torch.equal(found, find_outliers(x_obs, x_sim))


def test_candidates_are_scored_in_blocks_as_all_at_once(monkeypatch):
    target = SimulatedData(x_of(30).double(), torch.full((2,), 0.1).double())
    rows, candidates = torch.arange(20), torch.randn(50, 20, 2, generator=generator())
    whole = target.score(rows, candidates.double())
    monkeypatch.setattr("ma_sbi.choosing.targets.ENTRIES_AT_ONCE", 7 * 20 * 2)
    with watch_tensors() as watch:
        assert torch.equal(target.score(rows, candidates.double()), whole)
    assert watch.largest <= max(whole.numel(), candidates.numel())


def test_a_density_is_asked_for_so_many_points_at_once(monkeypatch):
    sizes = []

    def density(x):
        sizes.append(len(x))
        return -x.square().sum(dim=1)

    bounded = BoundedDensity.around(density, x_of(100))
    whole = bounded.log_prob(x_of(95))
    sizes.clear()
    monkeypatch.setattr("ma_sbi.correctors.likelihood.MAX_ROWS", 40)
    assert torch.equal(bounded.log_prob(x_of(95)), whole)
    assert sizes == [40, 40, 15]
