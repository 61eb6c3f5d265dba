"""Tests for the response times, on small files written here."""

import pytest

from bench.tests.real import layouts
from ma_sbi_bench.real import (
    load_evans_hawkins,
    load_response_times,
    read_evans_hawkins,
    regime_texts,
)
from ma_sbi_bench.real.instructions import evans_hawkins
from ma_sbi_bench.real.instructions.load import TRIAL_COLUMNS


@pytest.fixture
def tidy(tmp_path, monkeypatch):
    monkeypatch.setenv("MA_SBI_DATA", str(layouts.write_tidy(tmp_path)))
    return tmp_path


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    return layouts.write_evans_hawkins(tmp_path_factory.mktemp("osf") / "project" / "Data")


def test_trials_carry_the_text_of_their_regime(tidy):
    trials = load_response_times("forstmann2008")
    assert list(trials.columns) == [*TRIAL_COLUMNS, "text"]
    assert trials["regime"].tolist() == ["speed", "accuracy"]
    assert trials["text"].tolist() == ["Be fast.", "Be right."]
    assert trials["rt"].tolist() == [0.31, 0.62]
    assert trials["correct"].tolist() == [1, 0]
    assert trials["response"].tolist() == ["left", "right"]


def test_excluded_trials_are_dropped_unless_asked_for(tidy):
    assert not load_response_times("forstmann2008")["exclude"].any()
    kept = load_response_times("forstmann2008", keep_excluded=True)
    assert kept["exclude"].tolist() == [False, False, True]


def test_difficulty_is_a_number_where_the_source_has_numbers(tidy):
    assert load_response_times("ratcliff_rouder1998_exp1")["difficulty"].tolist() == [8]
    assert load_response_times("cavanagh2011_dbs")["difficulty"].tolist() == ["HC"]
    assert load_response_times("forstmann2008")["difficulty"].isna().all()


def test_a_data_set_without_regimes_has_empty_texts(tidy):
    assert load_response_times("roitman_shadlen2002")["text"].tolist() == [""]
    assert regime_texts("roitman_shadlen2002") == {}


def test_texts_say_whether_they_are_verbatim(tidy):
    texts = regime_texts("forstmann2008")
    assert texts["speed"] == ("Be fast.", True)
    assert not texts["accuracy"].verbatim


def test_an_unknown_data_set_is_refused(tidy):
    for load in (load_response_times, regime_texts):
        with pytest.raises(ValueError, match="dataset must be one of .* got 'stroop'"):
            load("stroop")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t: t.rename(columns={"rt": "RT"}),
            "rt_trials.csv.gz must have the column 'rt', found 'dataset', 'subject'",
        ),
        (lambda t: t.assign(rt="fast"), "'rt' .* must be numbers, got 'fast'"),
        (lambda t: t.assign(rt=-0.1), "'rt' .* must be positive, got -0.1"),
        (lambda t: t.assign(correct=2), "'correct' .* must be 0 or 1, got 2"),
        (
            lambda t: t.assign(regime="hurry"),
            "must have a text .speed, accuracy.*got hurry",
        ),
        (lambda t: t[t["dataset"] != "forstmann2008"], "has no trials of forstmann2008"),
    ],
)
def test_changed_trials_are_refused(tidy, change, message):
    layouts.write_gz(change(layouts.trials_table()), tidy / "rt" / "rt_trials.csv.gz")
    with pytest.raises(ValueError, match=message):
        load_response_times("forstmann2008")


@pytest.mark.parametrize("text", ["{", "{}", '{"forstmann2008": {"speed": {}}}'])
def test_instructions_without_wording_are_refused(tidy, text):
    (tidy / "rt" / "instructions.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="must word the regimes of forstmann2008"):
        regime_texts("forstmann2008")


def test_without_the_folder_the_error_says_what_to_set(monkeypatch):
    monkeypatch.delenv("MA_SBI_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="rt_trials.csv.gz .* set MA_SBI_DATA"):
        load_response_times("forstmann2008")


def test_the_delay_is_between_subjects(sessions):
    trials = read_evans_hawkins(sessions)
    assert list(trials.columns) == [*TRIAL_COLUMNS, "text"]
    delayed = trials["subject"].astype(int) >= 12
    assert (trials["regime"][delayed] == "one_second").all()
    assert (trials["regime"][~delayed] == "no_delay").all()
    assert trials["text"].nunique() == 2


def test_slow_trials_first_blocks_and_one_session_are_left_out(sessions):
    trials = read_evans_hawkins(sessions)
    # Three of five trials per session, one session less.
    assert len(trials) == 3 * (21 * 10 - 1)
    assert trials["rt"].max() == 7.0
    assert trials["block"].min() == 2
    assert ((trials["subject"] == "06") & (trials["session"] == "01")).sum() == 0
    everything = read_evans_hawkins(sessions, keep_excluded=True)
    assert len(everything) == 5 * 21 * 10
    assert everything["exclude"].sum() == len(everything) - len(trials)


def test_times_are_seconds_and_coherence_a_fraction(sessions):
    first = read_evans_hawkins(sessions).iloc[:3]
    assert first["rt"].tolist() == [0.5, 0.75, 7.0]
    assert first["difficulty"].tolist() == [0.4, 0.0, 0.05]
    assert first["correct"].tolist() == [1, 0, 1]
    assert first["response"].isna().all()


def test_the_folder_is_found_further_down(sessions):
    assert len(read_evans_hawkins(sessions.parent.parent)) == 3 * 209


def test_a_trial_without_response_is_left_out(tmp_path):
    folder = layouts.write_evans_hawkins(tmp_path)
    layouts.write_session(
        folder / "0s_Delay" / "Sub03_Ses05.txt", [("", 2, 40, -1), (500, 2, 40, 1)]
    )
    assert len(read_evans_hawkins(folder)) == 3 * 208 + 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.replace("RT", "Time"), "must have a line that names RT, blkNum"),
        (lambda s: s.replace("500", "5oo"), "'RT' in Sub03_Ses05.txt .* got '5oo'"),
        (lambda s: s[:-8], "Sub03_Ses05.txt was cut off: its header names 6 columns"),
        (lambda s: s[: s.index("other") + 6], "cut off: .* a trial has 0"),
        (lambda s: s.replace("\t0\t0\t", "\t55\t0\t"), "'percentCoherence' .* got 0 to 55"),
        (lambda s: s.replace("\t0\t0\t", "\t0\t3\t"), "'correct' .* must be 0 or 1, got 3"),
    ],
)
def test_a_changed_session_is_refused(tmp_path, change, message):
    path = layouts.write_evans_hawkins(tmp_path) / "0s_Delay" / "Sub03_Ses05.txt"
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_evans_hawkins(tmp_path)


def test_a_missing_session_is_named(tmp_path):
    (layouts.write_evans_hawkins(tmp_path) / "1s_Delay" / "Sub20_Ses02.txt").unlink()
    with pytest.raises(FileNotFoundError, match="Sub20_Ses02.txt"):
        read_evans_hawkins(tmp_path)


def test_without_files_the_error_says_where_they_live(tmp_path, monkeypatch):
    monkeypatch.setenv("MA_SBI_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"are on OSF only \(https://osf.io/2vnam"):
        load_evans_hawkins()


def test_a_failing_download_says_where_they_live(monkeypatch):
    def fail(name):
        raise OSError(f"{name} could not be downloaded")

    monkeypatch.delenv("MA_SBI_DATA", raising=False)
    monkeypatch.setattr(evans_hawkins, "fetch", fail)
    with pytest.raises(OSError, match="are on OSF only .* could not be downloaded"):
        load_evans_hawkins()


def test_local_files_are_taken_before_a_download(tmp_path, monkeypatch):
    layouts.write_evans_hawkins(tmp_path / "rt" / "evans_hawkins")
    monkeypatch.setenv("MA_SBI_DATA", str(tmp_path))
    assert len(load_evans_hawkins()) == 3 * 209


def test_a_download_is_read(sessions, monkeypatch):
    monkeypatch.delenv("MA_SBI_DATA", raising=False)
    monkeypatch.setattr(evans_hawkins, "fetch", lambda name: sessions)
    assert len(load_evans_hawkins(keep_excluded=True)) == 5 * 210
