"""Tests for the page and the terminal: whatever a context contains, it is only text."""

import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console

import ma_sbi
from ma_sbi.checking.rendering import pictures

EVIL = [
    "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "[bold red]markup[/bold red] [/]",
    "\x1b[31mred\x1b[0m \x07 $\\frac{1}{",
    "-->]]></svg></style><b>out</b>",
    "普通的日子 🌧",
]
# A page of this kind has no need of others.
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "div", "strong"),
    *(
        "ul",
        "li",
        "p",
        "dl",
        "dt",
        "dd",
        "pre",
        "figure",
        "figcaption",
        "details",
        "summary",
    ),
    *("svg", "defs", "g", "path", "use", "clippath", "rect", "text", "tspan"),
}


def evil_check(**options):
    rng = np.random.default_rng(0)
    x_sim = rng.normal(size=(200, 3))
    regime = rng.integers(len(EVIL), size=200)
    shifts = rng.normal(size=(len(EVIL), 3))
    context = np.array(EVIL, dtype=object)[regime]
    return ma_sbi.check(x_sim + shifts[regime], context, x_sim=x_sim, seed=0, **options)


@pytest.fixture(scope="module")
def check():
    return evil_check()


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen, self.attributes, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.attributes += attributes

    def handle_data(self, data):
        self.text.append(data)


def parse(page):
    parser = Tags()
    parser.feed(page)
    return parser


def test_the_page_holds_only_its_own_tags_and_the_texts_as_texts(check, tmp_path):
    check.to_html(tmp_path / "page.html")
    page = parse((tmp_path / "page.html").read_text(encoding="utf-8"))
    assert set(page.seen) <= TAGS, set(page.seen) - TAGS
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert any("<script>" in text for text in page.text)  # a label of a plot
    assert any("普通的日子" in text for text in page.text)


def test_the_page_needs_nothing_from_elsewhere(check, tmp_path):
    check.to_html(tmp_path / "page.html")
    page = parse((tmp_path / "page.html").read_text(encoding="utf-8"))
    links = [
        value
        for name, value in page.attributes
        if name in ("src", "href", "xlink:href") and not value.startswith("#")
    ]
    assert links == []
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes


def test_every_picture_is_drawn_in_the_ink_of_the_page(check):
    drawn = pictures(check)
    assert len(drawn) == 4  # options, information, departures, before and after
    for picture in drawn:
        assert "<svg" in picture
        assert "currentColor" in picture.replace("currentcolor", "currentColor")
        assert not re.search(r"<svg[^>]* width=", picture)


def test_the_terminal_takes_markup_for_text_and_obeys_no_escape(check):
    from dataclasses import replace

    changed = replace(check, reasons=tuple(EVIL), notes=tuple(EVIL))
    stream = io.StringIO()
    Console(file=stream, width=200).print(changed)
    output = stream.getvalue()
    assert "[bold red]markup[/bold red] [/]" in output
    assert "\x1b" not in output
    assert "\x07" not in output


def test_a_page_without_simulations_has_no_pictures_and_still_a_verdict(check, tmp_path):
    x = np.random.default_rng(0).normal(size=(60, 2))
    bare = ma_sbi.check(x, ["a", "b"] * 30, seed=0)
    bare.to_html(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<svg" not in text
    assert "Do not use" in text
