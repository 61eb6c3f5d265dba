"""Candidates have the heights of their weights, proposals the places of their scores."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from ma_sbi import fit_corrector
from ma_sbi.plots import plot_candidates, plot_tried
from ma_sbi.protocols import Corrections
from tests.plots.worlds import WHY, world


class Given:
    """Returns the candidates that it was given, shape ``(K, dim_x)``."""

    def __init__(self, x, weight):
        self.x, self.weight = torch.tensor(x), torch.tensor(weight)

    def corrections(self, x, context):
        log_weight = self.weight.log()[:, None]
        return Corrections(self.x[:, None], log_weight, torch.zeros_like(log_weight))


def points(ax):
    return next(line for line in ax.lines if str(line.get_label()).startswith("candidates"))


def test_a_candidate_stands_at_its_value_and_is_as_high_as_its_weight():
    data = world()
    ax = plot_candidates(data.corrector, [[4.0, 6.0]], "warm", column=1)
    assert points(ax).get_xdata() == pytest.approx([5.0, 6.0])
    assert points(ax).get_ydata() == pytest.approx([0.75, 0.25])
    observed = next(line for line in ax.lines if line.get_label() == "observed")
    assert observed.get_xdata() == [6.0, 6.0]
    assert ax.get_title() == "warm"


def test_candidates_that_are_near_are_one_and_no_weight_is_lost():
    rng = np.random.default_rng(0)
    values = np.sort(rng.normal(size=5000)).astype(np.float32)
    weight = rng.dirichlet(np.ones(5000)).astype(np.float32)
    ax = plot_candidates(Given(values[:, None], weight), [0.0], None)
    assert points(ax).get_label() == "candidates (5,000)"
    assert len(points(ax).get_xdata()) <= 101
    heights = points(ax).get_ydata()
    assert heights.sum() == pytest.approx(1.0, abs=1e-4)
    mean = (points(ax).get_xdata() * heights).sum()
    assert mean == pytest.approx((values * weight).sum(), abs=1e-4)


def test_one_certain_candidate_is_drawn():
    ax = plot_candidates(Given([[2.0, 3.0]], [1.0]), [1.0, 3.0], "warm")
    assert ax.get_xlabel() == "x[0]"
    assert points(ax).get_xdata().tolist() == [2.0]
    assert points(ax).get_ydata().tolist() == [1.0]


def test_the_column_that_changes_most_is_shown():
    given = Given([[0.0, 5.0, 100.0], [0.1, 9.0, 100.1]], [0.5, 0.5])
    ax = plot_candidates(given, [0.0, 5.0, 100.0], None, names=["a", "b", "c"])
    assert ax.get_xlabel() == "b"


def test_candidates_of_several_observations_are_refused():
    data = world()
    with pytest.raises(ValueError, match=r"one observation, got 60: pass x\[:1\]"):
        plot_candidates(data.corrector, data.x_obs, data.context)


def test_proposals_stand_at_their_scores_with_two_standard_errors_and_their_weights():
    ax = plot_tried(WHY)
    names = ["nothing departs", "shift", "affine", "all together"]
    assert [label.get_text() for label in ax.get_yticklabels()] == names
    drawn = [one.lines[0].get_xdata()[0] for one in ax.containers]
    assert drawn == [0.0, 1.5, -0.5, 1.6]
    (bar,) = ax.containers[1].lines[2][0].get_segments()
    assert bar[:, 0] == pytest.approx([1.0, 2.0])
    (beside,) = ax.child_axes
    weights = [label.get_text() for label in beside.get_yticklabels()]
    assert weights == ["1% | 40%", "99% | 60%", "0% | 0%", ""]


def test_what_has_no_weight_has_another_colour():
    ax = plot_tried(WHY)
    _, used, unused, _ = (one.lines[0].get_color() for one in ax.containers)
    assert used != unused


def test_a_proposal_that_was_not_scored_is_named():
    (nothing, *_) = WHY.tried
    why = replace(WHY, tried=(replace(nothing, score=None, error=None),), gain=None)
    ax = plot_tried(why)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["nothing departs"]
    assert not ax.containers


def test_what_fit_corrector_returns_is_drawn():
    data = world(num=40, dim=1)
    corrector = fit_corrector(data.context, data.x_obs, data.x_sim, seed=0)
    names = [label.get_text() for label in plot_tried(corrector).get_yticklabels()]
    assert names[: len(corrector.why.tried)] == [one.name for one in corrector.why.tried]
    with pytest.raises(ValueError, match="what fit_corrector returned.*got a Believing"):
        plot_tried(data.corrector)
