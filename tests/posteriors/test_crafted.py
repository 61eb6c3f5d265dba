"""Model files that somebody crafted are refused, in a sentence and at once."""

import json
import os

import pytest
import torch
from typer.testing import CliRunner

from ma_sbi import load_posterior
from ma_sbi.cli import app
from ma_sbi.saved import Saved, num_weights
from tests.crafted_models import (
    BYTES,
    ESCAPE,
    KINDS,
    LOADERS,
    PLACES,
    make,
    names,
    refusal,
    valid_file,
)
from tests.largest import NewTensors

SLACK_BYTES = 200_000


@pytest.mark.parametrize("name", names())
def test_a_crafted_file_is_refused_in_a_sentence(name, tmp_path):
    crafted = make(name, tmp_path)
    with NewTensors() as new:
        said = refusal(crafted)
    assert said is not None
    assert str(crafted.path) in said
    assert len(said) < 1000
    assert said.isprintable()
    held = crafted.path.stat().st_size if crafted.path.is_file() else 0
    # A tensor is read, copied and compared a few times.
    assert new.num_bytes <= 8 * held + SLACK_BYTES


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_that_was_crafted_from_is_accepted(kind, tmp_path):
    assert LOADERS[kind](valid_file(kind, tmp_path / "model")) is not None


@pytest.mark.parametrize("name", [one for one in names() if one.startswith("flow")])
def test_whatever_its_kind_it_is_no_posterior(name, tmp_path):
    crafted = make(name, tmp_path)
    assert refusal(crafted._replace(load=load_posterior)) is not None


ON_THE_COMMAND_LINE = [
    "flow: flow dim_x = 1000000000",
    "flow: a weight is NaN",
    "flow: a kind of 900 kB",
    "flow: a kind with an escape sequence",
    "flow: a tensor with an escape sequence in its name",
    "flow: deep nesting",
    *(f"flow: {name}" for name in BYTES if name in ("empty", "a pickle", "a text")),
    *(f"flow: {name}" for name in PLACES),
]


@pytest.mark.parametrize("name", ON_THE_COMMAND_LINE)
def test_the_command_line_refuses_it_without_a_traceback(name, tmp_path):
    rows = tmp_path / "rows.csv"
    lines = [f"{'ab'[row % 2]},{row},{row % 7}\n" for row in range(30)]
    rows.write_text("context,x_obs_0,x_sim_0\n" + "".join(lines))
    crafted = make(name, tmp_path)
    result = CliRunner().invoke(app, ["check", str(rows), "--posterior", str(crafted.path)])
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert "crafted model" in result.stderr
    assert len(result.stderr) < 3000
    assert "\x1b" not in result.stderr


def test_a_name_of_a_file_cannot_reach_the_terminal(tmp_path):
    path = tmp_path / f"a{ESCAPE}b".replace("/", "")
    path.write_text("no tensors")
    with pytest.raises(ValueError, match="not a file that ma-sbi saved") as caught:
        load_posterior(path)
    assert str(caught.value).isprintable()


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there is no such device")
def test_a_device_is_not_read():
    with pytest.raises(ValueError, match="a pipe or a device"):
        load_posterior("/dev/zero")


def test_weights_are_counted_between_layers():
    assert num_weights([3, 5, 2]) == 3 * 5 + 5 * 2


def _saved(**settings):
    return Saved("a file", settings, {"net": {"weight": torch.zeros(4, 5)}})


def test_as_many_weights_as_there_are_numbers_are_allowed():
    _saved().require_weights(["net"], layers=1, weights=20)
    with pytest.raises(
        ValueError, match="a file does not fit .* 21 weights, .* 20 numbers"
    ):
        _saved().require_weights(["net"], layers=1, weights=21)
    with pytest.raises(ValueError, match="claims 2 layers .* holds 1 tensors"):
        _saved().require_weights(["net"], layers=2, weights=20)


def test_a_network_is_filled_with_its_own_tensors_only():
    linear = torch.nn.Linear(5, 4, bias=False)
    assert torch.equal(_saved().fill(linear, "net").weight, torch.zeros(4, 5))
    with pytest.raises(ValueError, match="lacks tensor 'net/bias'; pass it"):
        _saved().fill(torch.nn.Linear(5, 4), "net", "; pass it")
    with pytest.raises(ValueError, match=r"shape \(4, 5\), expected .* \(5, 4\)"):
        _saved().fill(torch.nn.Linear(4, 5, bias=False), "net")


def test_numbers_that_are_not_finite_are_not_written(tmp_path):
    from ma_sbi.saving import write

    with pytest.raises(ValueError, match="net/weight is not finite"):
        write(
            tmp_path / "model", "flow", {}, {"net": {"weight": torch.tensor([torch.nan])}}
        )
    with pytest.raises(ValueError, match="not JSON compliant"):
        write(tmp_path / "model", "flow", {"loss": float("nan")}, {})
    assert list(tmp_path.iterdir()) == []


def test_registered_names_are_distinct():
    assert len(set(names())) == len(names()) >= 100
    json.dumps(names())
