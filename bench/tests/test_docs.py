"""Every Python block of the bench's pages runs, and the two packages go together."""

from pathlib import Path

import pytest

import ma_sbi
import ma_sbi_bench
from tests.pages import pages_with_code, run_code

PAGES = (Path(__file__).parents[2] / "docs" / "bench").rglob("*.md")


@pytest.mark.filterwarnings("ignore:training stopped at max_epochs")
@pytest.mark.parametrize("page", pages_with_code(PAGES), ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_code(page)


def test_both_packages_have_the_same_version():
    assert ma_sbi_bench.__version__ == ma_sbi.__version__
