"""The committed pages say what the committed rows give, and no figure has two verdicts."""

import re
from pathlib import Path

import pytest

from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.engine.store import Store
from ma_sbi_bench.report.contents import gather
from ma_sbi_bench.report.markdown import make_pages
from ma_sbi_bench.tables.registry import EXPERIMENTS

REPOSITORY = Path(__file__).parents[3]
PAGE = REPOSITORY / "docs" / "bench" / "results.md"
# A figure and its caption, between paragraphs.
FIGURE = re.compile(r"!\[.*\]\(figures/.*\.png\)\n\n\*.*\*\n\n")

# Intervals come from bootstraps.
pytestmark = pytest.mark.fixed_seeds


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("none"), REPOSITORY / "bench" / "results")
    return gather(list(EXPERIMENTS.values()), Budget(), store)


def test_every_page_is_what_the_rows_give(report):
    pages = dict(make_pages(report, PAGE, figures=False))
    assert report.problems == []
    committed = {
        file: FIGURE.sub("", file.read_text(encoding="utf-8"))
        for file in (PAGE, *PAGE.with_suffix("").glob("*.md"))
    }
    assert pages.keys() == committed.keys()
    stale = [file.name for file, text in pages.items() if text != committed[file]]
    assert stale == [], "generate them anew: ma-sbi report all --markdown FILE"


def test_no_figure_of_the_paper_has_two_verdicts(report):
    found = {}
    for section in report.sections:
        for figure, verdict in section.figures_of_paper.items():
            found.setdefault(figure, set()).add(verdict)
    assert {figure: some for figure, some in found.items() if len(some) > 1} == {}
    # Some figures do stand in several tables.
    assert len(found) < sum(len(one.figures_of_paper) for one in report.sections)


def test_the_conclusion_counts_what_the_tables_show(report):
    by_section = report.verdicts_by_section
    assert sum(map(len, report.summary.rows)) > 0
    assert report.verdicts == sum(by_section[1:], start=by_section[0])
    assert report.verdicts.total() == len(
        {figure for one in report.sections for figure in one.figures_of_paper}
    )
