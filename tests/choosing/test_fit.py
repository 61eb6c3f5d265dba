"""Tests for ma_sbi.fit_corrector: what it collapses to, laws, inputs and refusals."""

import json
import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor
from torch.distributions import Independent, Normal

from ma_sbi import CategoryEncoder, HashEncoder, ShiftCorrector, fit_corrector
from ma_sbi.choosing import PROPOSALS, ChosenCorrector, Proposal, held_out
from ma_sbi.choosing.chosen import Part
from ma_sbi.choosing.proposals import NothingDeparts, RegimeShift
from ma_sbi.correctors import Ridge, UnseenContext
from ma_sbi.correctors.located import RidgeWithResiduals
from ma_sbi.correctors.unseen import UnrelatedContext
from tests.some_posteriors import NOISE as SBI_NOISE
from tests.some_posteriors import sbi_npe
from tests.some_posteriors import simulations as sbi_simulations
from tests.worlds import World, exact

N = 60
# What is tried with pairs alone.
PAIRED = [name for name, one in PROPOSALS.items() if type(one) in (Proposal, RegimeShift)]


def log_density(x):
    """Of x = theta + N(0, 0.5^2) with theta ~ N(0, 1), in two dimensions."""
    return Independent(Normal(torch.zeros(2).to(x), 1.25**0.5), 1).log_prob(x)


@pytest.fixture(scope="module")
def world():
    return World(n=N)


@pytest.fixture(scope="module")
def certain(world):
    """Shifts that the context tells exactly."""
    return fit_corrector(world.context, world.x_obs, world.x_sim, seed=0)


@pytest.fixture(scope="module")
def weighed(world):
    """The same with a density."""
    return fit_corrector(
        world.context, world.x_obs, world.x_sim, density=log_density, seed=0
    )


@pytest.fixture(scope="module")
def spread(world):
    """Departures that vary within a context, so that there are many candidates."""
    rng = torch.Generator().manual_seed(20)
    x_obs = world.x_obs + 0.7 * torch.randn(N, 2, generator=rng)
    return fit_corrector(world.context, x_obs, world.x_sim, seed=0)


def share_of(corrector, name):
    return sum(part.seen for part in corrector.parts if part.name == name)


class TestCollapse:
    def test_certain_departures_leave_one_candidate(self, world, certain):
        found = certain.corrections(world.x_obs, world.context)
        point = ShiftCorrector(HashEncoder()).fit(world.context, world.x_obs, world.x_sim)
        assert len(found.x) == 1
        expected = point.correct(world.x_obs, world.context)
        torch.testing.assert_close(found.x[0], expected, atol=1e-6, rtol=0)
        torch.testing.assert_close(found.x[0], world.x_sim, atol=1e-6, rtol=0)

    def test_with_a_density_other_regimes_keep_what_rows_cannot_rule_out(
        self, world, weighed
    ):
        assert weighed.log_density is not None
        certain = sum(part.seen for part in weighed.parts if "context" in part.name)
        simple = share_of(weighed, "nothing departs") + share_of(weighed, "shift")
        assert simple == pytest.approx(1 / (N + 1), rel=0.5)
        assert certain > 0.4
        found = weighed.corrections(world.x_sim[:1], world.context[:1])
        shifts = (world.x_obs - world.x_sim).unique(dim=0)
        for shift in [torch.zeros(2), *shifts]:
            apart = (found.x[:, 0] - (world.x_sim[0] - shift)).abs().amax(dim=1)
            assert apart.min() < 1e-4

    def test_x_overrules_a_wrong_context(self, world):
        # Regimes far apart, and rows whose context names another.
        far = torch.tensor([[10.0, 0.0], [-10.0, 0.0], [0.0, 10.0]])
        moved = World(n=N, shifts=far)
        corrector = fit_corrector(
            moved.context, moved.x_obs, moved.x_sim, density=log_density, seed=0
        )
        wrong = ["regime 0" if one != "regime 0" else "regime 1" for one in moved.context]
        found = corrector.correct(moved.x_obs, wrong)
        torch.testing.assert_close(found, moved.x_sim, atol=0.05, rtol=0)

    def test_nothing_departs_is_itself(self, world):
        same = fit_corrector(world.context, world.x_sim, world.x_sim, seed=0)
        found = same.corrections(world.x_obs, world.context)
        assert torch.equal(found.x[0], world.x_obs)
        assert len(found.x) == 1


class TestLaws:
    def test_weights_sum_to_one(self, world, spread, weighed):
        contexts = [*world.context[:-2], "a new regime", None]
        for corrector in (spread, weighed):
            with pytest.warns(UnseenContext, match=f"1 of {N} rows"):
                found = corrector.corrections(world.x_obs, contexts)
            total = found.log_weight.exp().sum(dim=0)
            torch.testing.assert_close(total, torch.ones(N))
            assert found.x.isfinite().all()
            assert found.x.shape == (*found.log_weight.shape, 2)

    def test_shares_sum_to_one(self, certain, weighed, spread):
        for corrector in (certain, weighed, spread):
            assert sum(part.seen for part in corrector.parts) == pytest.approx(1.0)
            assert sum(part.unseen for part in corrector.parts) == pytest.approx(1.0)

    def test_the_order_and_company_of_rows_are_irrelevant(self, world, spread, weighed):
        order = torch.randperm(N)
        shuffled = [world.context[i] for i in order]
        for corrector in (spread, weighed):
            whole = corrector.correct(world.x_obs, world.context)
            moved = corrector.correct(world.x_obs[order], shuffled)
            torch.testing.assert_close(moved, whole[order])
            alone = corrector.correct(world.x_obs[:1], world.context[:1])
            torch.testing.assert_close(alone, whole[:1])

    def test_the_same_seed_gives_the_same_corrector(self, world):
        first, second = (
            fit_corrector(
                world.context,
                world.x_obs,
                world.theta,
                posterior=exact(),
                density=log_density,
                seed=5,
            )
            for _ in range(2)
        )
        assert first.why == second.why
        found = [one.corrections(world.x_obs, world.context) for one in (first, second)]
        assert torch.equal(found[0].x, found[1].x)
        assert torch.equal(found[0].log_weight, found[1].log_weight)

    def test_the_global_generator_is_left_alone(self, world):
        before = torch.get_rng_state(), np.random.get_state()[1]  # noqa: NPY002
        fit_corrector(
            world.context[:20],
            world.x_obs[:20],
            world.x_sim[:20],
            posterior=exact(),
            seed=0,
        )
        assert torch.equal(torch.get_rng_state(), before[0])
        assert (np.random.get_state()[1] == before[1]).all()  # noqa: NPY002

    def test_the_order_of_calibration_rows_changes_little(self, world, certain, spread):
        # Folds are drawn by the number of a row, so weights may move; candidates do not.
        order = torch.randperm(N)
        context = [world.context[i] for i in order]
        turned = fit_corrector(context, world.x_obs[order], world.x_sim[order], seed=0)
        torch.testing.assert_close(
            turned.correct(world.x_obs, world.context),
            certain.correct(world.x_obs, world.context),
            atol=1e-5,
            rtol=0,
        )


def containers(kind, values):
    if kind == "float32":
        return values.float()
    if kind == "numpy":
        return values.numpy()
    return pd.DataFrame(values.numpy()) if kind == "DataFrame" else values.tolist()


class TestInputs:
    @pytest.mark.parametrize("kind", ["float32", "numpy", "DataFrame", "list"])
    def test_observations_may_be_of_any_kind(self, world, certain, kind):
        x_obs, x_sim = (containers(kind, x.double()) for x in (world.x_obs, world.x_sim))
        context = pd.Series(world.context) if kind == "DataFrame" else world.context
        found = fit_corrector(context, x_obs, x_sim, seed=0)
        corrected = found.correct(x_obs, context)
        assert corrected.dtype == torch.float32
        expected = certain.correct(world.x_obs, world.context)
        torch.testing.assert_close(corrected, expected, atol=1e-5, rtol=0)

    def test_a_vector_of_scalar_observations_is_a_column(self, world):
        found = fit_corrector(world.context, world.x_obs[:, 0], world.x_sim[:, 0], seed=0)
        corrected = found.correct(world.x_obs[:, :1], world.context)
        torch.testing.assert_close(corrected, world.x_sim[:, :1], atol=1e-4, rtol=0)

    @pytest.mark.parametrize(
        ("context", "said"),
        [(None, "missing in every row"), ("always the same", "'always the same'")],
    )
    def test_a_context_that_says_nothing(self, world, context, said):
        with pytest.warns(UserWarning, match=said) as caught:
            found = fit_corrector(context, world.x_sim + 1.0, world.x_sim, seed=0)
        assert len(caught) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            corrected = found.correct(world.x_sim + 1.0, context)
        torch.testing.assert_close(corrected, world.x_sim, atol=1e-5, rtol=0)

    def test_missing_contexts_are_a_regime(self, world):
        context = [None if one == "regime 0" else one for one in world.context]
        found = fit_corrector(context, world.x_obs, world.x_sim, seed=0)
        corrected = found.correct(world.x_obs, context)
        torch.testing.assert_close(corrected, world.x_sim, atol=1e-4, rtol=0)

    def test_a_number_is_regressed_on(self):
        rng = torch.Generator().manual_seed(0)
        dose, x_sim = torch.rand(N, generator=rng), torch.randn(N, 1, generator=rng)
        found = fit_corrector(dose, x_sim + 3 * dose[:, None], x_sim, seed=0)
        at = torch.tensor([0.25, 0.75])
        corrections = found.corrections(3 * at[:, None], at)
        best = corrections.log_weight.argmax(dim=0)
        corrected = corrections.x[best, torch.arange(2)]
        torch.testing.assert_close(corrected, torch.zeros(2, 1), atol=0.05, rtol=0)

    def test_mixed_columns(self, world):
        dose = torch.linspace(0, 1, N)
        table = pd.DataFrame({"note": world.context, "dose": dose.numpy()})
        x_obs = world.x_obs + dose[:, None]
        found = fit_corrector(table, x_obs, world.x_sim, seed=0)
        corrected = found.correct(x_obs, table)
        # A regression on both; without the dose, the error would be 0.29.
        assert (corrected - world.x_sim).square().mean().sqrt() < 0.1

    def test_labels_that_an_encoder_refuses_are_held_out_all_the_same(self, world, certain):
        found = fit_corrector(
            world.context, world.x_obs, world.x_sim, encoder=CategoryEncoder(), seed=0
        )
        corrected = found.correct(world.x_obs, world.context)
        torch.testing.assert_close(corrected, world.x_sim, atol=1e-4, rtol=0)
        with (
            pytest.warns(UnseenContext),
            pytest.raises(ValueError, match="label 'new' was not in the data"),
        ):
            found.correct(world.x_obs[:1], ["new"])

    def test_repeated_simulations(self, world):
        rng = torch.Generator().manual_seed(30)
        repeats = world.theta[:, None] + 0.5 * torch.randn(N, 5, 2, generator=rng)
        found = fit_corrector(world.context, world.x_obs, repeats, seed=0)
        assert "5 simulations per row" in found.why.reasons[0]
        corrected = found.correct(world.x_obs, world.context)
        # The shift of a regime is a mean of 20 rows, with noise of 0.55 each.
        error = (corrected - world.x_sim).square().mean().sqrt()
        assert error < 3 * 0.55 / 20**0.5

    def test_gross_outliers_are_set_apart_and_said(self, world, certain):
        x_obs = world.x_obs.clone()
        x_obs[[7, 20]] = torch.tensor([[300.0, -200.0], [-500.0, 90.0]])
        found = fit_corrector(world.context, x_obs, world.x_sim, seed=0)
        assert "far from all others, set apart: 2 (first: 7)" in str(found.why)
        assert found.why.num_rows == N - 2
        corrected = found.correct(world.x_obs, world.context)
        torch.testing.assert_close(corrected, world.x_sim, atol=1e-4, rtol=0)

    def test_a_regime_that_is_far_away_is_no_outlier(self, world):
        x_obs = world.x_sim.clone()
        x_obs[:8] += 300.0
        context = ["broken"] * 8 + ["well"] * (N - 8)
        found = fit_corrector(context, x_obs, world.x_sim, seed=0)
        assert found.why.num_rows == N
        corrected = found.correct(x_obs, context)
        torch.testing.assert_close(corrected, world.x_sim, atol=1e-3, rtol=0)

    def test_groups_are_held_out_together(self, world, monkeypatch):
        groups = np.repeat(np.arange(12), 5)
        numbers = torch.arange(N, dtype=torch.float32)
        fitted_to = []

        class Spying(ShiftCorrector):
            def fit(self, context, x_obs, x_sim, *, seed=None):
                fitted_to.append(x_obs[:, 1].long())
                return super().fit(context, x_obs, x_sim, seed=seed)

        class Spy(Proposal):
            def corrector(self, encoder, noise, pool=None):
                return Spying(encoder)

        spy = Spy("", PROPOSALS["shift"].departure, PROPOSALS["shift"].fitting)
        monkeypatch.setitem(PROPOSALS, "spy", spy)
        x = torch.stack([world.x_sim[:, 0], numbers], dim=1)
        fit_corrector(world.context, x, x, groups=groups, seed=0)
        # Five folds of groups come first; those of contexts leave out rows as well.
        times_left_out = np.zeros(N)
        for rows in fitted_to[: held_out.NUM_FOLDS]:
            count = np.bincount(groups[rows], minlength=12)
            assert set(count.tolist()) == {0, 5}
            times_left_out += ~np.isin(np.arange(N), rows)
        assert times_left_out.tolist() == [1] * N


class TestRefusals:
    def test_nothing_to_compare_with(self, world):
        with pytest.raises(ValueError, match="pass x_sim, .* or simulations="):
            fit_corrector(world.context, world.x_obs)

    @pytest.mark.parametrize(
        "x_sim", [torch.zeros(N - 1, 2), torch.zeros(N, 3), torch.zeros(N, 4, 3)]
    )
    def test_rows_that_do_not_match(self, world, x_sim):
        with pytest.raises(ValueError, match="paired row by row"):
            fit_corrector(world.context, world.x_obs, x_sim)

    @pytest.mark.parametrize("name", ["x_obs", "x_sim", "simulations"])
    def test_values_that_are_not_finite(self, world, name):
        data = {"x_obs": world.x_obs, "x_sim": world.x_sim, "simulations": world.x_sim}
        data[name] = data[name].clone()
        data[name][3, 1] = torch.nan
        with pytest.raises(ValueError, match=rf"{name} must be finite.*row 3"):
            fit_corrector(world.context, **data)

    def test_repeated_simulations_that_are_not_finite(self, world):
        with pytest.raises(ValueError, match="x_sim must be finite"):
            fit_corrector(world.context, world.x_obs, torch.full((N, 2, 2), torch.nan))

    def test_lengths(self, world):
        with pytest.raises(ValueError, match="expected 60, got 3"):
            fit_corrector(world.context[:3], world.x_obs, world.x_sim)
        with pytest.raises(ValueError, match="groups must have one entry per observation"):
            fit_corrector(world.context, world.x_obs, world.x_sim, groups=[1, 2])
        with pytest.raises(ValueError, match="same columns"):
            fit_corrector(world.context, world.x_obs, simulations=torch.zeros(50, 3))
        with pytest.raises(ValueError, match=r"simulations=\(theta, x\) must be paired"):
            fit_corrector(
                world.context,
                world.x_obs,
                world.x_sim,
                simulations=(world.theta[:5], world.x_sim),
            )

    def test_an_x_of_another_width(self, certain):
        with pytest.raises(ValueError, match="x must have 2 columns, got 3"):
            certain.correct(torch.zeros(1, 3), "regime 0")


class TestWhy:
    def test_it_goes_through_json(self, weighed):
        why = json.loads(weighed.why.to_json(), parse_constant=pytest.fail)
        assert why["inference"] == "evidence"
        assert why["num_rows"] == N
        assert [one["name"] for one in why["tried"]] == ["nothing departs", *PAIRED]
        for one, tried in zip(why["tried"], weighed.why.tried, strict=True):
            assert one["weight"] == tried.weight
            assert one["score"] == tried.score
        assert sum(one["weight"] for one in why["tried"]) == pytest.approx(1.0)
        assert sum(one["weight_unseen"] for one in why["tried"]) == pytest.approx(1.0)
        assert why["tried"][0]["score"] == 0.0

    def test_it_shows_what_was_chosen_and_what_was_rejected(self, certain):
        shown = str(certain.why)
        for name in ("nothing departs", *PAIRED):
            assert name in shown
        lines = {line[:24].strip(): line.split() for line in shown.splitlines()}
        assert lines["shift by context"][-2] == "100%"
        assert lines["affine by regression"][-2] == "0%"
        assert "point, from 60 calibration rows" in shown
        assert "context read by labels and numbers\n" in shown
        assert certain.why.encoder == "CategoryEncoder(unseen='zero')"
        assert "seem to share their noise" in shown

    @pytest.mark.parametrize("n", [5, 15])
    @pytest.mark.filterwarnings("ignore::ma_sbi.correctors.UnseenContext")
    def test_too_few_rows_are_left_as_they_are(self, world, n):
        found = fit_corrector(
            world.context[:n], world.x_obs[:n], world.x_sim[:n], posterior=exact(), seed=0
        )
        assert f"{n} rows, in {n} groups, are too few" in str(found.why)
        assert found.why.inference == "no correction"
        assert torch.equal(found.correct(world.x_obs, world.context), world.x_obs)
        assert "NaN" not in found.why.to_json()

    def test_one_group_is_too_few(self, world):
        found = fit_corrector(
            world.context, world.x_obs, world.x_sim, groups=["one"] * N, seed=0
        )
        assert "in two groups" in str(found.why)

    def test_it_says_what_scored(self, world):
        found = fit_corrector(
            world.context, world.x_obs, world.x_sim, posterior=exact(), seed=0
        )
        assert found.why.scored_by == "parameters drawn from the posterior at x_sim"
        pools = fit_corrector(world.context, world.x_obs, simulations=world.x_sim, seed=0)
        assert "mean and covariance" in pools.why.scored_by
        assert pools.why.reasons[0] == "there are no pairs"

    def test_the_representation_names_parts(self, certain):
        assert isinstance(certain, ChosenCorrector)
        assert "100% shift by context" in repr(certain)

    def test_the_representation_names_each_once(self, certain):
        parts = [Part("nothing departs", NothingDeparts(), 0.4, 0.5, is_forward=True)]
        parts += [Part("nothing departs", NothingDeparts(), 0.6, 0.5, is_forward=False)]
        chosen = ChosenCorrector(parts, certain.contexts, 2, certain.why)
        assert repr(chosen) == "ChosenCorrector(100% nothing departs)"

    def test_another_population_is_said_and_must_pay(self, world):
        # Calibration rows from theta ~ N(3, 1): evidence would pull them to the prior.
        rng = torch.Generator().manual_seed(40)
        prior = 1.25**0.5 * torch.randn(300, 2, generator=rng)
        found = fit_corrector(
            world.context,
            world.x_obs + 3.0,
            world.x_sim + 3.0,
            simulations=prior,
            density=log_density,
            seed=0,
        )
        assert "another population than the prior" in str(found.why)
        here = fit_corrector(
            world.context,
            world.x_obs,
            world.x_sim,
            simulations=prior,
            density=log_density,
            seed=0,
        )
        assert "another population" not in str(here.why)


def test_an_unseen_context_keeps_a_share_for_nothing_departs(world, certain):
    nothing = [part.unseen for part in certain.parts if part.name == "nothing departs"]
    # Three contexts, and two more: one in which nothing departed, one like the others.
    assert nothing[0] >= 1 / 5 - 1e-9
    with pytest.warns(UnseenContext):
        found = certain.corrections(torch.zeros(1, 2), ["something else"])
    weight = found.log_weight[(found.x[:, 0] == 0).all(dim=1), 0].exp().sum()
    assert weight >= 1 / 5 - 1e-6


@dataclass(frozen=True)
class Squares:
    """A departure that grows with the square of x."""

    is_shift = False

    def fit(self, x_obs):
        return self

    def basis(self, x):
        return torch.cat([x.new_ones(len(x), 1), x.square()], dim=1)

    def undo(self, x: Tensor, coefficients: Tensor):
        departure = torch.einsum("nq,knqd->knd", self.basis(x), coefficients)
        return x - departure, x.new_zeros(coefficients.shape[:2])


def test_a_new_proposal_joins_by_being_registered(monkeypatch):
    rng = torch.Generator().manual_seed(0)
    x_obs = torch.randn(N, 2, generator=rng)
    x_sim = x_obs - 0.4 * x_obs.square()
    context = ["odd", "even"] * (N // 2)
    before = fit_corrector(context, x_obs, x_sim, seed=0)
    assert "squares" not in str(before.why)
    squares = replace(
        PROPOSALS["affine"],
        words="a departure that grows with the square of x",
        departure=Squares(),
        fitting=lambda noise: RidgeWithResiduals(Ridge()),
    )
    monkeypatch.setitem(PROPOSALS, "squares", squares)
    found = fit_corrector(context, x_obs, x_sim, seed=0)
    assert share_of(found, "squares") > 0.9
    torch.testing.assert_close(found.correct(x_obs, context), x_sim, atol=0.02, rtol=0)
    tried = {one.name: one for one in found.why.tried}
    assert tried["squares"].words == "a departure that grows with the square of x"
    assert tried["squares"].score > tried["affine"].score
    # Where it is wrong it is tried and not chosen.
    elsewhere = fit_corrector(context, x_obs, x_obs - 1.0, seed=0)
    assert share_of(elsewhere, "squares") == 0.0


def test_a_proposal_that_does_not_suit_is_not_tried(world, monkeypatch):
    monkeypatch.setitem(
        PROPOSALS, "affine", replace(PROPOSALS["affine"], fewest_rows=N + 1)
    )
    found = fit_corrector(world.context, world.x_obs, world.x_sim, seed=0)
    assert "affine" not in [one.name for one in found.why.tried]
    pools = fit_corrector(world.context, world.x_obs, simulations=world.x_sim, seed=0)
    assert "affine by regression" not in [one.name for one in pools.why.tried]


def test_a_posterior_of_sbi_with_a_bounded_prior_is_normalised_quickly(monkeypatch):
    """A leaky density is normalised by draws: by few, while proposals are compared."""
    from ma_sbi.posteriors.sbi import DirectAdapter

    n, draws, propose = 40, [], DirectAdapter._propose

    def counted(self, num_samples, x):
        draws.append(num_samples * len(x))
        return propose(self, num_samples, x)

    monkeypatch.setattr(DirectAdapter, "_propose", counted)
    _, x_sim = sbi_simulations(n, seed=4)
    context = ["calm", "storm"] * (n // 2)
    shifts = torch.tensor([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0]]).repeat(n // 2, 1)
    found = fit_corrector(context, x_sim + shifts, x_sim, posterior=sbi_npe(), seed=0)
    assert share_of(found, "shift by context") > 0.9
    assert SBI_NOISE < 1  # the shift is five deviations of the posterior
    # Six proposals with no more than n + 1 candidates for n rows, each once within and
    # once without its context; a hundred draws normalise one density. Thirty times as
    # many would be the full normalisation.
    assert sum(draws) < 100 * (2 * 6 * n * (n + 1) + 50 * 20)
    assert math.isfinite(found.why.tried[2].score)


def within_box(x):
    """The log density of simulations that are uniform on [-1, 1]^2."""
    outside = (x.abs() > 1).any(dim=1)
    return torch.full((len(x),), -math.log(4.0)).to(x).masked_fill(outside, -torch.inf)


def boxed():
    rng = torch.Generator().manual_seed(50)
    x_sim = 2 * torch.rand(N, 2, generator=rng) - 1
    regime = torch.arange(N) % 3
    shifts = torch.tensor([[0.5, 0.0], [0.0, -0.5], [0.3, 0.3]])
    return [f"regime {one}" for one in regime], x_sim + shifts[regime], x_sim


class TestDifficultInput:
    def test_one_row_is_too_few(self, world):
        found = fit_corrector(
            world.context[:1], world.x_obs[:1], world.x_sim[:1], posterior=exact(), seed=0
        )
        assert "1 rows, in 1 groups, are too few" in str(found.why)

    def test_evidence_of_simulations_with_a_bounded_range(self):
        found = fit_corrector(*boxed(), density=within_box, seed=0)
        assert found.why.inference == "evidence"
        assert "nan" not in str(found.why)

    def test_pools_of_simulations_with_a_bounded_range(self):
        context, x_obs, x_sim = boxed()
        found = fit_corrector(context, x_obs, simulations=x_sim, density=within_box, seed=0)
        assert "NaN" not in found.why.to_json()
        assert all(math.isfinite(part.seen) for part in found.parts)

    def test_simulations_that_are_no_numbers(self, world):
        with pytest.raises(ValueError, match="x_sim must hold numbers"):
            fit_corrector(world.context, world.x_obs, "not data")

    def test_one_candidate_is_a_point(self, certain):
        assert certain.why.inference == "point"


def test_true_parameters_judge_where_they_are_known(world):
    posterior = exact()
    known = fit_corrector(
        world.context,
        world.x_obs,
        world.x_sim,
        posterior=posterior,
        theta=world.theta,
        seed=0,
    )
    assert known.why.scored_by == "the true parameters"
    # Parameters of other rows are explained by no correction.
    wrong = fit_corrector(
        world.context,
        world.x_obs,
        world.x_sim,
        posterior=posterior,
        theta=world.theta.flip(0),
        seed=0,
    )
    best = [max(one.score for one in found.why.tried) for found in (known, wrong)]
    assert best[0] > best[1] + 0.2
    with pytest.raises(ValueError, match="theta must have one row per observation"):
        fit_corrector(world.context, world.x_obs, world.x_sim, theta=world.theta[:3])


def test_the_score_of_all_together_is_that_of_the_only_one(certain, weighed):
    (only,) = (one for one in certain.why.tried if one.weight > 0.999)
    assert certain.why.gain == pytest.approx((only.score, only.error), abs=1e-3)
    assert "all together" in str(certain.why)
    # Together they are no worse than the best alone, up to what caution costs.
    best = max(one.score for one in weighed.why.tried)
    assert weighed.why.gain[0] > best - 0.05


def test_a_text_about_something_else_counts_as_missing():
    """Spelling stands for meaning here: no letters are shared."""
    notes = [f"sensor reads {how}" for how in ("high", "higher", "low", "lower")] * 20
    x_sim = torch.randn(80, 2, generator=torch.Generator().manual_seed(0))
    x_obs = x_sim + torch.tensor([[1.0, 0.0]] * 2 + [[-1.0, 0.0]] * 2).repeat(20, 1)
    corrector = fit_corrector(notes, x_obs, x_sim, encoder=HashEncoder(), seed=0)
    x = torch.zeros(1, 2)
    with pytest.warns(UnrelatedContext, match="far from all.*what is far counts as"):
        found = corrector.corrections(x, "QQQ ZZZ VVV")
    expected = corrector.corrections(x, None)
    assert found.x.equal(expected.x)
    assert found.log_weight.equal(expected.log_weight)
