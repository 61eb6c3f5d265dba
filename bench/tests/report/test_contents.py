"""Tests for what a report holds: counts, verdicts, provenance, JSON."""

import json
from dataclasses import replace
from functools import partial
from importlib.metadata import version

import pandas as pd

from bench.tests.report.fake import Breaking, Fake, Lacking, Second, finished, gathered
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.cell import Measurement
from ma_sbi_bench.engine.running import cells_in
from ma_sbi_bench.engine.store import PROCESSOR_SECONDS, Store
from ma_sbi_bench.report.contents import gather
from ma_sbi_bench.report.hours import Spent, hours_table
from ma_sbi_bench.tables.presentation import Presentation
from ma_sbi_bench.tables.training import TRAINING_SECONDS
from ma_sbi_bench.trials.run import CELL_PARTS


def test_verdicts_are_counted_by_experiment(tmp_path):
    report = gathered([Fake()], Budget(), finished(tmp_path))
    # npe and rival agree, ours is lower by more than its noise, far is higher.
    counts = report.verdicts
    assert counts == {"reproduced": 2, "better": 1, "not reproduced": 1}
    assert report.conclusion == (
        "Of 4 printed figures: 2 reproduced, 1 better, 1 not reproduced, 0 too noisy."
    )


def test_a_figure_in_two_tables_counts_once_and_what_follows_from_others_never(tmp_path):
    store = finished(tmp_path)
    with_figure = {
        one.name: Presentation(partial(lines_with_figure, one())) for one in (Fake, Second)
    }
    report = gather([Fake(), Second()], Budget(), store, with_figure)
    first, second = report.verdicts_by_section
    assert first == {"reproduced": 1, "better": 1, "not reproduced": 1}
    # Its other lines stand in a table of another name.
    assert second == {"better": 1, "not reproduced": 1}
    assert report.verdicts == first + second


def lines_with_figure(experiment, rows):
    """One figure that both have, and one that only follows from others."""
    of_both = {"npe": {"figure": ("npe",)}, "rival": {"derived": True}}
    return [
        replace(line, **of_both.get(line.labels["method"], {}))
        for line in experiment.lines(rows)
    ]


def test_a_figure_of_the_paper_without_an_interval_of_ours_has_no_verdict(tmp_path):
    budget = Budget(seeds=1)
    report = gathered([Fake()], budget, finished(tmp_path, budget=budget))
    assert "No figure of the paper has a verdict yet; 4 more" in report.conclusion


def test_cells_that_experiments_share_count_once(tmp_path):
    report = gathered([Fake(), Second()], Budget(), finished(tmp_path))
    num = len(Fake().cells(Budget()))
    found = report.provenance
    assert (found.num_finished, found.num_cells) == (num, num)
    assert found.seconds == 2.0 * num
    assert found.sample_counts == {
        "seeds": (3,),
        "calibration rows": (5,),
        "draws": (1000,),
    }
    assert found.versions["ma-sbi"] == (version("ma-sbi"),)


def test_hours_are_the_processors_where_they_are_known_and_of_cells_once(tmp_path):
    store = finished(tmp_path)
    first, *others = Fake().cells(Budget())
    took = [
        Measurement("seconds", seconds, ", ".join(CELL_PARTS))
        for seconds in ((1.0, 2.0, 5.0, 2.0), (0.0, 9.0, 1.0, 0.0))
    ]
    # The processor's seconds of parts go before those of the clock.
    for cell, seconds in zip((first, others[0]), took, strict=True):
        store.write(cell, [*Fake().run(cell, None), seconds], 3600.0, "meta")
    # The metric of another experiment that has the same name; the clock is all there is.
    store.write(others[1], [Measurement("seconds", (50.0,))], 1800.0, "meta")
    store.write(others[2], Fake().run(others[2], None), 7290.0)
    table = gathered([Fake(), Second()], Budget(), store).hours
    heads = [column.head for column in table.columns[1:]]
    assert heads == ["cells", "hours", "of them by the clock", *CELL_PARTS]
    texts = {row[0].text: [entry.text for entry in row[1:]] for row in table.rows}
    # 20 seconds of parts, 17 cells of two, half an hour, and two hours with 90 seconds.
    shares = ["5 %", "55 %", "30 %", "10 %"]
    assert texts[Fake().title] == ["21", "2.54", "0.50", *shares]
    assert texts[Second().title] == ["0", "0.00", "", "", "", "", ""]


def test_hours_of_the_paper_stand_apart_from_those_beyond_it_and_from_training():
    def spent(title, place, metric="c2st", value=0.5):
        known = {"metric": [metric], "recipe": [""], "value": [value], "values": [[value]]}
        about = {"key": [title], "seconds": [3600.0], "versions": [PROCESSOR_SECONDS]}
        return Spent(title, place, pd.DataFrame(known | about))

    ours = [spent("a", ""), spent("b", "")]
    trained = spent("training", "", TRAINING_SECONDS, 1800.0)
    table = hours_table([*ours, spent("theirs", "Table 1"), trained])
    assert [(row[0].text, row[2].text) for row in table.rows] == [
        ("theirs", "1.00"),
        ("training", "1.50"),
        ("a", "1.00"),
        ("b", "1.00"),
        ("All of the paper", "1.00"),
        ("All of the paper, and training", "2.50"),
        ("All beyond the paper", "2.00"),
    ]


def test_only_finished_cells_are_shown_and_the_others_counted(tmp_path):
    store, fake = Store(cells_in(tmp_path)), Fake()
    cells = fake.cells(Budget())
    for cell in cells[:6]:
        store.write(cell, fake.run(cell, None), seconds=1.0)
    (section,) = gathered([fake], Budget(), store).sections
    assert (section.num_finished, len(section.cells)) == (6, len(cells))
    assert [line.labels["method"] for line in section.lines] == ["npe", "ours"]


def test_nothing_finished_is_nothing_to_show(tmp_path):
    report = gathered([Fake()], Budget(), Store(cells_in(tmp_path)))
    assert not report.sections[0].has_results
    assert report.provenance.facts["Cells finished"] == "0 of 21"
    assert report.provenance.facts["Commits (+: changed since)"] == "unknown"


def test_tables_and_figures_that_fail_say_why_and_stop_nothing(tmp_path):
    store = finished(tmp_path)
    breaking = Breaking()
    for cell in breaking.cells(Budget())[:1]:
        store.write(cell, breaking.run(cell, None), seconds=1.0)
    fake, broken = gathered([Fake(), breaking], Budget(), store).sections
    assert len(fake.lines) == 7
    warnings = [
        block.text for block in broken.blocks() if getattr(block, "kind", "") == "warning"
    ]
    assert warnings == [
        "The tables of breaking could not be made: KeyError: 'no such line'",
        "The figures of breaking could not be drawn: ValueError: no such figure",
    ]


def test_what_is_missing_is_said_only_while_cells_are_left(tmp_path):
    store = Store(cells_in(tmp_path))
    assert gathered([Lacking()], Budget(), store).sections[0].missing
    store = finished(tmp_path, Lacking())
    assert gathered([Lacking()], Budget(), store).sections[0].missing == ""


def test_json_has_every_field_and_null_where_there_is_no_number(tmp_path):
    store = finished(tmp_path, budget=Budget(quick=True))
    report = gathered([Fake()], Budget(quick=True), store)
    found = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert found["budget"] == "quick"
    assert found["provenance"]["num_finished"] == 14
    (experiment,) = found["experiments"]
    assert (experiment["finished"], experiment["cells"]) == (14, 14)
    line = experiment["lines"][1]
    assert line["labels"] == {"method": "ours", "n": 400}
    assert line["raw"]["paper"] == 0.75
    assert line["raw"]["verdict"] == line["verdict"] == "better"
    assert line["closed"]["value"] is None
    assert line["closed"]["reason"] == "gap 0.1 within noise"


def test_a_quick_report_says_so():
    quick, full = (
        gathered([], Budget(quick=one), Store("nowhere")) for one in (True, False)
    )
    assert "quick" in quick.title
    assert "quick run" in quick.headline[1].text
    assert "quick" not in full.title
    assert len(full.headline) == 1
