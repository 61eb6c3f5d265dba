"""Tests for ma_sbi_bench.engine.models."""

import os
from dataclasses import replace

import pytest
import torch

from ma_sbi import fit_density
from ma_sbi_bench.engine import models
from ma_sbi_bench.engine.cell import Backbone
from ma_sbi_bench.engine.models import Models, fit_backbone
from ma_sbi_bench.methods import NNPE, Materials, Simulations
from ma_sbi_bench.tasks import get_task

pytestmark = pytest.mark.filterwarnings("ignore:training stopped at max_epochs")
MAF = Backbone(
    "gaussian_linear",
    "maf",
    seed=0,
    num_simulations=200,
    world_options={"dim": 2},
    options={"max_epochs": 2},
)
KINDS = {
    "maf": MAF,
    "embedded": replace(MAF, kind="embedded"),
    "ddpm": replace(MAF, kind="ddpm", options={"epochs": 2}),
    "nnpe": replace(MAF, kind="nnpe"),
}


@pytest.fixture
def counted(monkeypatch):
    """Count trainings."""
    trained = []
    train = models.train

    def counting(one, device):
        trained.append(one)
        return train(one, device)

    monkeypatch.setattr(models, "train", counting)
    return trained


@pytest.mark.parametrize("kind", KINDS)
def test_a_posterior_is_trained_once_and_read_afterwards(tmp_path, counted, kind):
    x = torch.zeros(1, 2)
    draws = [Models(tmp_path).posterior(KINDS[kind]).sample(5, x, seed=1) for _ in range(2)]
    assert counted == [KINDS[kind]]
    torch.testing.assert_close(draws[0], draws[1], rtol=0, atol=0)
    names = {f"{KINDS[kind].key}{suffix}" for suffix in (".posterior", ".sha256", ".json")}
    assert {one.name for one in tmp_path.iterdir()} == names


def test_training_depends_on_the_definition_alone(tmp_path):
    x = torch.zeros(1, 2)
    first, again = (
        Models(tmp_path / name).posterior(MAF).sample(5, x, seed=1) for name in "ab"
    )
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    other = Models(tmp_path / "a").posterior(replace(MAF, seed=1))
    assert not torch.equal(other.sample(5, x, seed=1), first)


def test_a_training_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(backbone, device):
        raise RuntimeError("diverged")

    monkeypatch.setattr(models, "train", fail)
    folder = Models(tmp_path / "posteriors")
    with pytest.raises(RuntimeError, match="diverged"):
        folder.posterior(MAF)
    assert not folder.has(MAF)


def cut_off(file):
    file.write_bytes(file.read_bytes()[:-100])


def flip_a_bit(file):
    content = bytearray(file.read_bytes())
    content[-5] ^= 1
    file.write_bytes(bytes(content))


def become_a_pipe(file):
    file.unlink()
    os.mkfifo(file)


DAMAGES = {
    "cut off": (cut_off, "not a file that ma-sbi saved"),
    "one bit of a weight": (flip_a_bit, "the checksum is another"),
    "a pipe": (become_a_pipe, "not a plain file"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_posterior_is_set_aside_and_trained_again(tmp_path, counted, damage):
    do_damage, said = DAMAGES[damage]
    x = torch.zeros(1, 2)
    first = Models(tmp_path).posterior(MAF).sample(5, x, seed=1)
    do_damage(tmp_path / f"{MAF.key}.posterior")
    again = Models(tmp_path)
    assert not again.has(MAF)
    (how,) = again.damaged([MAF]).values()
    assert said in how
    torch.testing.assert_close(again.posterior(MAF).sample(5, x, seed=1), first)
    assert counted == [MAF, MAF]
    assert again.has(MAF)
    assert [one.name for one in (tmp_path / "damaged").iterdir()] == [
        f"{MAF.key}.posterior"
    ]


def test_a_posterior_without_a_checksum_is_read(tmp_path, counted):
    Models(tmp_path).posterior(MAF)
    (tmp_path / f"{MAF.key}.sha256").unlink()
    Models(tmp_path).posterior(MAF)
    assert counted == [MAF]


def test_a_file_that_is_half_written_does_not_count(tmp_path):
    (tmp_path / f"{MAF.key}.0123.unfinished").write_bytes(b"half")
    assert not Models(tmp_path).has(MAF)


def test_simulations_are_those_of_the_task(tmp_path, monkeypatch):
    seen = {}

    def fit(prior, theta, x, *, seed, max_epochs, device):
        seen.update(theta=theta, x=x, seed=seed)
        raise RuntimeError("seen enough")

    monkeypatch.setitem(models.kinds(), "maf", (fit, None))
    with pytest.raises(RuntimeError, match="seen enough"):
        Models(tmp_path).posterior(replace(MAF, seed=7))
    draws = get_task("gaussian_linear", dim=2).draw(200, seed=7)
    assert torch.equal(seen["theta"], draws.theta)
    assert torch.equal(seen["x"], draws.x_sim)
    assert seen["seed"] == 7


@pytest.mark.parametrize(
    ("backbone", "message"),
    [
        (replace(MAF, world="nowhere"), "there is no world 'nowhere'"),
        (replace(MAF, kind="tree"), "there is no posterior 'tree'; known are ddpm, maf"),
    ],
    ids=["world", "kind"],
)
def test_what_is_not_known_is_refused(tmp_path, backbone, message):
    with pytest.raises(ValueError, match=message):
        Models(tmp_path).posterior(backbone)


def test_fit_backbone_is_the_training_of_a_kind():
    with pytest.raises(ValueError, match="there is no posterior 'tree'"):
        fit_backbone("tree")
    assert fit_backbone("maf", max_epochs=3).keywords["max_epochs"] == 3


def test_a_density_is_trained_once_on_the_first_simulations_of_the_posterior(tmp_path):
    options = {"max_epochs": 2}
    definition = replace(MAF, kind="density", options=options | {"most_simulations": 150})
    x = get_task("gaussian_linear", dim=2).draw(200, seed=0).x_sim
    expected = fit_density(x[:150], seed=0, **options)(x)
    for _ in range(2):
        torch.testing.assert_close(Models(tmp_path).posterior(definition)(x), expected)


def test_nnpe_trained_once_is_the_method_fitted_in_a_trial(tmp_path):
    task = get_task("gaussian_linear", dim=2)
    train = task.draw(200, seed=0)
    given = Materials(prior=task.prior, simulations=Simulations(train.theta, train.x_sim))
    fitted = NNPE(fit_backbone("maf", max_epochs=2)).fit(given, seed=0)
    read = Models(tmp_path).posterior(KINDS["nnpe"])
    x = torch.tensor([[0.5, -1.0]])
    torch.testing.assert_close(
        read.log_prob(train.theta[:5, None], x), fitted.log_prob(train.theta[:5, None], x)
    )
