"""Draws of a known law, and the contours that should hold them."""

import numpy as np
import pytest
import torch
from matplotlib.path import Path

from ma_sbi.plots import plot_before_after, plot_corner
from tests.plots.worlds import world


def normal(num, dim, seed=0):
    return torch.randn(num, dim, generator=torch.Generator().manual_seed(seed))


def test_the_diagonal_has_histograms_and_below_it_are_the_pairs():
    axes = plot_corner({"one": normal(200, 3)}, names=["a", "b", "c"])
    assert axes.shape == (3, 3)
    assert all(axes[pair] is None for pair in zip(*np.triu_indices(3, 1), strict=True))
    assert [axes[2, column].get_xlabel() for column in range(3)] == ["a", "b", "c"]
    assert [axes[row, 0].get_ylabel() for row in (1, 2)] == ["b", "c"]


def test_a_histogram_is_the_density_of_its_draws():
    draws = normal(500, 2)
    axes = plot_corner({"one": draws})
    (drawn,) = axes[1, 1].patches
    corners = drawn.get_xy()
    edges = np.unique(corners[:, 0])
    expected, _ = np.histogram(draws[:, 1], edges, density=True)
    assert corners[:, 1].max() == pytest.approx(expected.max())


def test_contours_hold_half_and_nine_tenths_of_the_draws():
    draws = normal(20_000, 2) * torch.tensor([1.0, 5.0]) + torch.tensor([3.0, -40.0])
    (contours,) = plot_corner({"one": draws})[1, 0].collections
    outer, inner = (Path(path.vertices) for path in contours.get_paths())
    # Smoothing over 1.5 of 40 cells widens a normal law by 3 %, its contours by less than
    # two points of their mass; a standard error of a share is below 0.4 points.
    for path, mass in ((outer, 0.9), (inner, 0.5)):
        share = path.contains_points(draws.numpy()).mean()
        assert share == pytest.approx(mass, abs=0.03)


def test_the_posterior_is_drawn_before_and_after():
    data = world(dim=1)
    axes = plot_before_after(
        data.corrected, [[3.0]], "warm", theta=[2.0], num_samples=4000, names=["level"]
    )
    before, after = axes[0, 0].patches

    def mean(patch):
        left, height = patch.get_xy()[:-1:2, 0], patch.get_xy()[1::2, 1]
        middle = (left[1:] + left[:-1]) / 2
        weight = height[: len(middle)]
        return (middle * weight).sum() / weight.sum()

    # Draws are normal with a deviation of 0.5, after in a mixture whose shift is 3/4.
    assert mean(before) == pytest.approx(3.0, abs=0.1)
    assert mean(after) == pytest.approx(2.25, abs=0.1)
    assert axes[0, 0].lines[0].get_xdata() == [2.0, 2.0]
    texts = [text.get_text() for text in axes[0, 0].figure.legends[0].get_texts()]
    assert texts == ["before", "after", "true"]


def test_a_parameter_that_never_varies_is_drawn():
    draws = normal(100, 2)
    draws[:, 1] = 7.0
    axes = plot_corner({"one": draws})
    axes[0, 0].figure.draw_without_rendering()
    low, high = axes[1, 1].get_xlim()
    assert low < 7.0 < high


@pytest.mark.parametrize(
    ("draws", "options", "message"),
    [
        ({"one": torch.zeros(9, 2, 3)}, {}, "of 2 observations: pass those of one"),
        ({"a": torch.zeros(9, 2), "b": torch.zeros(9, 3)}, {}, "got a 2, b 3"),
        ({}, {}, "one to 4 sets, got 0"),
        ({"one": torch.zeros(9, 2)}, {"theta": [1.0]}, "theta must have 2 numbers, got 1"),
        ({"one": torch.full((9, 2), torch.nan)}, {}, "the draws of 'one' must be finite"),
        ({"one": torch.zeros(1, 2)}, {}, "must be at least two"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draws, options, message):
    with pytest.raises(ValueError, match=message):
        plot_corner(draws, **options)


def test_several_observations_and_other_posteriors_are_refused():
    data = world()
    with pytest.raises(ValueError, match=r"one observation, got 60: pass x\[:1\]"):
        plot_before_after(data.corrected, data.x_obs, data.context)
    with pytest.raises(ValueError, match="must be a CorrectedPosterior, got a Believing"):
        plot_before_after(data.corrector, data.x_obs[:1], "warm")
