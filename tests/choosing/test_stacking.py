"""Tests for ma_sbi.choosing.stacking."""

import math

import pytest
import torch

from ma_sbi.choosing.stacking import drop_idle, log_score, stack


def scores(num, rows=60, draws=3, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(num, rows, draws, generator=rng, dtype=torch.float64)


def objective(each, weight):
    """The score of all rows, and of one more that all components predict alike."""
    alike = weight.log().mean()
    return log_score(each, weight).sum() + alike


def test_two_components_are_weighted_as_on_a_grid():
    each = scores(2)
    grid = torch.linspace(0.001, 0.999, 999, dtype=torch.float64)
    values = [objective(each, torch.stack([w, 1 - w])) for w in grid]
    best = grid[torch.stack(values).argmax()]
    assert stack(each)[0].item() == pytest.approx(best.item(), abs=2e-3)


def test_no_step_away_from_the_weights_scores_better():
    each = scores(4)
    weight = stack(each, max_steps=5000)
    best = objective(each, weight)
    for one in range(4):
        for other in range(4):
            step = torch.zeros(4, dtype=torch.float64)
            step[one] += 0.01
            step[other] -= 0.01
            if (weight + step > 0).all():
                assert objective(each, weight + step) <= best + 1e-5


@pytest.mark.parametrize("rows", [1, 9, 99])
def test_a_component_that_rows_rule_out_keeps_its_part_of_one_more_row(rows):
    each = torch.zeros(2, rows, 1)
    each[1] = -1000.0
    weight = stack(each, max_steps=20_000)
    assert weight[1].item() == pytest.approx(0.5 / (rows + 1), rel=1e-2)
    assert weight.sum().item() == pytest.approx(1.0)


def test_equal_components_have_equal_weights():
    each = scores(1).expand(3, -1, -1)
    torch.testing.assert_close(stack(each), torch.full((3,), 1 / 3, dtype=torch.float64))


def test_draws_are_averaged_and_rows_summed():
    # Twice the draws are the same evidence, twice the rows are more.
    each = scores(2, rows=10, draws=1)
    each[0] += 1.0
    torch.testing.assert_close(stack(each), stack(each.expand(-1, -1, 5)))
    assert stack(each.repeat(1, 50, 1)).min() < stack(each).min()


def test_the_score_of_a_mixture():
    each = torch.tensor([[[0.0, 1.0]], [[-1.0, 2.0]]])
    expected = [
        math.log(0.25 * math.exp(first) + 0.75 * math.exp(second))
        for first, second in ((0.0, -1.0), (1.0, 2.0))
    ]
    found = log_score(each, torch.tensor([0.25, 0.75]))
    assert found.tolist() == pytest.approx([sum(expected) / 2])


def test_a_copy_is_dropped_and_the_simpler_one_kept():
    good = scores(1)
    weight = drop_idle(torch.cat([good, good, good - 5.0]), 1.0)
    assert weight.tolist() == [1.0, 0.0, 0.0]


def test_a_copy_adds_nothing_beside_bad_ones():
    good = scores(1)
    weight = drop_idle(torch.cat([good - 9.0, good - 8.0, good, good]), 1e-3)
    assert weight.tolist() == [0.0, 0.0, 1.0, 0.0]


def test_components_that_explain_different_rows_are_kept():
    each = torch.zeros(3, 60, 1)
    each[0, 30:] = each[1, :30] = -3.0
    each[2] = -2.0
    weight = drop_idle(each, 1.0)
    # Each explains half of the rows.
    torch.testing.assert_close(
        weight, torch.tensor([0.5, 0.5, 0.0]).double(), atol=1e-3, rtol=0
    )


def test_a_component_must_add_clearly():
    # One row that alone would pay for a second component is chance.
    each = torch.zeros(2, 60, 1)
    each[1] = -0.5
    each[1, 0] = 8.0
    assert drop_idle(each, 1.0).tolist() == [1.0, 0.0]
    each[1, :10] = 8.0
    assert drop_idle(each, 1.0)[1] > 0.05


def test_one_component_has_all_the_weight():
    assert drop_idle(scores(1), 1.0).tolist() == [1.0]
