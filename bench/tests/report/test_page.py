"""Tests for the page as it is written; test_page_in_chromium.py sees it in a browser."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from bench.tests.report.fake import EVIL, Breaking, Fake, finished, gathered
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.report.page import write_page


class Seen(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    write_page(gathered([Fake()], Budget(), finished(folder)), folder / "page.html")
    return (folder / "page.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def seen(page):
    parser = Seen()
    parser.feed(page)
    return parser


def test_texts_are_only_texts(seen):
    assert EVIL.replace("\x1b", "\ufffd") in seen.text
    assert seen.tags.count("script") == 1
    assert "i" not in seen.tags  # of the caption
    assert not [name for name, _ in seen.attributes if name.startswith("on")]


def test_the_page_needs_nothing_from_elsewhere(seen):
    links = [value for name, value in seen.attributes if name in ("src", "href")]
    assert [link for link in links if not link.startswith("#")] == []


def test_only_the_pages_own_script_may_run(page, seen):
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert ("content", policy) in seen.attributes


def test_a_quick_page_says_so_in_its_title_and_every_heading(tmp_path):
    budget = Budget(quick=True)
    report = gathered([Fake()], budget, finished(tmp_path, budget=budget))
    write_page(report, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    heads = re.findall(r"<title>(.*?)</title>|<h1>(.*?)</h1>|<h2>(.*?)</h2>", page)
    named = ["".join(head) for head in heads][:3]
    assert all("quick run" in head for head in named), named


def test_what_cannot_be_drawn_is_said_on_the_page_too(tmp_path):
    store = finished(tmp_path, type("Half", (Breaking,), {"methods": ("npe",)})())
    report = gathered([Breaking()], Budget(), store)
    write_page(report, tmp_path / "page.html")
    warnings = report.problems
    assert ["no such line" in warnings[0], "no such figure" in warnings[1]] == [True] * 2
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "no such figure" in page
    assert "no such line" in page
