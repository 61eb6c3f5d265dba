"""SLCP whose departure grows with a number."""

import pytest
import torch

from ma_sbi_bench.tasks import get_task


@pytest.fixture
def task():
    return get_task("slcp_continuous")


def test_the_shift_is_proportional_to_the_intensity_and_of_the_papers_length(task):
    shift = task.shift(torch.tensor([0.0, 0.5, 1.0]))
    assert shift.norm(dim=1).tolist() == pytest.approx([0.0, 1.5, 3.0], rel=1e-5)
    torch.testing.assert_close(2 * shift[1], shift[2])


def test_the_text_mentions_the_intensity_to_two_digits(task):
    text = "The regime intensity is approximately 0.67."
    assert task.contexts(torch.tensor([0.6666])) == [text]


def test_intensities_fill_the_unit_interval(task):
    regime = task.draw(4000, seed=0).regime
    assert regime.min() >= 0
    assert regime.max() <= 1
    assert regime.mean().item() == pytest.approx(0.5, abs=4 * (1 / 12 / 4000) ** 0.5)


@pytest.mark.parametrize("regime", [[-0.1, 0.5], [0.5, 1.01], [[0.1, 0.2]], [float("nan")]])
def test_intensities_outside_the_unit_interval_are_refused(task, regime):
    with pytest.raises(ValueError, match="intensity between 0 and 1"):
        task.contexts(regime)
