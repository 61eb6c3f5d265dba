"""Long work shows itself to a person, and to nobody who does not ask."""

import io
import logging
from contextlib import contextmanager, redirect_stderr

import pandas as pd
import pytest
import torch
from torch.distributions import MultivariateNormal

from ma_sbi import (
    CorrectedPosterior,
    HashEncoder,
    ShiftCorrector,
    check,
    fit_corrector,
    fit_ddpm,
    fit_density,
    fit_flow,
    from_callable,
)
from ma_sbi.cli import app
from ma_sbi.display.progress import parts, quiet, say, showing, steps
from ma_sbi.plots import plot_coverage

X = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
NOTES = ["high", "fine"] * 20
OBS = X + torch.tensor([[1.0, 0.0], [0.0, 0.0]]).repeat(20, 1)
POOL = torch.randn(100, 2, generator=torch.Generator().manual_seed(1))
PRIOR = MultivariateNormal(torch.zeros(2), torch.eye(2))
POSTERIOR = from_callable(
    lambda n, x: x + torch.randn(n, 2), lambda theta, x: -(theta - x).square().sum(dim=-1)
)


def corrected():
    corrector = ShiftCorrector(HashEncoder()).fit(NOTES, OBS, X)
    return CorrectedPosterior(POSTERIOR, corrector)


LONG = {
    "check": lambda show: check(OBS, NOTES, x_sim=X, seed=0, show_progress=show),
    "fit_corrector": lambda show: fit_corrector(NOTES, OBS, X, seed=0, show_progress=show),
    "fit_flow": lambda show: fit_flow(
        PRIOR, X, X, max_epochs=2, num_transforms=1, seed=0, show_progress=show
    ),
    "fit_ddpm": lambda show: fit_ddpm(
        PRIOR, X, X, epochs=2, hidden=8, seed=0, show_progress=show
    ),
    "plot_coverage": lambda show: plot_coverage(
        corrected(),
        X,
        OBS,
        NOTES,
        num_samples=20,
        show_progress=show,
    ),
    "sample": lambda show: corrected().sample(3, OBS, NOTES, seed=0, show_progress=show),
    "log_prob": lambda show: corrected().log_prob(X[None], OBS, NOTES, show_progress=show),
    "fit_density": lambda show: fit_density(
        POOL, max_epochs=2, num_transforms=1, seed=0, show_progress=show
    ),
}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@contextmanager
def watched():
    """A person looks at a terminal, and does not wait."""
    screen = Terminal()
    with redirect_stderr(screen), pytest.MonkeyPatch.context() as patch:
        patch.setattr("ma_sbi.display.progress.DELAY", 0.0)
        patch.setattr("ma_sbi.display.progress.PAUSE", 0.0)
        yield screen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LONG)
def test_long_work_shows_itself_and_leaves_nothing_behind(name, capsys):
    with watched() as terminal:
        LONG[name](None)
    assert "[00:0" in terminal.getvalue()
    assert terminal.getvalue().split("\r")[-1].strip() == ""
    assert capsys.readouterr().out == ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LONG)
def test_it_is_silent_where_asked(name, capsys):
    with watched() as terminal:
        LONG[name](False)
    assert terminal.getvalue() == capsys.readouterr().out == ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LONG)
def test_scripts_see_it_only_where_asked(name, capsys):
    LONG[name](None)
    assert capsys.readouterr() == ("", "")


def test_work_that_is_part_of_other_work_leaves_it_to_that():
    with watched() as terminal:
        with showing("All of it"):
            list(steps(range(3), "A part"))
            say("Still all of it")
        assert "A part" not in terminal.getvalue()
        assert "Still all of it" in terminal.getvalue()
        list(steps(range(3), "A part"))
        assert "A part" in terminal.getvalue()


def test_draws_say_how_far_they_are(monkeypatch):
    monkeypatch.setattr("ma_sbi.mixture.ROWS_AT_ONCE", 8)
    with watched() as terminal, showing("All of it"):
        assert list(parts("abc", "part")) == ["a", "b", "c"]
        say("All is done")
    assert "All of it: part 1 of 3" in terminal.getvalue()
    with watched() as terminal:
        corrected().sample(3, OBS, NOTES, seed=0)
    assert "Drawing: block 1 of 5" in terminal.getvalue()


def test_parts_put_back_what_was_said_before():
    with watched() as terminal, showing("All of it"):
        list(parts(range(2), "part"))
        for _ in parts(range(2), "block"):
            list(parts(range(2), "part"))
    assert "All of it: block 2 of 2: part 2 of 2" in terminal.getvalue()
    assert "part 2 of 2: block" not in terminal.getvalue()


def test_silence_holds_for_the_parts():
    with watched() as terminal, showing("All of it", show_progress=False):
        list(steps(range(3), "A part"))
    assert terminal.getvalue() == ""


def test_what_was_chosen_is_in_the_log(caplog):
    with caplog.at_level(logging.INFO, logger="ma_sbi"):
        why = fit_corrector(NOTES, OBS, X, seed=0).why
    assert str(why) in caplog.text
    assert all(record.name.startswith("ma_sbi.") for record in caplog.records)


@pytest.mark.text
def test_nothing_of_hugging_face_is_seen(caplog, capfd):
    from ma_sbi import SentenceEncoder, minilm

    minilm.load_minilm.cache_clear()
    with caplog.at_level(logging.DEBUG, logger="transformers"):
        SentenceEncoder().fit_transform(["The sensor reads high.", "All is well."])
    assert [one for one in caplog.records if not one.name.startswith("ma_sbi")] == []
    assert capfd.readouterr() == ("", "")


def test_quiet_silences_all_but_what_is_asked_to_show_itself():
    with watched() as terminal:
        with quiet(True):
            list(steps(range(3), "A part"))
        assert terminal.getvalue() == ""
        with quiet(True):
            list(steps(range(3), "A part", show_progress=True))
        assert "A part" in terminal.getvalue()
        with quiet(False):
            list(steps(range(3), "Another"))
        assert "Another" in terminal.getvalue()


@pytest.mark.parametrize("command", ["check", "fit", "correct"])
def test_every_command_can_be_quiet(command, tmp_path):
    table, model, out = (str(tmp_path / name) for name in ("t.csv", "m.model", "o.csv"))
    columns = {"context": NOTES, "x_obs": OBS[:, 0], "x_sim": X[:, 0]}
    pd.DataFrame(columns).to_csv(table, index=False)
    lines = {
        "check": ["check", table],
        "fit": ["fit", table, "--out", model],
        "correct": ["correct", table, "--model", model, "--out", out],
    }
    with watched() as terminal, pytest.MonkeyPatch.context() as patch:
        # A console asks the environment, too.
        patch.setenv("FORCE_COLOR", "1")
        app(lines["fit"], standalone_mode=False)
        shown = {}
        for options in ([], ["--quiet"]):
            before = len(terminal.getvalue())
            app(lines[command] + options, standalone_mode=False)
            shown[bool(options)] = terminal.getvalue()[before:]
    assert shown[False] != ""
    assert shown[True] == ""
