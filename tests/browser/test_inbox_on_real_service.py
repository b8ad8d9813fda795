"""`<notifier-inbox>` on the real service: tabs, offline, restarts, keyboard, phone and a whole day."""

import re
from collections.abc import Iterator
from itertools import count, islice

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.demo_process_and_visit import demo
from tests.browser.demo_service_and_inbox_tab import FOLLOWERS, Served, Tab, active_users, tab
from tests.browser.page_memory import PageMemory, assert_not_larger, memory_of
from tests.support.browser.accessibility import violations

SLOW = 20_000
"""Milliseconds that a step with a real service may take on a busy machine."""
PEOPLE = iter(active_users(50))
"""Each test takes users of its own."""
RECONNECT_SOON = (
    "import('/static/notifier-inbox/delays-and-limits.js')"
    ".then(({ TIMING }) => Object.assign(TIMING, { maxBackoff: 1_000 }))"
)

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data = tmp_path_factory.mktemp("served")
    with demo(data, followers=FOLLOWERS, collapse=0):
        yield Served(data=data)


@pytest.fixture
def first_tab(served: Served, context: BrowserContext, page: Page) -> Tab:
    return tab(served, context, next(PEOPLE), page)


def expect_unread(tab: Tab, author: str) -> None:
    expect(tab.row(author)).to_have_class(re.compile("unread"))


def expect_read(tab: Tab, author: str) -> None:
    expect(tab.row(author)).not_to_have_class(re.compile("unread"))


def mention_and_wait(served: Served, tab: Tab, author: str) -> None:
    """Publish a mention of nova, and return when it is in the user's inbox.

    Events that are accepted at once may be delivered in any order, and a row that comes after the page is unread.
    """
    served.mention("nova", author=author)
    tab.until(lambda: f"{author} mentioned @nova" in served.texts(tab.user))


def test_rows_seen_in_one_tab_are_seen_in_the_other(served: Served, context: BrowserContext, first_tab: Tab) -> None:
    second_tab = tab(served, context, first_tab.user).live()
    first_tab.live().burst(0).focus()
    second_tab.burst(0).focus()
    served.mention("nova", author="zoe")
    for page_tab in (first_tab, second_tab):
        expect(page_tab.pill).to_have_text("1 new")
        expect(page_tab.badge).to_have_text("1")
        expect(page_tab.page).to_have_title("(1) Notifications")
    first_tab.pill.click()
    for page_tab in (first_tab, second_tab):
        expect(page_tab.badge).to_be_hidden()
        expect(page_tab.page).to_have_title("Notifications")
    assert served.badge(first_tab.user) == 0


def test_marks_of_one_tab_show_in_the_other(served: Served, context: BrowserContext, first_tab: Tab) -> None:
    for author in ("yan", "xia"):
        mention_and_wait(served, first_tab, author)
    second_tab = tab(served, context, first_tab.user).live()
    first_tab.live()
    press = first_tab.page.keyboard.press
    first_tab.row("yan").locator(".open").focus()
    press("u")
    for page_tab in (first_tab, second_tab):
        expect_unread(page_tab, "yan")
        expect(page_tab.badge).to_have_text("1")
    second_tab.row("yan").locator(".open").click()  # opening marks as read
    for page_tab in (first_tab, second_tab):
        expect_read(page_tab, "yan")
        expect(page_tab.badge).to_be_hidden()
    first_tab.row("xia").locator(".open").focus()
    press("u")
    expect(second_tab.badge).to_have_text("1")
    press("Delete")
    for page_tab in (first_tab, second_tab):
        expect(page_tab.row("xia")).to_have_count(0)
        expect(page_tab.badge).to_be_hidden()
    press("z")
    for page_tab in (first_tab, second_tab):
        expect_unread(page_tab, "xia")
        expect(page_tab.badge).to_have_text("1")
    assert served.badge(first_tab.user) == 1
    second_tab.open(token=served.token(first_tab.user))
    expect_unread(second_tab, "xia")
    first_tab.until(lambda: first_tab.texts == second_tab.texts == served.texts(first_tab.user))


@pytest.mark.prove
def test_mute_and_unmute_apply_to_both_tabs(served: Served, context: BrowserContext, first_tab: Tab) -> None:
    served.mention("nova", author="mia")
    second_tab = tab(served, context, first_tab.user).live()
    expect(first_tab.live().row("mia")).to_be_visible()
    first_tab.row("mia").hover()
    first_tab.row("mia").locator(".more").click()
    first_tab.page.get_by_role("menuitem", name="Mute @nova", exact=True).click()
    unmute = first_tab.page.get_by_role("button", name="Unmute")
    unmute.hover()  # a message under the pointer stays
    for page_tab in (first_tab, second_tab):
        expect(page_tab.rows).to_have_count(0, timeout=SLOW)
    served.mention("nova", author="liv")
    unmute.click()
    first_tab.until(lambda: served.preferences(first_tab.user) == [])
    served.mention("nova", author="kai")
    for page_tab in (first_tab, second_tab):
        expect(page_tab.row("kai")).to_be_visible(timeout=SLOW)
    assert served.texts(first_tab.user) == ["kai mentioned @nova"]


@pytest.mark.prove
def test_account_wide_off_shows_only_own_mentions(served: Served, context: BrowserContext, first_tab: Tab) -> None:
    served.mention("nova", author="rex")
    second_tab = tab(served, context, first_tab.user).live()
    expect(first_tab.live().row("rex")).to_be_visible()
    first_tab.page.get_by_role("button", name="Notification settings").click()
    first_tab.page.get_by_label("Only mentions of me").check()
    first_tab.page.get_by_role("button", name="Save").click()
    for page_tab in (first_tab, second_tab):
        expect(page_tab.rows).to_have_count(0, timeout=SLOW)
    assert served.is_suppressed("nova", "overall_off", within=60)  # `mute_effective_s`
    served.mention("nova", author="una")
    served.mention(first_tab.user, author="vic")
    for page_tab in (first_tab, second_tab):
        expect(page_tab.row("vic")).to_be_visible(timeout=SLOW)
    assert served.texts(first_tab.user) == ["vic mentioned you"]


def test_going_offline_loses_and_repeats_nothing(served: Served, context: BrowserContext, first_tab: Tab) -> None:
    first_tab.live()
    context.set_offline(True)
    expect(first_tab.page.get_by_text("You’re offline.")).to_be_visible()
    for author in ("ben", "tom", "sky"):
        served.mention("nova", author=author)
    context.set_offline(False)
    expect(first_tab.page.get_by_text("You’re offline.")).to_be_hidden()
    for author in ("ben", "tom", "sky"):
        expect(first_tab.row(author)).to_have_count(1)
    served.mention("nova", author="ray")
    expect(first_tab.row("ray")).to_be_visible()
    first_tab.until(lambda: first_tab.texts == served.texts(first_tab.user))


def test_stream_resumes_after_killed_api_is_replaced(served: Served, first_tab: Tab) -> None:
    first_tab.live()
    first_tab.page.evaluate(RECONNECT_SOON)
    served.mention("nova", author="pia")
    expect(first_tab.row("pia")).to_be_visible()  # so that the stream has an id to resume from
    served.mention("nova", author="oda")
    killed_pid = served.kill("api")
    first_tab.until(lambda: served.ready.pids["api"] != killed_pid)
    expect(first_tab.row("oda")).to_be_visible()
    first_tab.until(lambda: len(first_tab.streams) > 1)
    assert "last-event-id" in first_tab.streams[-1].headers
    served.mention("nova", author="ned")
    expect(first_tab.row("ned")).to_be_visible()
    first_tab.until(lambda: first_tab.texts == served.texts(first_tab.user))


def test_keyboard_alone_opens_and_marks(served: Served, first_tab: Tab) -> None:
    for author in ("moe", "lea", "kim"):
        mention_and_wait(served, first_tab, author)
    page, press = first_tab.page, first_tab.page.keyboard.press
    page.goto(first_tab.address)
    press("Tab")
    page.keyboard.type(served.token(first_tab.user))
    press("Enter")
    expect(first_tab.row("kim")).to_be_visible()
    expect(first_tab.badge).to_be_hidden()
    press("Tab")
    expect(page.get_by_role("button", name="Notification settings")).to_be_focused()
    press("Tab")
    expect(first_tab.burst(0)).to_be_focused()
    press("j")
    press("ArrowDown")
    expect(first_tab.row("moe").locator(".open")).to_be_focused()
    press("u")
    expect_unread(first_tab, "moe")
    press("Enter")
    expect_read(first_tab, "moe")
    served.mention("nova", author="jim")
    expect(first_tab.pill).to_have_text("1 new")
    press("Shift+Tab")
    expect(first_tab.pill).to_be_focused()
    press("Enter")
    expect(first_tab.row("jim").locator(".open")).to_be_focused()
    press("End")
    press("Home")
    expect(first_tab.row("jim").locator(".open")).to_be_focused()


def test_keyboard_alone_hides_by_menu_and_undoes(served: Served, first_tab: Tab) -> None:
    mention_and_wait(served, first_tab, "ivo")
    page, press = first_tab.page, first_tab.page.keyboard.press
    more = first_tab.live().row("ivo").locator(".more")
    for _ in ("the settings", "the row", "its menu"):
        press("Tab")
    expect(more).to_be_focused()
    press("Enter")
    expect(page.get_by_role("menuitem", name="Mark as unread")).to_be_focused()
    press("ArrowDown")
    expect(page.get_by_role("menuitem", name="Hide")).to_be_focused()
    press("Escape")
    expect(more).to_be_focused()
    press("Enter")
    press("ArrowDown")
    press("Enter")
    expect(first_tab.row("ivo")).to_have_count(0)
    _tab_to(page, "Undo")
    press("Enter")
    expect(first_tab.row("ivo").locator(".open")).to_be_focused()


def _tab_to(page: Page, name: str) -> None:
    """Press the Tab key until the button has focus, at most six times."""
    button = page.get_by_role("button", name=name, exact=True)
    expect(button).to_be_visible()
    for _ in range(6):
        page.keyboard.press("Tab")
        if button.evaluate("node => node.getRootNode().activeElement === node"):
            return
    raise AssertionError(f"the Tab key never reaches {name}")


@pytest.mark.thorough
def test_inbox_works_on_a_dark_phone(served: Served, browser: Browser) -> None:
    emulation = {"viewport": {"width": 390, "height": 760}, "device_scale_factor": 2, "color_scheme": "dark"}
    context = browser.new_context(**emulation, has_touch=True, is_mobile=True, locale="en-GB")  # type: ignore[arg-type] # a mapping of several types
    context.set_default_timeout(SLOW)
    phone = tab(served, context, next(PEOPLE))
    for author in ("ines", "hugo", "gina"):
        mention_and_wait(served, phone, author)
    served.mention(phone.user, author="finn")
    phone.until(lambda: "finn mentioned you" in served.texts(phone.user))
    phone.live()
    expect(phone.row("finn")).to_contain_text("finn mentioned you")
    phone.row("hugo").locator(".more").tap()
    phone.page.get_by_role("menuitem", name="Mark as unread").tap()
    expect_unread(phone, "hugo")
    assert phone.inside("getComputedStyle(root.host).backgroundColor") == "rgb(20, 22, 27)"
    assert violations(phone.page) == []
    phone.row("hugo").locator(".open").tap()
    expect_read(phone, "hugo")
    phone.row("gina").locator(".more").tap()
    phone.page.get_by_role("menuitem", name="Hide").tap()
    expect(phone.row("gina")).to_have_count(0)
    assert violations(phone.page) == []
    phone.page.get_by_role("button", name="Undo").tap()
    expect(phone.row("gina")).to_be_visible()
    assert phone.inside("root.querySelector('.scroller').scrollWidth") == 390
    assert phone.inside("Math.min(...[...root.querySelectorAll('.row')].map((row) => row.offsetHeight))") >= 44
    assert phone.inside("Math.min(...[...root.querySelectorAll('.more')].map((more) => more.offsetHeight))") >= 24
    context.close()


BATCH = 40
"""Fewer than the events that a stream buffers before it drops a slow client."""
ONE_BATCH = PageMemory(nodes=1_000, listeners=150, heap=400_000)
"""A batch of rows, with 20 nodes and 3 listeners each. Kept rows would be eight times that."""


@pytest.mark.prove
@pytest.mark.usefixtures("own_context")
def test_page_open_all_day_does_not_grow(served: Served, first_tab: Tab) -> None:
    """Load the rows of a day in some seconds, then advance the page's clock by four hours."""
    first_tab.page.clock.install()
    first_tab.live()
    numbers = count()

    def arrive(rows: int) -> None:
        for number in islice(numbers, rows // BATCH):
            served.mention(*[first_tab.user] * BATCH, author=f"a{number}")
            expect(first_tab.rows.first).to_contain_text(f"a{number} mentioned you")

    arrive(240)  # more than the document keeps
    expect(first_tab.rows).to_have_count(200)
    before = memory_of(first_tab.page)
    arrive(320)
    expect(first_tab.rows).to_have_count(200)
    assert_not_larger(first_tab.page, before, limit=ONE_BATCH)
    for _ in range(4):
        first_tab.page.clock.run_for(3_600_000)
    expect(first_tab.rows.first).to_be_visible()
    assert_not_larger(first_tab.page, before, limit=ONE_BATCH)
