"""A saved corrector comes back the same, to the last bit, and its file runs no code."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from ma_sbi import (
    BootstrapCorrector,
    CategoryEncoder,
    ComposedCorrector,
    CorrectedPosterior,
    HashEncoder,
    NotSaved,
    SentenceEncoder,
    ShiftCorrector,
    cross_fit,
    fit_density,
    from_callable,
    load_corrector,
    load_posterior,
)
from ma_sbi.correctors import BaseCorrector, Mixture, Ridge, Shift
from ma_sbi.saved import Saved
from ma_sbi.storing.forms import FORMS, Shape
from ma_sbi.storing.packing import Packer
from ma_sbi.storing.unpacking import Unpacker
from tests.correctors.some_correctors import (
    CORRECTORS,
    chosen_with_own_density,
    context_of,
    corrector,
    normal,
    pool,
    rows,
    with_own_density,
    with_own_encoder,
)
from tests.some_posteriors import ddpm_posterior, flow_posterior, sbi_npe

X = torch.tensor([[0.0, 1.0], [2.0, -1.0], [0.3, 0.4], [9.0, -9.0]])


def _same(ours, theirs):
    return all(torch.equal(a, b) for a, b in zip(ours[:3], theirs[:3], strict=True))


@pytest.mark.filterwarnings("ignore")
class TestEveryCorrector:
    @pytest.fixture(params=CORRECTORS)
    def name(self, request):
        return request.param

    def test_corrects_the_same_to_the_last_bit(self, name, tmp_path):
        ours, context = corrector(name), context_of(name)
        ours.save(tmp_path / "model")
        theirs = load_corrector(tmp_path / "model")
        assert type(theirs) is type(ours)
        assert _same(ours.corrections(X, context), theirs.corrections(X, context))

    def test_says_the_same(self, name, tmp_path):
        ours, context = corrector(name), context_of(name)
        ours.save(tmp_path / "model")
        theirs = load_corrector(tmp_path / "model")
        assert getattr(theirs, "why", None) == getattr(ours, "why", None)
        assert repr(getattr(theirs, "why", "")) == repr(getattr(ours, "why", ""))
        if hasattr(ours, "unseen"):
            found, expected = theirs.unseen(context), ours.unseen(context)
            assert str(found) == str(expected)
            assert np.array_equal(found.far, expected.far)

    def test_is_written_the_same_again(self, name, tmp_path):
        corrector(name).save(tmp_path / "first")
        load_corrector(tmp_path / "first").save(tmp_path / "second")
        assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_every_registered_class_is_in_some_file():
    """A class that no corrector of the registry holds would not be tested at all."""
    used = set()

    def collect(node):
        if isinstance(node, dict):
            if node.get("is") == "object":
                used.add(node["class"])
            for one in node.values():
                collect(one)
        elif isinstance(node, list):
            for one in node:
                collect(one)

    for name in CORRECTORS:
        collect(Packer().pack(corrector(name)))
    # These have tests of their own.
    alone = {"Kept", "Shown", "TableColumns", "SentenceEncoder"}
    alone |= {"LinearMap", "CurveMap", "MixingMap"}
    assert FORMS.keys() - used <= alone


@pytest.mark.text
def test_meanings_are_read_the_same(tmp_path):
    notes = ["The sensor reads high.", "All is well."] * 30
    _, x_obs, x_sim = rows()
    ours = ShiftCorrector(SentenceEncoder()).fit(notes, x_obs, x_sim)
    ours.save(tmp_path / "model")
    theirs = load_corrector(tmp_path / "model")
    context = [*notes[:3], "Readings are too large."]
    assert torch.equal(ours.correct(X, context), theirs.correct(X, context))


def test_forward_maps_of_every_kind_come_back():
    from ma_sbi.correctors.forward_maps import MAPS

    x = torch.rand(40, 3, generator=torch.Generator().manual_seed(0)).double() + 0.1
    for _, fit in MAPS.values():
        ours = fit(x, x * 1.5, x)
        packer = Packer()
        tree = packer.pack(ours)
        saved = Saved("a file", {}, {"tensors": packer.tensors})
        theirs = Unpacker(saved, {}, {}).unpack(json.loads(json.dumps(tree)))
        assert torch.equal(theirs(x), ours(x))


@pytest.mark.slow
def test_it_is_the_same_in_another_process(tmp_path):
    ours = corrector("chosen with a density")
    ours.save(tmp_path / "model")
    torch.save(X, tmp_path / "x")
    program = (
        "import sys, torch; from ma_sbi import load_corrector\n"
        f"torch.set_num_threads({torch.get_num_threads()})\n"
        "folder = sys.argv[1]; x = torch.load(folder + '/x')\n"
        "found = load_corrector(folder + '/model').corrections(x, ['calm'] * 4)\n"
        "torch.save(tuple(found[:3]), folder + '/found')"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    found = torch.load(tmp_path / "found")
    assert _same(ours.corrections(X, ["calm"] * 4), found)


@pytest.mark.parametrize(
    "label",
    [1, 1.0, True, "1", "", "ü\ud800", np.float32(0.1), 2**70, -0.0, pd.Timestamp(5)],
    ids=repr,
)
def test_a_label_keeps_its_type(label, tmp_path):
    from ma_sbi.storing.cells import pack_cells, unpack_cells

    expected = label.item() if isinstance(label, np.generic) else label
    (found,) = unpack_cells(pack_cells([label]))
    assert type(found) is type(expected)
    assert found == expected
    assert str(found) == str(expected)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1, 2], dtype="int16"),
        pd.Series([1.5, None]),
        pd.Series(["a", None], dtype="string"),
        pd.Series(["a", "b"], dtype="str"),
        pd.Series([1, None], dtype="Int64"),
        pd.Series([True, False]),
        pd.Series(pd.to_datetime(["2024-01-01", None])),
        pd.Series(pd.to_datetime(["2024-07-01 12:00"]).tz_localize("Europe/Berlin")),
        pd.Series(pd.Categorical(["a", None], ["b", "a"], ordered=True)),
    ],
    ids=lambda column: str(column.dtype),
)
def test_a_column_of_contexts_keeps_its_type(column):
    packer = Packer()
    tree = json.loads(json.dumps(packer.pack(column)))
    saved = Saved("a file", {}, {"tensors": packer.tensors})
    found = Unpacker(saved, {}, {}).unpack(tree)
    pd.testing.assert_series_equal(found, column)


class TestWhatIsYours:
    def test_an_encoder_of_scikit_learn_is_passed_again(self, tmp_path):
        ours = with_own_encoder()
        with pytest.warns(NotSaved, match="the encoder is a TfidfVectorizer"):
            ours.save(tmp_path / "model")
        with pytest.raises(ValueError, match="does not hold its encoder.* pass .*encoder="):
            load_corrector(tmp_path / "model")
        theirs = load_corrector(tmp_path / "model", encoder=ours.encoder_)
        context = ["a", "b", None, "a"][:2] * 2
        assert _same(ours.corrections(X, context), theirs.corrections(X, context))

    @pytest.mark.parametrize("make", [with_own_density, chosen_with_own_density])
    def test_a_density_is_passed_again(self, make, tmp_path):
        ours = make()
        with pytest.warns(NotSaved, match="the density is a function"):
            ours.save(tmp_path / "model")
        with pytest.raises(ValueError, match="does not hold its density"):
            load_corrector(tmp_path / "model")
        theirs = load_corrector(tmp_path / "model", density=normal)
        assert _same(ours.corrections(X, ["calm"] * 4), theirs.corrections(X, ["calm"] * 4))

    def test_another_density_is_found_out(self, tmp_path):
        with pytest.warns(NotSaved):
            with_own_density().save(tmp_path / "model")
        with pytest.raises(ValueError, match="differently .* is this the density"):
            load_corrector(tmp_path / "model", density=lambda x: normal(3 * x - 2))

    @pytest.mark.parametrize(
        "encoder", [HashEncoder(), CategoryEncoder().fit(["a", "b", "c"])]
    )
    def test_another_encoder_is_found_out(self, encoder, tmp_path):
        with pytest.warns(NotSaved):
            with_own_encoder().save(tmp_path / "model")
        with pytest.raises(ValueError, match="is this the encoder|columns"):
            load_corrector(tmp_path / "model", encoder=encoder)

    def test_what_is_not_needed_is_not_taken(self, tmp_path):
        corrector("shift").save(tmp_path / "model")
        with pytest.raises(ValueError, match="holds its encoder, or needs none"):
            load_corrector(tmp_path / "model", encoder=HashEncoder())

    def test_a_corrector_of_your_own_is_refused(self, tmp_path):
        class Own(BaseCorrector):
            def corrections(self, x, context):
                return corrector("shift").corrections(x, context)

        class Derived(ShiftCorrector):
            pass

        derived = Derived(HashEncoder()).fit(*rows(), seed=0)
        for one in (Own(), derived):
            with pytest.raises(ValueError, match="is code that ma-sbi does not know"):
                one.save(tmp_path / "model")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        "spans",
        [
            pd.Series(pd.to_timedelta(np.arange(5), unit="h")),
            pd.Series([pd.Timedelta(hours=1).to_pytimedelta(), None], dtype=object),
        ],
        ids=["column", "objects"],
    )
    def test_spans_of_time_come_back(self, spans):
        packer = Packer()
        tree = packer.pack(spans)
        saved = Saved("a file", {}, {"tensors": packer.tensors})
        pd.testing.assert_series_equal(Unpacker(saved, {}, {}).unpack(tree), spans)

    def test_cells_that_are_named_often_are_made_once(self, monkeypatch):
        packer = Packer()
        column = packer.pack(pd.Series([f"label {i}" for i in range(1000)], dtype=object))
        tree = {"is": "list", "items": [column] * 10_000}
        saved = Saved("a file", {}, {"tensors": packer.tensors})
        made = Unpacker(saved, {}, {}).unpack(tree)
        assert all(one is made[0] for one in made)
        # Written in other ways they are others, and soon too many.
        tree["items"] = [column | {"more": i} for i in range(10_000)]
        with pytest.raises(ValueError, match="more cells than its tensors can have"):
            Unpacker(saved, {}, {}).unpack(tree)

    def test_a_context_of_lists_is_refused(self, tmp_path):
        with pytest.raises(ValueError, match="only texts, numbers, dates"):
            Packer().pack(pd.Series([("a", 1)], dtype=object))


def test_one_that_is_not_fitted_is_refused(tmp_path):
    plain = ComposedCorrector(HashEncoder(), Shift(), Ridge(), Mixture())
    with pytest.raises(ValueError, match="not fitted yet"):
        plain.save(tmp_path / "model")


def test_a_cross_fitted_one_is_refused(tmp_path):
    with pytest.raises(ValueError, match="only the observations that it was fitted"):
        cross_fit(BootstrapCorrector(CategoryEncoder())).save(tmp_path / "model")


def test_a_forward_corrector_from_a_file_cannot_be_fitted_again(tmp_path):
    corrector("forward").save(tmp_path / "model")
    with pytest.raises(ValueError, match="make a new one"):
        load_corrector(tmp_path / "model").fit(*rows())


def test_what_it_read_again_is_not_its_own_memory(tmp_path):
    """Tensors must not be views of a file that may change."""
    corrector("bootstrap").save(tmp_path / "model")
    theirs = load_corrector(tmp_path / "model")
    expected = theirs.correct(X, ["calm"] * 4)
    size = (tmp_path / "model").stat().st_size
    (tmp_path / "model").write_bytes(bytes(size))
    assert torch.equal(theirs.correct(X, ["calm"] * 4), expected)


POSTERIORS = {
    "flow": (flow_posterior, {}),
    "ddpm, deterministic": (lambda: ddpm_posterior().deterministic(10), {}),
    "sbi": (
        lambda: __import__("ma_sbi").from_sbi(sbi_npe()),
        {"network": "zuko_maf", "num_transforms": 2, "hidden_features": (32,)},
    ),
}


def _corrector_of_three():
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(40, 3, generator=rng)
    fitted = BootstrapCorrector(CategoryEncoder())
    return fitted.fit(["a", "b"] * 20, x + 0.3 * torch.randn(40, 3, generator=rng), x)


@pytest.mark.parametrize("name", POSTERIORS)
def test_a_corrected_posterior_draws_the_same(name, tmp_path):
    make, options = POSTERIORS[name]
    ours = CorrectedPosterior(make(), _corrector_of_three())
    ours.save(tmp_path / "model", **options)
    theirs = CorrectedPosterior.load(tmp_path / "model")
    x, context = 0.1 * torch.ones(3, 3), ["a", "b", "a"]
    drawn = [one.sample(20, x, context, seed=1) for one in (ours, theirs)]
    assert torch.equal(*drawn)
    if ours.has_density and not ours.posterior.expensive_density:
        theta = drawn[0].clamp(-1, 1)
        assert torch.equal(*(one.log_prob(theta, x, context) for one in (ours, theirs)))
    for load in (load_posterior, load_corrector):
        with pytest.raises(ValueError, match="corrected posterior"):
            load(tmp_path / "model")


def test_a_posterior_that_is_code_is_refused_before_anything_is_written(tmp_path):
    posterior = from_callable(lambda n, x: x + torch.zeros(n, 3))
    with pytest.raises(ValueError, match="save the corrector alone"):
        CorrectedPosterior(posterior, _corrector_of_three()).save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_files_of_others_are_told_apart(tmp_path):
    fit_density(pool(100), hidden=(4,), flow="maf", max_epochs=1, seed=0).save(
        tmp_path / "density"
    )
    corrector("shift").save(tmp_path / "corrector")
    with pytest.raises(ValueError, match="holds 'density', expected 'corrector'"):
        load_corrector(tmp_path / "density")
    with pytest.raises(ValueError, match="load_corrector reads it"):
        load_posterior(tmp_path / "corrector")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("n dim_x", Shape(("n", "dim_x"))),
        ("n dim_x?", Shape(("n", "dim_x"), finite=False)),
        ("n < m", Shape(("n",), "m")),
        ("<10", Shape((), "10")),
        ("...?", Shape(None, finite=False)),
        ("?", Shape(None, finite=False)),
    ],
)
def test_shapes_are_read(words, expected):
    assert Shape.read(words) == expected


def test_saving_says_nothing_where_nothing_is_left_out(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        corrector("chosen with a density").save(tmp_path / "model")
        load_corrector(tmp_path / "model")
