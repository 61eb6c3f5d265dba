"""Every Python block of the README and of the library's pages runs."""

import re
from pathlib import Path

import pytest

from tests.pages import code_of, pages_with_code, run_code

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *DOCS.glob("*.md"), *(DOCS / "how_to").glob("*.md")]


def with_its_needs(page):
    """Mark a page that needs the extra ``text``."""
    marks = [pytest.mark.text] if "SentenceEncoder" in code_of(page) else []
    return pytest.param(page, id=page.stem, marks=marks)


@pytest.mark.filterwarnings("ignore:training stopped at max_epochs")
@pytest.mark.parametrize("page", [with_its_needs(page) for page in pages_with_code(PAGES)])
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_code(page)


@pytest.mark.parametrize("page", pages_with_code(PAGES), ids=lambda page: page.stem)
def test_the_librarys_pages_do_not_need_the_bench(page):
    assert "ma_sbi_bench" not in code_of(page)


def test_the_links_of_the_readme_lead_somewhere():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_changelog_names_the_version():
    from ma_sbi import __version__

    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"version: {__version__}\n" in (ROOT / "CITATION.cff").read_text(
        encoding="utf-8"
    )
