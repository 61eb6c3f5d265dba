"""Tests for the Markdown page."""

import re

from markdown_it import MarkdownIt

from bench.tests.report.fake import Fake, finished
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.report.contents import gather
from ma_sbi_bench.report.markdown import write_markdown


def test_the_page_has_its_tables_and_its_figures_beside_it(tmp_path):
    report = gather([Fake()], Budget(), finished(tmp_path))
    page = tmp_path / "docs" / "results.md"
    assert write_markdown(report, page) == []
    text = page.read_text(encoding="utf-8")
    assert re.search(
        r"^\| ours \| 400 \| better \| 0\.750 \| 0\.722 \[", text, re.MULTILINE
    )
    assert "| Fake & sound | 2 | 1 | 1 |  |  | 21 of 21 | Table 9 |" in text
    (link,) = re.findall(r"!\[.*\]\((.*)\)", text)
    assert link == "figures/results/fake_how_far.png"
    assert (page.parent / link).read_bytes().startswith(b"\x89PNG")


def test_texts_are_not_read_as_markdown(tmp_path):
    page = tmp_path / "results.md"
    write_markdown(gather([Fake()], Budget(), finished(tmp_path)), page)
    text = page.read_text(encoding="utf-8")
    html = MarkdownIt("commonmark").enable("table").render(text)
    assert "<script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; | [a](b) `x` $y$ *z* " in html
    assert "\x1b" not in html


def test_the_same_store_gives_the_same_page(tmp_path):
    report = gather([Fake()], Budget(), finished(tmp_path))
    for name in ("one", "two"):
        write_markdown(report, tmp_path / name / "results.md")
    one, two = (
        {
            file.relative_to(tmp_path / name): file.read_bytes()
            for file in (tmp_path / name).rglob("*")
            if file.is_file()
        }
        for name in ("one", "two")
    )
    assert one == two
