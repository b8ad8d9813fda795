"""The demo's page: keyboard, axe, phones, locale, background tabs, download size and memory."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from benchmarks.demo_page import DEMO_WIDTHS, SCHEMES, weight_figures
from tests.browser.demo_process_and_visit import SLOW, demo, visit
from tests.browser.page_memory import PageMemory, assert_not_larger, memory_of
from tests.support.browser.accessibility import violations
from tests.support.browser.page_states import FakePhones, demo_states, wait_until_delivered
from tests.support.browser.page_weight import weighed

FOLLOWERS = 200_000
SET_VISIBILITY = """state => {
  Object.defineProperty(document, 'visibilityState', { value: state, configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
}"""
"""Brings the tab to the front or to the background."""

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with demo(tmp_path_factory.mktemp("demo"), followers=FOLLOWERS) as address:
        yield address


@pytest.fixture
def page(browser: Browser, home: str) -> Iterator[Page]:
    with visit(browser, home) as page:
        yield page


@pytest.fixture
def german_context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 390, "height": 844}, locale="de-DE", timezone_id="Europe/Berlin")
    context.set_default_timeout(SLOW)
    yield context
    context.close()


@pytest.fixture
def german_page(german_context: BrowserContext, home: str) -> Page:
    page = german_context.new_page()
    page.goto(home)
    expect(page.locator("#connection")).to_have_text("live", timeout=SLOW)
    return page


def test_user_and_pause_dialog_can_be_chosen_with_the_keyboard(page: Page) -> None:
    page.locator("#users input").first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#user-text")).to_contain_text("Active today")
    page.locator("#pause").focus()
    page.keyboard.press("Enter")
    expect(page.locator("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_be_hidden()
    expect(page.locator("#pause")).to_be_focused()


@pytest.mark.parametrize(
    ("scheme", "width"), [*zip(SCHEMES, DEMO_WIDTHS, strict=True)]
)  # the benchmark tries all four combinations
def test_axe_finds_no_violation_and_page_fits_width(page: Page, scheme: str, width: int, tmp_path: Path) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 900})
    wait_until_delivered(page)
    for state in demo_states(page):
        page.screenshot(path=tmp_path / f"{state}.png", full_page=True)
        assert violations(page) == [], state
        assert page.evaluate("document.documentElement.scrollWidth") <= width, state


def test_page_with_its_resources_is_small(browser: Browser, home: str) -> None:
    sizes = weighed(browser, home)
    assert {"/", "/static/demo/main.js", "/static/notifier-inbox/inbox.js", "/v1/inbox"} <= sizes.keys()
    assert [figure.finding for figure in weight_figures(sizes) if not figure.finding.ok] == []


def test_numbers_and_times_use_the_visitors_locale(german_page: Page) -> None:
    expect(german_page.locator("#followers")).to_have_text("200.000", timeout=SLOW)
    expect(german_page.locator(".tier .reached").first).to_contain_text(re.compile(r"within \d+,\d s"), timeout=SLOW)
    time = german_page.locator("notifier-inbox time").first
    expect(time).to_have_attribute("title", re.compile(r" um \d\d:\d\d"), timeout=SLOW)
    expect(time).to_have_text(re.compile(r"jetzt|vor \d+ Min\."))


@pytest.mark.thorough
def test_phone_shakes_only_for_new_bursts_and_shows_them_newest_first(page: Page) -> None:
    page.emulate_media(reduced_motion="no-preference")
    phones, vip = FakePhones(page), page.locator("#phones > li").first
    shaken = "node => { window.shaken = 0; node.addEventListener('animationstart', () => (window.shaken += 1)); }"
    page.evaluate(f"({shaken})(document.querySelector('#phones'))")
    alert = {"kind": "vip", "place": "1", "language": "en", "text": "ada mentioned @nova"}
    phones.ring(alert)
    expect(vip.locator("ol li")).to_have_text([re.compile("ada mentioned @nova")], timeout=SLOW)
    expect(vip).not_to_have_class("buzz")  # a phone that still shakes doesn't start again
    phones.ring(alert, {**alert, "place": "2", "language": "de", "text": "bob hat @nova erwähnt"})
    expect(vip.locator("ol li")).to_have_text([re.compile("bob hat"), re.compile("sent 2 times")], timeout=SLOW)
    expect(vip.locator("ol p").first).to_have_attribute("lang", "de")
    page.wait_for_function("window.shaken === 2")
    phones.ring(*({**alert, "place": place} for place in "345"))
    expect(vip.locator("ol li")).to_have_text(3 * [re.compile("ada mentioned @nova")], timeout=SLOW)


def test_inbox_comes_first_on_a_phone(german_page: Page) -> None:
    def top(selector: str) -> float:
        box: Any = german_page.locator(selector).first.bounding_box()
        return float(box["y"])

    assert top("h1") < top("notifier-inbox") < min(top("#storm"), top(".tiles"), top("#tiers"), top("#log"))


def test_background_page_closes_its_stream_and_reopens_it_when_visible(german_page: Page) -> None:
    with german_page.expect_event("requestfailed", lambda request: request.url.endswith("/v1/system/stream")):
        german_page.evaluate(SET_VISIBILITY, "hidden")
    with german_page.expect_response("**/v1/system/stream") as stream:
        german_page.evaluate(SET_VISIBILITY, "visible")
    assert stream.value.ok


A_DAY = """copies => {
  // Send each snapshot many times, each as another second: counts grow, workers die, the system falls behind.
  const fetched = window.fetch;
  window.snapshots = 0;
  const repeated = (block) => {
    const [event, data] = block.split("\\n");
    if (event !== "event: system") return block + "\\n\\n";
    return Array.from({ length: copies }, () => {
      const system = JSON.parse(data.slice(6));
      window.snapshots += 1;
      system.running.count += window.snapshots;
      system.mentions_per_second = window.snapshots;
      system.backlog.p2 = { slices: window.snapshots % 90, delay_seconds: window.snapshots % 50 };
      system.roles.p1.pid += Math.floor(window.snapshots / 5);
      return `event: system\\ndata: ${JSON.stringify(system)}\\n\\n`;
    }).join("");
  };
  window.fetch = async (path, options) => {
    const answer = await fetched(path, options);
    if (path !== "/v1/system/stream") return answer;
    let partial = "";
    const repeater = new TransformStream({
      transform(text, out) {
        const blocks = (partial + text).split("\\n\\n");
        partial = blocks.pop();
        for (const block of blocks) out.enqueue(repeated(block));
      },
    });
    const texts = answer.body.pipeThrough(new TextDecoderStream()).pipeThrough(repeater);
    return new Response(texts.pipeThrough(new TextEncoderStream()));
  };
}"""


@pytest.mark.prove
def test_page_open_all_day_does_not_grow(page: Page, home: str) -> None:
    wait_until_delivered(page)
    page.add_init_script(f"({A_DAY})(20)")  # with 60, a slow machine renders only a part, and answers nothing else
    page.goto(home)

    def wait_for_snapshots(snapshots: int) -> None:
        while page.evaluate("window.snapshots") < snapshots:
            page.wait_for_timeout(100)

    wait_for_snapshots(130)  # longer than the period of the charts
    expect(page.locator("#log > li")).to_have_count(20)
    before = memory_of(page)
    wait_for_snapshots(370)
    expect(page.locator("#log > li")).to_have_count(20)
    points = page.locator(".tier polyline").last.get_attribute("points")
    assert points
    assert len(points.split()) == 120
    assert_not_larger(page, before, limit=PageMemory(nodes=50, listeners=10, heap=200_000))
