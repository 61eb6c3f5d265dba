"""Tests for the Markdown pages."""

import re
from dataclasses import replace

from markdown_it import MarkdownIt

from bench.tests.report.fake import Fake, finished, gathered
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.report.contents import gather
from ma_sbi_bench.report.markdown import write_markdown
from ma_sbi_bench.tables.presentation import Presentation


def test_there_is_a_page_of_verdicts_and_one_per_experiment(tmp_path):
    report = gathered([Fake()], Budget(), finished(tmp_path))
    page = tmp_path / "docs" / "results.md"
    write_markdown(report, page)
    assert report.problems == []
    text = page.read_text(encoding="utf-8")
    verdicts = "| 2 | 1 | 1 |  |  | 21 of 21 | Table 9 |"
    assert f"| [Fake & sound](results/fake.md) {verdicts}" in text
    assert "- **reproduced**: The paper's figure lies within" in text
    assert re.search(r"```{toctree}\n:hidden:\n\nresults/fake\n```", text)
    assert "0.722" not in text
    text = (page.parent / "results" / "fake.md").read_text(encoding="utf-8")
    assert text.startswith("# Fake & sound\n\nIn the paper: Table 9. Experiment `fake`, ")
    assert "21 of 21 cells finished.\n" in text
    assert "What `ours` is \\<here>." in text
    assert re.search(
        r"^\| ours \| 400 \| better \| 0\.750 \| 0\.722 \[", text, re.MULTILINE
    )
    (link,) = re.findall(r"!\[.*\]\((.*)\)", text)
    assert link == "figures/fake_how_far.png"
    assert (page.parent / "results" / link).read_bytes().startswith(b"\x89PNG")


def test_the_papers_own_method_has_a_page(tmp_path):
    own = Own()
    shown = {"fake": Presentation(own.lines)}
    report = gather([own], Budget(), finished(tmp_path, own), shown)
    write_markdown(report, tmp_path / "results.md")
    assert "](results/own_method.md)" in (tmp_path / "results.md").read_text("utf-8")
    page = (tmp_path / "results" / "own_method.md").read_text("utf-8")
    row = "1200 | C2ST | not reproduced | 0.700 | 0.853 ["
    assert f"| [Fake & sound](fake.md) | {row}" in page


class Own(Fake):
    def lines(self, rows):
        (line,) = [one for one in super().lines(rows) if one.labels["method"] == "far"]
        return [replace(line, labels={"method": "ma_sbi_paper", "n": 1200})]


def test_texts_are_not_read_as_markdown(tmp_path):
    report = gathered([Fake()], Budget(), finished(tmp_path))
    write_markdown(report, tmp_path / "results.md")
    text = (tmp_path / "results" / "fake.md").read_text(encoding="utf-8")
    html = MarkdownIt("commonmark").enable("table").render(text)
    assert "<script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; | [a](b) `x` $y$ *z* " in html
    assert "\x1b" not in html


def test_the_same_store_gives_the_same_page(tmp_path):
    report = gathered([Fake()], Budget(), finished(tmp_path))
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
