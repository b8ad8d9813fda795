"""The demo's page as one visitor among many: in their own locale, on a phone, and with more tabs than connections."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.demo import demo

SLOW = 45_000
"""Milliseconds: a real service, on a busy machine."""
TURN = """state => {
  Object.defineProperty(document, 'visibilityState', { value: state, configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
}"""
"""The tab goes to the front or to the back."""

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("demo")]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[str]:
    with demo(tmp_path_factory.mktemp("visit")) as address:
        yield address


@pytest.fixture
def german(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 390, "height": 844}, locale="de-DE", timezone_id="Europe/Berlin")
    context.set_default_timeout(SLOW)
    yield context
    context.close()


@pytest.fixture
def page(german: BrowserContext, home: str) -> Page:
    page = german.new_page()
    page.goto(home)
    expect(page.locator("#line")).to_have_text("live", timeout=SLOW)
    return page


def test_numbers_and_times_are_the_visitor_s(page: Page) -> None:
    expect(page.locator("#followers")).to_have_text("20.000.000", timeout=SLOW)
    expect(page.locator(".tier .reached").first).to_contain_text(re.compile(r"within \d+,\d s"), timeout=SLOW)
    time = page.locator("notifier-inbox time").first
    expect(time).to_have_attribute("title", re.compile(r" um \d\d:\d\d"), timeout=SLOW)
    expect(time).to_have_text(re.compile(r"jetzt|vor \d+ Min\."))


def test_on_a_phone_the_inbox_comes_before_everything_else(page: Page) -> None:
    def top(selector: str) -> float:
        box: Any = page.locator(selector).first.bounding_box()
        return float(box["y"])

    assert top("h1") < top("notifier-inbox") < min(top("#storm"), top(".tiles"), top("#tiers"), top("#log"))


def test_a_page_in_the_back_gives_its_stream_back_and_comes_back_with_it(page: Page) -> None:
    ended: list[str] = []
    page.on("requestfailed", lambda asked: ended.append(asked.url))
    page.evaluate(TURN, "hidden")
    for _ in range(100):
        if any("/v1/system/stream" in url for url in ended):
            break
        page.wait_for_timeout(50)
    else:
        raise AssertionError("it keeps its connection")
    with page.expect_request("**/v1/system/stream"):
        page.evaluate(TURN, "visible")
    expect(page.locator("#line")).to_have_text("live", timeout=SLOW)
    expect(page.locator("#mentions")).not_to_have_text("–")
