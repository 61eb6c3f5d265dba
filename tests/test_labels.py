"""Tables are matched by the names of their rows and columns, or refused."""

from functools import cache

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import torch

from ma_sbi import (
    CategoryEncoder,
    CorrectedPosterior,
    MatchingCorrector,
    ShiftCorrector,
    check,
    conformal,
    cross_fit,
    decompose,
    fit_corrector,
    from_callable,
    load_corrector,
    per_trial,
)
from ma_sbi.correctors import ForwardCorrector
from ma_sbi.diagnostics import coverage, dependence_test, held_out_r2, hold_out
from ma_sbi.labels import in_columns, match_rows
from ma_sbi.plots import plot_candidates, plot_departures

mpl.use("agg")

NUM = 60
NAMES = ["brightness", "decay"]
INDEX = [f"row {number}" for number in range(NUM)]
RNG = np.random.default_rng(0)
SIM = pd.DataFrame(RNG.normal(size=(NUM, 2)), columns=NAMES, index=INDEX)
# In no regular order, so that no shuffle of rows gives the same notes.
IS_HIGH = RNG.permutation(NUM) < NUM // 2
NOTES = pd.Series(np.where(IS_HIGH, "high", "fine"), index=INDEX)
OBS = SIM + np.outer(IS_HIGH, [2.0, -1.0])
THETA = SIM * 1.0
GROUPS = pd.Series(np.arange(NUM) % 12, index=INDEX)
POOL = pd.DataFrame(RNG.normal(size=(600, 2)), columns=NAMES)
ORDER = RNG.permutation(NUM)
POSTERIOR = from_callable(
    lambda n, x: x + 0.1 * torch.randn(n, 2),
    lambda theta, x: -50 * (theta - x).square().sum(dim=-1),
)


def mix(table):
    """Put rows into another order; their labels go with them."""
    return None if table is None else table.iloc[ORDER]


def rename(table):
    """Give rows other labels."""
    return None if table is None else table.set_axis([f"id {i}" for i in range(NUM)])


def fitted(notes=NOTES, obs=OBS, sim=SIM):
    return ShiftCorrector(CategoryEncoder()).fit(notes, obs, sim)


def crossed(notes, groups):
    cross = cross_fit(ShiftCorrector(CategoryEncoder()), groups=groups)
    return cross.fit(notes, OBS, SIM).correct(OBS, notes)


def sampled(notes):
    corrected = CorrectedPosterior(POSTERIOR, fitted())
    return corrected.sample(2, OBS, notes, seed=0)


def drawn(notes):
    axes = plot_departures(OBS, notes, SIM)
    lines = [line.get_xdata() for line in axes[0].get_lines()]
    return np.concatenate([np.ravel(line) for line in lines])


# What has one entry per row, to numbers that depend on which row it belongs to.
CALLS = {
    "fit_corrector": lambda notes, groups, theta: fit_corrector(
        notes, OBS, SIM, groups=groups, seed=0
    ).correct(OBS, NOTES),
    "fit": lambda notes, groups, theta: fitted(notes).correct(OBS, NOTES),
    "fit without pairs": lambda notes, groups, theta: (
        MatchingCorrector(CategoryEncoder())
        .fit(notes, OBS, simulations=POOL, seed=0)
        .correct(OBS, NOTES)
    ),
    "fit forwards": lambda notes, groups, theta: (
        ForwardCorrector(POOL).fit(notes, OBS, SIM, seed=0).correct(OBS, notes)
    ),
    "correct": lambda notes, groups, theta: fitted().correct(OBS, notes),
    "correct a part": lambda notes, groups, theta: decompose(
        fitted(), NOTES
    ).conditional.correct(OBS, notes),
    "correct trials": lambda notes, groups, theta: per_trial(fitted(), 2).correct(
        OBS, notes
    ),
    "cross_fit": lambda notes, groups, theta: crossed(notes, groups),
    "sample": lambda notes, groups, theta: sampled(notes),
    "log_prob": lambda notes, groups, theta: CorrectedPosterior(
        POSTERIOR, fitted()
    ).log_prob(torch.zeros(1, NUM, 2), OBS, notes),
    "packed": lambda notes, groups, theta: (
        CorrectedPosterior(POSTERIOR, fitted()).packed(NOTES).pack(OBS, notes)
    ),
    "check": lambda notes, groups, theta: (
        check(
            OBS, notes, x_sim=SIM, theta=theta, groups=groups, posterior=POSTERIOR, seed=0
        ).judgement.by_context.gains
    ),
    "plot_departures": lambda notes, groups, theta: drawn(notes),
    "coverage": lambda notes, groups, theta: (
        coverage(CorrectedPosterior(POSTERIOR, fitted()), theta, OBS, notes, seed=0).acauc
    ),
    "conformal": lambda notes, groups, theta: (
        conformal(CorrectedPosterior(POSTERIOR, fitted()), theta, OBS, notes).scores
    ),
    "hold_out": lambda notes, groups, theta: (
        hold_out(notes, OBS, SIM, groups=groups, seed=0).predicted
    ),
    "dependence_test": lambda notes, groups, theta: (
        dependence_test(OBS, notes, groups=groups, seed=0).statistic
    ),
    "held_out_r2": lambda notes, groups, theta: held_out_r2(
        OBS, notes, groups=groups, seed=0
    ),
}


@cache
def expected_of(name):
    return CALLS[name](NOTES, GROUPS, THETA)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
class TestRows:
    @pytest.mark.slow
    def test_are_matched_by_their_labels(self, name):
        found = CALLS[name](mix(NOTES), mix(GROUPS), mix(THETA))
        np.testing.assert_allclose(found, expected_of(name))

    def test_with_other_labels_are_refused(self, name):
        with pytest.raises(ValueError, match="context have different names|b have diff"):
            CALLS[name](rename(NOTES), GROUPS, THETA)

    @pytest.mark.slow
    def test_count_by_their_order_without_labels(self, name):
        found = CALLS[name](NOTES.tolist(), GROUPS.to_numpy(), THETA.to_numpy())
        np.testing.assert_allclose(found, expected_of(name))


@pytest.mark.parametrize("kind", ["groups", "theta"])
@pytest.mark.parametrize("how", ["fit", "check"])
def test_other_labels_of_groups_and_theta_are_refused(how, kind):
    given = {"groups": GROUPS, "theta": THETA}
    given[kind] = rename(given[kind])
    call = {
        "fit": lambda: fit_corrector(NOTES, OBS, SIM, posterior=POSTERIOR, **given),
        "check": lambda: check(OBS, NOTES, x_sim=SIM, posterior=POSTERIOR, **given),
    }[how]
    with pytest.raises(ValueError, match=f"rows of x_obs and {kind} have different names"):
        call()


def test_columns_of_a_context_are_matched_together():
    table = pd.DataFrame({"note": NOTES, "load": np.arange(NUM)})
    for context in (mix(table), {"note": mix(NOTES), "load": mix(table["load"])}):
        x, matched = match_rows(x=OBS, context=context)
        pd.testing.assert_frame_equal(matched, table)
        assert x is OBS


def test_names_that_repeat_are_matched_in_their_order_alone():
    twice = NOTES.set_axis(["a", "b"] * (NUM // 2))
    x = OBS.set_axis(twice.index)
    assert match_rows(x=x, context=twice)[1] is twice
    with pytest.raises(ValueError, match="names repeat .'a'."):
        match_rows(x=x, context=twice.iloc[::-1])


def test_one_entry_for_all_has_no_label():
    pd.testing.assert_frame_equal(match_rows(x=OBS, context="high")[0], OBS)
    row = pd.Series({"note": "high", "load": 3})
    assert match_rows(x=OBS, context=row)[1] is row


@pytest.mark.filterwarnings("ignore")
class TestColumns:
    MODELS = {
        "fit_corrector": lambda: fit_corrector(NOTES, OBS, SIM, seed=0),
        "fit": fitted,
        "fit forwards": lambda: ForwardCorrector(POOL).fit(NOTES, OBS, SIM, seed=0),
        "part": lambda: decompose(fitted(), NOTES).marginal,
        "check": lambda: check(OBS, NOTES, x_sim=SIM, seed=0).corrector,
    }

    @pytest.mark.slow
    @pytest.mark.parametrize("loaded", [False, True], ids=["made", "loaded"])
    @pytest.mark.parametrize("name", MODELS)
    def test_are_those_of_the_fit(self, name, loaded, tmp_path):
        corrector = self.MODELS[name]()
        if loaded:
            corrector.save(tmp_path / "c.safetensors")
            corrector = load_corrector(tmp_path / "c.safetensors")
        corrected = CorrectedPosterior(POSTERIOR, corrector)
        expected = corrector.correct(OBS, NOTES)
        turned = OBS[NAMES[::-1]]
        torch.testing.assert_close(corrector.correct(turned, NOTES), expected)
        torch.testing.assert_close(corrector.correct(OBS.to_numpy(), NOTES), expected)
        torch.testing.assert_close(
            corrected.sample(3, turned, NOTES, seed=0),
            corrected.sample(3, OBS, NOTES, seed=0),
        )
        for call in (corrector.correct, corrected.corrections):
            with pytest.raises(ValueError, match="x has 'other'.*to_numpy"):
                call(OBS.rename(columns={"decay": "other"}), NOTES)

    def test_of_one_observation_are_matched(self):
        corrector = fitted()
        row = OBS.iloc[3]
        expected = corrector.correct(row.to_numpy(), NOTES.iloc[3])
        torch.testing.assert_close(corrector.correct(row[::-1], NOTES.iloc[3]), expected)
        table = pd.DataFrame({"note": NOTES, "load": np.arange(NUM)})
        of_table = fit_corrector(table, OBS, SIM, seed=0)
        assert of_table.correct(row, table.iloc[3]).shape == (1, 2)

    def test_of_simulations_are_matched(self):
        expected, found = (
            fit_corrector(NOTES, OBS, simulations=pool, seed=0).correct(OBS, NOTES)
            for pool in (POOL, POOL[NAMES[::-1]])
        )
        torch.testing.assert_close(found, expected)
        with pytest.raises(ValueError, match="columns of x_obs and simulations"):
            fit_corrector(NOTES, OBS, simulations=POOL.rename(columns={"decay": "a"}))

    def test_of_x_sim_are_matched_by_every_fit(self):
        expected = fitted().correct(OBS, NOTES)
        found = fitted(sim=SIM[NAMES[::-1]]).correct(OBS, NOTES)
        torch.testing.assert_close(found, expected)

    @pytest.mark.slow
    def test_a_check_judges_the_columns_that_a_corrector_was_fitted_to(self):
        corrector = fitted()
        judged = [
            check(x, NOTES, x_sim=SIM, corrector=corrector, seed=0).judgement.by_context
            for x in (OBS, OBS[NAMES[::-1]])
        ]
        torch.testing.assert_close(judged[0].gains, judged[1].gains)

    def test_of_a_plot_are_matched(self):
        ax = plot_candidates(fitted(), OBS.iloc[[0]][NAMES[::-1]], "high", column=0)
        assert ax.get_xlabel() == NAMES[0]

    def test_without_names_count_by_their_order(self):
        x = OBS.to_numpy()
        assert in_columns(("a", "b"), x, 2) is x
        assert in_columns(None, OBS, 2) is OBS


def test_another_order_of_columns_is_told():
    names = list(OBS.columns)
    corrector, turned = fitted(), OBS[names[::-1]]
    with pytest.warns(UserWarning, match=f"order of calibration \\({', '.join(names)}\\)"):
        found = corrector.correct(turned, NOTES)
    assert torch.equal(found, corrector.correct(OBS, NOTES))
