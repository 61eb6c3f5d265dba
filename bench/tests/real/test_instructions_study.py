"""Tests for ma_sbi_bench.real.instructions.study."""

import numpy as np
import pandas as pd
import pytest
import torch

from ma_sbi_bench.real.instructions.study import (
    Cases,
    InstructionStudy,
    cut_cases,
    simulated_cases,
)
from ma_sbi_bench.tasks import DDM, ddm_log_density
from ma_sbi_bench.tasks.ddm import GRID, simulate_trials

TASK = DDM(100)


class MomentPosterior:
    """Reads drift and boundary off the share and the mean time of correct responses."""

    dim_x = 20

    def sample(self, num_samples, x, *, seed=None):
        grid = torch.tensor(GRID)
        mass = x.clamp(min=0) / x.clamp(min=0).sum(dim=1, keepdim=True)
        right = mass[:, grid > 0].sum(dim=1).clamp(0.55, 0.95)
        decision = ((mass * grid.abs()).sum(dim=1) - 0.3).clamp(min=0.05)
        # EZ diffusion: log odds are v a, the mean decision time a / (2 v) tanh(v a / 2).
        log_odds = right.logit()
        v = (log_odds * torch.tanh(log_odds / 2) / (2 * decision)).sqrt()
        theta = torch.stack([v, log_odds / v, torch.full_like(v, 0.3)], dim=1)
        return theta.clamp(TASK.prior.low, TASK.prior.high).expand(num_samples, -1, -1)


def trials(boundaries, num_subjects=8, num=300, seed=0):
    """Simulated people, whose boundary depends on the regime."""
    source = torch.Generator().manual_seed(seed)
    parts = []
    for subject in range(num_subjects):
        for regime, boundary in boundaries.items():
            theta = torch.tensor([[1.5 + 0.1 * subject / num_subjects, boundary, 0.3]])
            signed = simulate_trials(theta, num, source=source).signed_times()[0]
            parts.append(
                pd.DataFrame(
                    {
                        "subject": f"s{subject}",
                        "regime": regime,
                        "rt": signed.abs(),
                        "correct": (signed > 0).int(),
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def study():
    cases = cut_cases(trials({"speed": 0.9, "accuracy": 1.5}))
    return InstructionStudy(cases, TASK, MomentPosterior(), num_samples=50)


class PriorPosterior:
    """Learns nothing: the same draws for every case."""

    dim_x = MomentPosterior.dim_x

    def sample(self, num_samples, x, *, seed=None):
        torch.manual_seed(0 if seed is None else seed)
        return TASK.prior.sample((num_samples, 1)).expand(-1, len(x), -1)


def test_the_prior_has_the_loss_of_a_posterior_that_learns_nothing(study):
    idle = InstructionStudy(study.cases, TASK, PriorPosterior(), num_samples=1000)
    expected = idle.losses(idle.corrections("NPE"))
    np.testing.assert_allclose(idle.prior_losses(), expected, atol=0.1)
    assert idle.prior_losses().mean() > study.losses(study.corrections("NPE")).mean()


def test_cases_divide_the_trials_without_loss():
    data = trials({"a": 1.0, "b": 1.0}, num_subjects=2)
    cases = cut_cases(data)
    assert len(cases) == 4
    assert cases.fitted.shape == (4, 100)
    every = np.concatenate([cases.fitted.flatten().numpy(), *cases.held_out])
    signed = np.where(data["correct"] == 1, data["rt"], -data["rt"])
    signed = signed[np.abs(signed) <= 3]
    np.testing.assert_allclose(np.sort(every), np.sort(signed))
    assert torch.equal(cut_cases(data).fitted, cases.fitted)
    assert not torch.equal(cut_cases(data, seed=1).fitted, cases.fitted)


def test_short_cases_are_named_and_left_out():
    data = trials({"a": 1.0, "b": 1.0}, num_subjects=2)
    few = data.drop(data[(data.subject == "s1") & (data.regime == "b")].index[50:])
    with pytest.warns(UserWarning, match="1 cases with fewer than 120 trials .* s1/b"):
        assert len(cut_cases(few)) == 3
    with pytest.raises(ValueError, match="at least two regimes"):
        cut_cases(data[data.regime == "a"])


def test_matching_takes_the_effect_on_the_boundary_away(study):
    plain = study.effect(study.corrections("NPE"), "speed", "accuracy")
    matched = study.effect(study.corrections("matched"), "speed", "accuracy")
    assert plain.loc["a", "effect"] == pytest.approx(-0.6, abs=0.2)
    assert abs(matched.loc["a", "effect"]) < 0.5 * abs(plain.loc["a", "effect"])
    assert (plain.loc[["v", "a"], "error"] > 0).all()


@pytest.mark.slow
def test_true_regimes_predict_better_than_shuffled_ones_when_regimes_differ():
    # Eight subjects do not show it: the gain of one varies as much as their mean.
    cases = cut_cases(trials({"speed": 0.9, "accuracy": 1.5}, num_subjects=32))
    study = InstructionStudy(cases, TASK, MomentPosterior(), num_samples=50)
    true, *shuffled = (
        study.losses(study.corrections("matched", regime))
        for regime in (None, study.shuffled(0), study.shuffled(1))
    )
    gains = pd.Series(np.mean(shuffled, axis=0) - true)
    by_subject = gains.groupby(study.cases.table["subject"]).mean()
    assert by_subject.mean() > 3 * by_subject.sem()


def test_regimes_between_subjects_are_compared_between_groups():
    fast = trials({"speed": 0.9}, num_subjects=4)
    slow = trials({"accuracy": 1.5}, num_subjects=4, seed=1)
    slow["subject"] += "x"
    study = InstructionStudy(
        cut_cases(pd.concat([fast, slow])), TASK, MomentPosterior(), num_samples=20
    )
    effect = study.effect(study.corrections("NPE"), "speed", "accuracy")
    assert effect.loc["a", "effect"] == pytest.approx(-0.6, abs=0.25)
    shuffled = study.shuffled(0)
    assert sorted(shuffled) == sorted(study.cases.table["regime"])
    assert (shuffled != study.cases.table["regime"]).any()


def test_losses_are_near_the_entropy_of_well_explained_responses():
    theta = torch.tensor([[1.5, 1.2, 0.3]])

    class Known:
        dim_x = 20

        def sample(self, num_samples, x, *, seed=None):
            return theta.expand(num_samples, len(x), -1)

    cases = cut_cases(trials({"a": 1.2, "b": 1.2}, num_subjects=3, num=3100))
    cases = simulated_cases(cases, theta.expand(3, -1), seed=3)
    study = InstructionStudy(cases, TASK, Known(), num_samples=200)
    found = study.losses(study.corrections("NPE")).mean()
    signed = torch.cat(cases.held_out)
    entropy = -ddm_log_density(signed.abs(), signed > 0, theta[0]).mean().item()
    # Kernels of 0.15 s blur a density that rises within 0.2 s.
    assert entropy < found < entropy + 0.35


def test_simulated_cases_imitate_the_shape_of_the_cases(study):
    theta = torch.tensor([1.5, 1.2, 0.3]).expand(8, -1)
    imitation = simulated_cases(study.cases, theta)
    assert isinstance(imitation, Cases)
    assert imitation.fitted.shape == study.cases.fitted.shape
    assert [len(one) for one in imitation.held_out] == [
        len(one) for one in study.cases.held_out
    ]


def test_a_subject_has_no_part_in_its_own_correction(study):
    fitted = study.cases.fitted.clone()
    own = np.array(study.cases.table["subject"] == "s0")
    fitted[own] *= 0.5
    changed = Cases(study.cases.table, fitted, study.cases.held_out)
    other = InstructionStudy(changed, TASK, MomentPosterior(), num_samples=50)
    for method in ("matched", "stochastic"):
        before, after = (
            one.x - (found.x * found.log_weight.exp()[..., None]).sum(dim=0)
            for one in (study, other)
            for found in [one.corrections(method)]
        )
        # The pool is simulated from other random numbers, no more.
        torch.testing.assert_close(before[own], after[own], atol=0.05, rtol=0)
        assert (before - after)[~own].abs().max() > 0.02


def test_bad_choices_are_refused(study):
    with pytest.raises(ValueError, match="num_trials must be a positive integer"):
        cut_cases(trials({"a": 1.0}, num_subjects=1), 0)
    unknown = trials({"a": 1.0, "b": 1.0}, num_subjects=1).assign(correct=2)
    with pytest.raises(ValueError, match="'correct' in trials must be 0 or 1"):
        cut_cases(unknown)
    with pytest.raises(ValueError, match="method must be one of NPE, matched"):
        study.corrections("magic")
    with pytest.raises(ValueError, match="200 trials must be as many as the 100"):
        InstructionStudy(study.cases, DDM(200), MomentPosterior())
