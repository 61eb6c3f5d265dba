"""Ways to damage a small finished store, and what each must cost: itself, and no more.

``CASES`` names them. ``try_case`` damages a store, goes on as ``ma-sbi reproduce`` does,
and says what came of it; a test compares that with what is expected, a script may count it.
"""

import csv
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from bench.tests.engine.tiny import Tiny
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.leftovers import held
from ma_sbi_bench.engine.records import checksum
from ma_sbi_bench.engine.reproduction import Reproduction
from ma_sbi_bench.engine.running import cells_in, run

EXPERIMENT = Tiny()
BUDGET = Budget(seeds=3)
SET_ASIDE = "set aside and computed again"
AGAIN = "computed again"
REFUSED = "refused"
COUNTS = "counts as it is"


@dataclass(frozen=True)
class Case:
    """A damage.

    Attributes:
        harm: Does it, to the file of a cell or to a CSV file of committed rows.
        expected: What must come of it.
        said: What must be said of it.
    """

    harm: Callable[[Path], None]
    expected: str
    said: str = ""


def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def rewritten(old, new):
    """Replace a text, once."""

    def harm(file):
        content = file.read_text("utf-8")
        assert old in content, "nothing to damage"
        file.write_text(content.replace(old, new, 1), "utf-8")

    return harm


def overwritten(content):
    return lambda file: file.write_bytes(content)


def forged(change):
    """Change a record and give it the checksum of what it says now."""

    def harm(file):
        record = json.loads(file.read_text("utf-8"))
        change(record)
        record["checksum"] = checksum(record)
        file.write_text(json.dumps(record), "utf-8")

    return harm


def without_checksum(file):
    """Write a file as it was before there were checksums."""
    if file.suffix == ".json":
        record = json.loads(file.read_text("utf-8"))
        del record["checksum"]
        file.write_text(json.dumps(record), "utf-8")
    else:
        edit_rows(lambda rows: [row.pop("checksum") for row in rows])(file)


def edit_rows(change):
    """Change the rows of a CSV file."""

    def harm(file):
        with file.open(newline="", encoding="utf-8") as text:
            rows = list(csv.DictReader(text))
        change(rows)
        with file.open("w", newline="", encoding="utf-8") as text:
            writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    return harm


def in_turn(*harms):
    def harm(file):
        for one in harms:
            one(file)

    return harm


def lose_characters(text):
    """Cut three characters out of the middle of the first number."""
    first, *others = text.split()
    return " ".join([first[:2] + first[5:], *others])


def lose_characters_of_values(file):
    record = json.loads(file.read_text("utf-8"))
    text = record["measured"][0]["values"]
    rewritten(text, lose_characters(text))(file)


def another_cells_record(file):
    other = next(one for one in file.parent.glob("*.json") if one != file)
    file.write_bytes(other.read_bytes())


def replaced_by(make):
    def harm(file):
        file.unlink()
        make(file)

    return harm


def link_to(name):
    """Put a link in the place of a file, to something that is made beside the folder."""

    def make(file):
        target = file.parent.parent / name
        if name == "pipe":
            os.mkfifo(target)
        elif name == "folder":
            target.mkdir()
        file.symlink_to(file if name == "itself" else target)

    return make


def _set(record, name, value):
    record["measured"][0][name] = value


ESCAPE = "\x1b]0;owned\x07\x1b[31m"
CELLS = {
    "cut in the middle": Case(cut, SET_ASIDE, "cut off, or no JSON"),
    "empty": Case(overwritten(b""), SET_ASIDE, "cut off, or no JSON"),
    "zeros, as after a power cut": Case(overwritten(bytes(900)), SET_ASIDE, "no JSON"),
    "not UTF-8": Case(overwritten(b"\xff\xfe\x80"), SET_ASIDE, "no JSON"),
    "nested without end": Case(overwritten(b"[" * 10**5), SET_ASIDE, "no JSON"),
    "a list": Case(overwritten(b"[1, 2]"), SET_ASIDE, "it must hold cell"),
    "three characters cut": Case(lose_characters_of_values, SET_ASIDE, "checksum"),
    "a digit of the time": Case(rewritten('"seconds": 0', '"seconds": 1'), SET_ASIDE),
    "record of another cell": Case(another_cells_record, SET_ASIDE, "its name says"),
    "another method": Case(
        forged(lambda one: one["cell"].update(method="other")), SET_ASIDE, "its name says"
    ),
    "a cell with one more field": Case(
        forged(lambda one: one["cell"].update(extra=1)), SET_ASIDE, "its name says"
    ),
    "no metrics": Case(
        forged(lambda one: one.update(measured=[])), SET_ASIDE, "no numbers"
    ),
    "values that are no numbers": Case(
        forged(lambda one: _set(one, "values", "0.1 high")), SET_ASIDE, "must be numbers"
    ),
    "values that are a list": Case(
        forged(lambda one: _set(one, "values", [0.1])), SET_ASIDE, "must be numbers"
    ),
    "a time that is none": Case(
        forged(lambda one: one.update(seconds="long")), SET_ASIDE, "must be a time"
    ),
    "escapes in a metric": Case(
        forged(lambda one: _set(one, "metric", ESCAPE)), SET_ASIDE, "printable"
    ),
    "escapes in a commit": Case(
        forged(lambda one: one.update(commit=ESCAPE)), SET_ASIDE, "printable"
    ),
    "escapes in a version": Case(
        forged(lambda one: one["versions"].update({ESCAPE: "1"})), SET_ASIDE, "printable"
    ),
    "a folder": Case(replaced_by(Path.mkdir), SET_ASIDE, "not a plain file"),
    "a pipe": Case(replaced_by(os.mkfifo), SET_ASIDE, "not a plain file"),
    "a link to a folder": Case(
        replaced_by(link_to("folder")), SET_ASIDE, "not a plain file"
    ),
    "a link to a pipe": Case(replaced_by(link_to("pipe")), SET_ASIDE, "not a plain file"),
    "a link to nothing": Case(replaced_by(link_to("nothing")), AGAIN),
    "a link to itself": Case(replaced_by(link_to("itself")), AGAIN),
    "gone": Case(Path.unlink, AGAIN),
    "written before there were checksums": Case(without_checksum, COUNTS),
}
"""Damages of one cell's file, of three."""


def _first(name, change):
    return edit_rows(lambda rows: rows[0].update({name: change(rows[0][name])}))


ROWS = {
    "cut in the middle of a row": Case(
        lambda file: file.write_bytes(file.read_bytes()[:-30]), REFUSED, "line 7"
    ),
    "cut within the last field": Case(
        lambda file: file.write_bytes(file.read_bytes()[:-3]), REFUSED, "line 7"
    ),
    "empty": Case(overwritten(b""), REFUSED, "is empty"),
    "not UTF-8": Case(
        lambda file: file.write_bytes(file.read_bytes() + b"\xff\xfe"), REFUSED, "damaged"
    ),
    "zeros": Case(
        lambda file: file.write_bytes(file.read_bytes() + bytes(50)), REFUSED, "rows.csv"
    ),
    "a quote that never ends": Case(rewritten("\ntiny", '\n"tiny'), REFUSED, "rows.csv"),
    "a name of a column": Case(rewritten(",key", ",kee"), REFUSED, "not a file of results"),
    "three characters cut": Case(_first("values", lose_characters), REFUSED, "line 2"),
    "three characters cut, no checksums": Case(
        in_turn(without_checksum, _first("values", lose_characters)), REFUSED, "line 2"
    ),
    "a last digit": Case(
        _first("values", lambda text: text[:-1] + str((int(text[-1]) + 1) % 10)),
        REFUSED,
        "line 2",
    ),
    "one value less": Case(
        _first("values", lambda text: text.rpartition(" ")[0]), REFUSED, "num_cases is '3'"
    ),
    "another number of cases": Case(
        _first("num_cases", lambda text: "4"), REFUSED, "line 2: num_cases is '4'"
    ),
    "another mean": Case(_first("value", lambda text: "1"), REFUSED, "line 2: value is"),
    "a mean that is no number": Case(_first("value", lambda text: "x"), REFUSED, "line 2"),
    "another method": Case(_first("method", lambda text: "other"), REFUSED, "line"),
    "another key": Case(_first("key", lambda text: "0" * 20), REFUSED, "line 2"),
    "a seed that is no number": Case(_first("seed", lambda text: "x"), REFUSED, "line 2"),
    "settings that are no JSON": Case(_first("settings", lambda t: "{"), REFUSED, "line 2"),
    "settings nested without end": Case(
        _first("settings", lambda text: "[" * 10**5), REFUSED, "line 2"
    ),
    "escapes in a commit, no checksums": Case(
        in_turn(
            without_checksum,
            edit_rows(lambda rows: [row.update(commit=ESCAPE) for row in rows]),
        ),
        REFUSED,
        "printable",
    ),
    "a row twice": Case(edit_rows(lambda rows: rows.insert(1, rows[0])), REFUSED, "line 2"),
    "a row of two gone": Case(edit_rows(lambda rows: rows.pop(0)), REFUSED, "line 2"),
    "a folder": Case(replaced_by(Path.mkdir), REFUSED, "not a plain file"),
    "a pipe": Case(replaced_by(os.mkfifo), REFUSED, "not a plain file"),
    "a link to nothing": Case(replaced_by(link_to("nothing")), REFUSED, "not a plain file"),
    "all rows of a cell gone": Case(
        edit_rows(lambda rows: [rows.pop(0) for _ in range(2)]), AGAIN
    ),
    "written before there were checksums": Case(without_checksum, COUNTS),
}
"""Damages of a CSV file of committed rows, two for each of three cells."""

CASES = {f"cell: {name}": case for name, case in CELLS.items()} | {
    f"rows: {name}": case for name, case in ROWS.items()
}


def try_case(name, folder):
    """Damage a finished store and go on.

    Args:
        name: One of ``CASES``.
        folder: An empty folder.

    Returns:
        What came of it: one of the outcomes that a case may expect, or what is wrong.
        And what was said of the damage.
    """
    case, of_rows = CASES[name], name.startswith("rows: ")
    out, results = folder / "out", folder / "results"
    asked = Reproduction([EXPERIMENT], BUDGET, out)
    cells = EXPERIMENT.cells(BUDGET)
    assert run(asked.work()[EXPERIMENT.name]) == []
    expected = asked.store.rows(cells)
    file = cells_in(asked.out) / f"{cells[0].key}.json"
    if of_rows:
        file = results / "rows.csv"
        asked.store.export(cells, file)
        out = folder / "fresh"
    case.harm(file)
    asked = Reproduction([EXPERIMENT], BUDGET, out, results if of_rows else None)
    try:
        with held(asked.out):
            moved = asked.set_aside()
            work = asked.work()[EXPERIMENT.name]
            failures = run(work)
    except ValueError as error:
        return (REFUSED if "rows.csv" in str(error) else "names no file"), str(error)
    return _outcome(asked, moved, work, failures, expected), " ".join(moved.values())


def _outcome(asked, moved, work, failures, expected):
    if failures:
        return f"failed: {failures[0].error}"
    if not all(os.path.lexists(file) and file.parent.name == "damaged" for file in moved):
        return "not kept"
    if len(work) > 1:
        return f"{len(work)} cells computed again"
    fresh = Reproduction(asked.experiments, asked.budget, asked.out, asked.results)
    rows = fresh.store.rows(EXPERIMENT.cells(BUDGET))
    own = ["seconds", "commit"]
    try:
        pd.testing.assert_frame_equal(
            rows.drop(columns=own), expected.drop(columns=own), check_exact=True
        )
    except AssertionError as error:
        return f"other numbers: {error}"
    if fresh.damaged() or fresh.work()[EXPERIMENT.name]:
        return "still damaged"
    if not work:
        return COUNTS
    return SET_ASIDE if moved else AGAIN
