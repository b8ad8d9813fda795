"""The demo's page in a browser: the storm, the pause and its ramp, a killed worker, an emptied Redis, and its looks."""

import re
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from notifier.api.storming import LASTING
from notifier.cli.showing import COLLAPSE
from notifier.testing.bench.page import DEMO_WIDTHS, SCHEMES, weight_figures
from notifier.testing.browser.axe import violations
from notifier.testing.browser.states import delivered, demo_states
from notifier.testing.browser.storm import BETWEEN, Watcher
from notifier.testing.browser.weight import weighed
from tests.browser.demo import demo

SLOW = 45_000
"""Milliseconds that something may take in which a real service and its workers have a part, on a busy machine."""
WINDOW = COLLAPSE + LASTING
"""Seconds: the last mention of a storm may open a burst of its own, on a slow machine."""
PRESSED: list[float] = []
"""When the storms of this module began."""

pytestmark = [pytest.mark.timeout(240), pytest.mark.xdist_group("demo")]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[str]:
    with demo(tmp_path_factory.mktemp("demo")) as address:
        PRESSED.append(monotonic())
        yield address


@pytest.fixture
def page(browser: Browser, home: str) -> Iterator[Page]:
    """Fails the test whose page complained, or asked for anything elsewhere."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, locale="en-GB")
    context.set_default_timeout(SLOW)
    page, wrong = context.new_page(), list[str]()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(f"{said.text} {said.location}") if _complains(said) else None)
    page.on("request", lambda asked: None if _ours(asked.url, home) else wrong.append(asked.url))
    page.goto(home)
    yield page
    context.close()
    assert wrong == []


def _complains(said: ConsoleMessage) -> bool:
    return said.type in ("error", "warning")


def _ours(url: str, home: str) -> bool:
    return url.startswith("data:") or urlsplit(url).netloc == urlsplit(home).netloc


def number(page: Page, selector: str) -> int:
    return int(re.sub(r"\D", "", page.locator(selector).first.inner_text()) or 0)


def storm(page: Page) -> None:
    """A new burst, which spends a fan-out of the hour's six: so the last one's collapse window is waited for first."""
    page.wait_for_timeout(max(0.0, WINDOW - (monotonic() - PRESSED[-1])) * 1_000)
    with page.expect_response("**/demo/storm") as answered:
        page.click("#storm")
    PRESSED.append(monotonic())
    assert "a new burst" in answered.value.json()["says"]


def test_the_page_opens_on_a_burst_and_four_inboxes_that_show_it(page: Page) -> None:
    delivered(page)
    assert number(page, "#followers") == 20_000_000
    for kind, served in {"VIP": "P0", "Active": "P1", "Occasional": "P2", "Away": "no row"}.items():
        page.get_by_role("radio", name=kind).check()
        expect(page.locator("#about")).to_contain_text(served)
        expect(page.locator("notifier-inbox").get_by_text("@nova").first).to_be_visible()


def test_a_storm_fills_the_map_and_is_one_notification(page: Page) -> None:
    watcher = Watcher(page=page, free_at=PRESSED[-1] + WINDOW)
    seen = watcher.storm()
    PRESSED.append(watcher.free_at - BETWEEN)
    assert (seen.followers, seen.people > 100_000) == (20_000_000, True)
    assert 0 < seen.told_s < seen.shown_s
    expect(page.locator("#burst")).to_have_text(re.compile(r"[1-9]\d\d mentions of @nova"), timeout=SLOW)
    delivered(page)
    row = page.locator("notifier-inbox").get_by_text(re.compile(r"and others, \d+ mentions of @nova"))
    expect(row.first).to_be_visible()
    expect(page.locator("canvas").first).to_have_attribute("aria-label", "p0: 153 of 153 shards delivered")
    assert "notifier storm --of nova" in page.locator("#log code").first.inner_text()
    assert page.locator("#log code").nth(1).inner_text().startswith("curl -X POST")


def test_a_pause_parks_p2_and_the_ramp_delivers_it(page: Page) -> None:
    page.click("#pause")
    page.get_by_label("Reason").fill("a test of the pause")
    page.locator("dialog select").select_option("60")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator("#pause")).to_have_text("Lift the pause")
    storm(page)
    expect(page.locator(".tier").nth(1).locator(".reached")).to_contain_text("within", timeout=SLOW)
    parked = page.locator("#accounts div", has_text="parked").locator("dd")
    expect(parked).to_have_text(re.compile(r"[1-9][\d,]{5,}"), timeout=SLOW)
    expect(page.locator(".tier").nth(2).locator(".behind")).to_contain_text("paused")
    page.click("#pause")
    expect(page.locator(".tier").nth(2).locator(".behind")).to_contain_text("coming back", timeout=SLOW)
    delivered(page)
    expect(parked).to_have_text("0", timeout=SLOW)


def test_a_killed_worker_is_replaced_and_the_storm_delivered(page: Page) -> None:
    storm(page)
    page.locator("#role").select_option("p1")
    page.click("#kill")
    expect(page.locator("#log")).to_contain_text("is queued again when its claim runs out")
    expect(page.locator("#log")).to_contain_text("p1 was replaced", timeout=SLOW)
    expect(page.locator("#roles li", has_text="p1")).to_contain_text("replaced", timeout=SLOW)
    delivered(page)


def test_redis_is_emptied_and_the_inbox_shows_the_same(page: Page) -> None:
    delivered(page)
    rows = page.locator("notifier-inbox").get_by_text("@nova")
    expect(rows.first).to_be_visible()
    before = rows.count()
    page.click("#empty")
    expect(page.locator("#log")).to_contain_text("Redis was emptied")
    expect(page.locator("#log")).to_contain_text("the index has been rebuilt from it", timeout=SLOW)
    page.reload()
    expect(rows).to_have_count(before)
    delivered(page)


def test_everything_can_be_done_with_the_keyboard(page: Page) -> None:
    page.locator("#people input").first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#about")).to_contain_text("Active today")
    page.locator("#pause").focus()
    page.keyboard.press("Enter")
    expect(page.locator("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_be_hidden()
    expect(page.locator("#pause")).to_be_focused()


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", DEMO_WIDTHS)
def test_axe_finds_nothing_and_nothing_sticks_out(page: Page, scheme: str, width: int, tmp_path: Path) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 900})
    delivered(page)
    for state in demo_states(page):
        page.screenshot(path=tmp_path / f"{state}.png", full_page=True)
        assert violations(page) == [], state
        assert page.evaluate("document.documentElement.scrollWidth") <= width, state


def test_the_page_with_all_that_it_loads_is_small(browser: Browser, home: str) -> None:
    sizes = weighed(browser, home)
    assert {"/", "/static/demo/main.js", "/static/notifier-inbox/inbox.js", "/v1/inbox"} <= sizes.keys()
    assert [figure.finding for figure in weight_figures(sizes) if not figure.finding.ok] == []
