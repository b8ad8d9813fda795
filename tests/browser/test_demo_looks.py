"""The demo's page as somebody meets it: by keyboard, on a phone, in the dark, all day long, and how much it loads."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from notifier.testing.bench.page import DEMO_WIDTHS, SCHEMES, weight_figures
from notifier.testing.browser.axe import violations
from notifier.testing.browser.states import delivered, demo_states
from notifier.testing.browser.weight import weighed
from tests.browser.demo import demo, visiting
from tests.browser.size import size

FOLLOWERS = 200_000

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with demo(tmp_path_factory.mktemp("demo"), followers=FOLLOWERS) as address:
        yield address


@pytest.fixture
def page(browser: Browser, home: str) -> Iterator[Page]:
    with visiting(browser, home) as page:
        yield page


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


@pytest.mark.parametrize(("scheme", "width"), [*zip(SCHEMES, DEMO_WIDTHS, strict=True)])  # the bench tries all four
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


A_DAY = """many => {
  // Each snapshot comes many times, and each time is another second: counts grow, workers die, the system falls behind.
  const fetched = window.fetch;
  window.snapshots = 0;
  const told = (block) => {
    const [event, data] = block.split("\\n");
    if (event !== "event: system") return block + "\\n\\n";
    return Array.from({ length: many }, () => {
      const system = JSON.parse(data.slice(6));
      window.snapshots += 1;
      system.running.count += window.snapshots;
      system.mentions_per_second = window.snapshots;
      system.behind.p2 = { slices: window.snapshots % 90, seconds: window.snapshots % 50 };
      system.roles.p1.pid += Math.floor(window.snapshots / 20);
      return `event: system\\ndata: ${JSON.stringify(system)}\\n\\n`;
    }).join("");
  };
  window.fetch = async (path, options) => {
    const answer = await fetched(path, options);
    if (path !== "/v1/system/stream") return answer;
    let rest = "";
    const often = new TransformStream({
      transform(text, out) {
        const blocks = (rest + text).split("\\n\\n");
        rest = blocks.pop();
        for (const block of blocks) out.enqueue(told(block));
      },
    });
    const texts = answer.body.pipeThrough(new TextDecoderStream()).pipeThrough(often);
    return new Response(texts.pipeThrough(new TextEncoderStream()));
  };
}"""


def test_a_page_that_is_open_all_day_does_not_grow(page: Page, home: str) -> None:
    delivered(page)
    page.add_init_script(f"({A_DAY})(120)")
    page.goto(home)

    def passed(snapshots: int) -> None:
        while page.evaluate("window.snapshots") < snapshots:
            page.wait_for_timeout(100)

    passed(420)  # longer than the charts look back
    expect(page.locator("#log > li")).to_have_count(20)
    before = size(page)
    passed(900)
    after = size(page)
    expect(page.locator("#log > li")).to_have_count(20)
    points = page.locator(".tier polyline").last.get_attribute("points")
    assert points
    assert len(points.split()) == 120
    assert after.nodes < before.nodes + 100
    assert after.listeners < before.listeners + 20
    assert after.heap < before.heap + 400_000
