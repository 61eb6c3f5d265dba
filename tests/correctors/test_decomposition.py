"""Tests for ma_sbi.correctors.decomposition."""

import pytest
import torch

from ma_sbi import (
    ComposedCorrector,
    CorrectedPosterior,
    HashEncoder,
    ShiftCorrector,
    decompose,
)
from ma_sbi.correctors import Affine, Point, Ridge
from tests.correctors.worlds import TEXTS, shifted_world


@pytest.fixture
def world():
    return shifted_world(40, dim_x=3)


@pytest.fixture
def corrector(world):
    return ShiftCorrector(HashEncoder()).fit(*world[:3])


def test_parts_add_up_to_the_shift(corrector, world):
    parts = decompose(corrector, world.context)
    total = parts.marginal.shift(TEXTS) + parts.conditional.shift(TEXTS)
    torch.testing.assert_close(total, corrector.shift(TEXTS))


def test_the_marginal_is_the_mean_over_the_contexts_given(corrector):
    contexts = [TEXTS[0]] * 3 + [TEXTS[1]]
    parts = decompose(corrector, contexts)
    expected = corrector.shift(contexts).mean(dim=0)
    torch.testing.assert_close(parts.marginal.shift(TEXTS), expected.expand(4, -1))


def test_the_conditional_averages_to_zero(corrector, world):
    parts = decompose(corrector, world.context)
    mean = parts.conditional.shift(world.context).mean(dim=0)
    torch.testing.assert_close(mean, torch.zeros(3), atol=1e-6, rtol=0)


@pytest.mark.parametrize("part", ["marginal", "conditional"])
def test_each_part_works_in_a_corrected_posterior(part, corrector, world, exact_gaussian):
    partial = getattr(decompose(corrector, world.context), part)
    x, context = world.x_obs[:4], world.context[:4]
    corrected = CorrectedPosterior(exact_gaussian, partial)
    draws = corrected.sample(7, x, context, seed=0)
    expected = exact_gaussian.sample(7, x - partial.shift(context), seed=0)
    torch.testing.assert_close(draws, expected)


def test_a_departure_that_depends_on_x_is_refused(world):
    affine = ComposedCorrector(HashEncoder(), Affine(), Ridge(), Point())
    with pytest.raises(ValueError, match="depend on x"):
        decompose(affine.fit(*world[:3]), TEXTS)


def test_a_corrector_without_shift_is_refused():
    with pytest.raises(ValueError, match="needs a corrector that shifts, got object"):
        decompose(object(), TEXTS)
