"""Tests for the page in a real browser: Debian's chromium, driven by chromedriver."""

import json
import shutil

import pytest

from bench.tests.report.fake import Fake, finished, gathered
from ma_sbi_bench.engine.budget import Budget
from ma_sbi_bench.report.page import write_page

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver"
)


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for option in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{option}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    write_page(gathered([Fake()], Budget(), finished(folder)), folder / "page.html")
    return folder / "page.html"


@pytest.fixture
def page(browser, file):
    for kind in ("browser", "performance"):
        browser.get_log(kind)  # of the page before
    browser.get(file.as_uri())
    return browser


def _table(page):
    return page.find_element("css selector", "#fake .sortable")


def _column(table, head):
    heads = [one.text for one in table.find_elements("css selector", "th")]
    index = next(k for k, text in enumerate(heads, start=1) if text.startswith(head))
    rows = table.find_elements("css selector", "tbody tr")
    shown = [row for row in rows if row.is_displayed()]
    cells = [row.find_element("css selector", f"td:nth-child({index})") for row in shown]
    return [cell.text for cell in cells]


def _head(table, name):
    heads = table.find_elements("css selector", "th")
    return next(head for head in heads if head.text.startswith(name))


def test_it_loads_without_errors_or_requests(page, file):
    assert page.find_element("css selector", "h1").text == "The MA-SBI paper, checked"
    assert page.get_log("browser") == []
    events = [json.loads(entry["message"]) for entry in page.get_log("performance")]
    asked = [
        event["message"]["params"]["request"]["url"]
        for event in events
        if event["message"]["method"] == "Network.requestWillBeSent"
    ]
    assert set(asked) == {file.as_uri()}


def test_a_click_on_a_head_sorts_by_number_and_another_reverses(page):
    table = _table(page)
    head = _head(table, "C2ST: ours")
    head.find_element("css selector", "button").click()
    ours = [float(text.split()[0]) for text in _column(table, "C2ST: ours")]
    assert ours == sorted(ours)
    assert ours[-1] > 10  # as a text, 10.5 would come first
    assert head.get_attribute("aria-sort") == "ascending"
    head.find_element("css selector", "button").click()
    again = [float(text.split()[0]) for text in _column(table, "C2ST: ours")]
    assert again == ours[::-1]
    assert head.get_attribute("aria-sort") == "descending"


def test_blanks_come_last_in_either_order(page):
    table = _table(page)
    button = _head(table, "C2ST: paper").find_element("css selector", "button")
    for wanted in (
        ["0.700", "0.750", "0.802", "0.900"],
        ["0.900", "0.802", "0.750", "0.700"],
    ):
        button.click()
        assert _column(table, "C2ST: paper") == [*wanted, "", "", ""]


def test_a_head_can_be_used_from_the_keyboard(page):
    table = _table(page)
    head = _head(table, "method")
    head.find_element("css selector", "button").send_keys("\ue007")  # Enter
    assert head.get_attribute("aria-sort") == "ascending"
    methods = _column(table, "method")
    assert methods[1:] == ["far", "npe", "oracle", "ours", "rival", "tenth"]


def test_the_filter_hides_rows_and_gives_them_back(page):
    table = _table(page)
    field = table.find_element("css selector", "input")
    field.send_keys("NOT repro")
    assert _column(table, "method") == ["far"]
    assert table.find_element("css selector", ".shown").text == "1 of 7 rows"
    for _ in range(len("NOT repro")):
        field.send_keys("\ue003")  # Backspace
    assert len(_column(table, "method")) == 7


def test_figures_are_there(page):
    (figure,) = page.find_elements("css selector", "#fake figure svg")
    assert figure.size["width"] > 300
    assert figure.size["height"] > 100
    caption = page.find_element("css selector", "#fake figcaption").text
    assert caption == "How far they are: <i>so</i>."


@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_is_wider_than_the_window(page, width):
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.refresh()
        inner = page.execute_script("return document.documentElement.clientWidth")
        wide = page.execute_script("return document.documentElement.scrollWidth")
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert inner == width
    assert wide <= width


def test_colours_follow_the_system(page):
    colours = []
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        body = page.find_element("css selector", "body")
        colours.append(body.value_of_css_property("background-color"))
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert colours[0] != colours[1]
