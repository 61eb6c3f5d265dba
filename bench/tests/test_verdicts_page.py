"""The tables of the page on verdicts are those of the results."""

from pathlib import Path

import pytest

from bench.benchmarks.check_tables import tables

PAGE = Path(__file__).parents[2] / "docs" / "bench" / "verdicts.md"


@pytest.mark.parametrize("number", range(4))
def test_a_table_of_the_page_is_that_of_the_results(number):
    assert list(tables())[number] in PAGE.read_text(encoding="utf-8")
