"""Tests for progress: what is shown, and how long it is said to take."""

import io
import math

import pytest
from rich.console import Console

from bench.tests.report.fake import Fake, Second
from ma_sbi_bench.engine.cell import Backbone
from ma_sbi_bench.engine.reproduction import Estimate
from ma_sbi_bench.engine.running import Done, Work
from ma_sbi_bench.report import progress
from ma_sbi_bench.report.progress import ProgressDisplay

POSTERIOR = Backbone("slcp", "maf", 0, 100)


def _work(tmp_path, method="npe", experiment=None, **known):
    experiment = experiment or Fake()
    return Work(experiment, experiment.cell(method, **known), tmp_path)


def test_time_left_comes_from_cells_of_the_same_method(tmp_path):
    estimate = Estimate(num_workers=2)
    slow, fast = _work(tmp_path, "rope"), _work(tmp_path, "npe")
    assert estimate.seconds([slow]) is None
    estimate.update(Done(slow, 100.0))
    estimate.update(Done(fast, 2.0))
    left = [_work(tmp_path, "rope", seed=1), _work(tmp_path, "npe", seed=1)]
    assert estimate.seconds(left) == pytest.approx((100 + 2) / 2)
    # For a new method: the mean of all.
    assert estimate.seconds([_work(tmp_path, "new")]) == pytest.approx(51 / 2)


def test_posteriors_are_estimated_from_posteriors(tmp_path):
    estimate = Estimate()
    training = Work(Fake(), POSTERIOR, tmp_path)
    estimate.update(Done(_work(tmp_path), 1.0))
    assert estimate.seconds([training]) is None
    estimate.update(Done(training, 60.0))
    another = Backbone("slcp", "maf", 1, 100)
    assert estimate.seconds([Work(Fake(), another, tmp_path)]) == 60.0
    assert estimate.seconds([_work(tmp_path, "new")]) == 1.0


def test_what_fails_at_once_does_not_make_the_rest_look_short(tmp_path):
    estimate = Estimate()
    estimate.update(Done(_work(tmp_path), 10.0))
    broken = _work(tmp_path, seed=1)
    estimate.update(Done(broken, 0.0, "no"))
    assert estimate.seconds([_work(tmp_path, seed=2)]) == 10.0


def _displayed(tmp_path, console):
    shared = [_work(tmp_path, seed=seed) for seed in range(40)]
    work = {"fake": shared, "second": [*shared[:10]], "done": []}
    with ProgressDisplay(work, Estimate(), console) as display:
        for k, one in enumerate(shared):
            display.update(Done(one, 1.0, "no" if k == 3 else ""))
    return display


def test_without_a_terminal_there_is_a_line_now_and_then(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", math.inf)  # by share alone
    stream = io.StringIO()
    display = _displayed(tmp_path, Console(file=stream, width=200))
    lines = [line for line in stream.getvalue().splitlines() if line]  # older rich adds one
    assert display.num_failures == 1
    assert len(lines) == 21  # at the start, then for every 5 %
    assert lines[0].startswith("0 of 40 done, fake: 40 to go, second: 10 to go")
    assert lines[1].startswith("2 of 40 done, 38 s left, fake: 38 to go")
    assert lines[-1].startswith("40 of 40 done, 1 failed")
    assert "\x1b" not in stream.getvalue()


def test_in_a_terminal_every_experiment_with_work_has_a_bar(tmp_path):
    stream = io.StringIO()
    console = Console(file=stream, width=120, force_terminal=True, color_system=None)
    _displayed(tmp_path, console)
    last = stream.getvalue().split("\x1b[2K")[-1].splitlines()[:3]
    assert [part.split()[0] for part in last] == ["all", "fake", "second"]
    assert ["40/40" in part or "10/10" in part for part in last] == [True] * 3
    assert "1 failed" in last[0]


def test_shared_work_counts_once_overall(tmp_path):
    stream = io.StringIO()
    mine, theirs = _work(tmp_path), _work(tmp_path, experiment=Second())
    with ProgressDisplay(
        {"fake": [mine], "second": [theirs]}, Estimate(), Console(file=stream)
    ):
        pass
    assert "0 of 1 done" in stream.getvalue()
