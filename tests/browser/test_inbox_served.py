"""`<notifier-inbox>` on the real service: two tabs, offline, a killed api, the keyboard, a phone in the dark, a day."""

import re
from collections.abc import Iterator
from itertools import count, islice

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.demo import demo
from tests.browser.served import FOLLOWERS, Served, Tab, active, tab
from tests.browser.size import Size, not_larger, size
from tests.support.browser.accessibility import violations

SLOW = 20_000
"""Milliseconds that something may take in which a real service has a part, on a busy machine."""
PEOPLE = iter(active(50))
"""Each test has somebody to itself."""
SOON = "import('/static/notifier-inbox/pace.js').then(({ PACE }) => Object.assign(PACE, { slowest: 1_000 }))"

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data = tmp_path_factory.mktemp("served")
    with demo(data, followers=FOLLOWERS, collapse=0):
        yield Served(data=data)


@pytest.fixture
def mine(served: Served, context: BrowserContext, page: Page) -> Tab:
    return tab(served, context, next(PEOPLE), page)


def unread(tab: Tab, author: str) -> None:
    expect(tab.row(author)).to_have_class(re.compile("unread"))


def read(tab: Tab, author: str) -> None:
    expect(tab.row(author)).not_to_have_class(re.compile("unread"))


def mentioned(served: Served, tab: Tab, author: str) -> None:
    """And told: of events that are accepted at once, the later may come by the earlier."""
    served.mention("nova", author=author)
    tab.until(lambda: f"{author} mentioned @nova" in served.texts(tab.user))


def test_what_is_seen_in_one_tab_is_seen_in_the_other(served: Served, context: BrowserContext, mine: Tab) -> None:
    other = tab(served, context, mine.user).live()
    mine.live().burst(0).focus()
    other.burst(0).focus()
    served.mention("nova", author="zoe")
    for each in (mine, other):
        expect(each.pill).to_have_text("1 new")
        expect(each.badge).to_have_text("1")
        expect(each.page).to_have_title("(1) Notifications")
    mine.pill.click()
    for each in (mine, other):
        expect(each.badge).to_be_hidden()
        expect(each.page).to_have_title("Notifications")
    assert served.badge(mine.user) == 0


def test_marks_made_in_one_tab_show_in_the_other(served: Served, context: BrowserContext, mine: Tab) -> None:
    served.mention("nova", author="yan")
    served.mention("nova", author="xia")
    other = tab(served, context, mine.user).live()
    mine.live()
    press = mine.page.keyboard.press
    mine.row("yan").locator(".open").focus()
    press("u")
    for each in (mine, other):
        unread(each, "yan")
        expect(each.badge).to_have_text("1")
    other.row("yan").locator(".open").click()  # opening is reading
    for each in (mine, other):
        read(each, "yan")
        expect(each.badge).to_be_hidden()
    mine.row("xia").locator(".open").focus()
    press("u")
    expect(other.badge).to_have_text("1")
    press("Delete")
    for each in (mine, other):
        expect(each.row("xia")).to_have_count(0)
        expect(each.badge).to_be_hidden()
    press("z")
    for each in (mine, other):
        unread(each, "xia")
        expect(each.badge).to_have_text("1")
    assert served.badge(mine.user) == 1
    other.page.reload()
    other.open(token=served.token(mine.user))
    unread(other, "xia")
    mine.until(lambda: mine.texts == other.texts == served.texts(mine.user))


def test_who_is_muted_in_one_tab_is_silent_in_the_other_and_is_heard_again(
    served: Served, context: BrowserContext, mine: Tab
) -> None:
    served.mention("nova", author="mia")
    other = tab(served, context, mine.user).live()
    expect(mine.live().row("mia")).to_be_visible()
    mine.row("mia").hover()
    mine.row("mia").locator(".more").click()
    mine.page.get_by_role("menuitem", name="Mute @nova", exact=True).click()
    for each in (mine, other):
        expect(each.rows).to_have_count(0, timeout=SLOW)
    served.mention("nova", author="liv")
    mine.page.get_by_role("button", name="Unmute").click()
    mine.until(lambda: served.preferences(mine.user) == [])
    served.mention("nova", author="kai")
    for each in (mine, other):
        expect(each.row("kai")).to_be_visible(timeout=SLOW)
    assert served.texts(mine.user) == ["kai mentioned @nova"]


def test_who_wants_nothing_of_everything_is_told_of_mentions_of_oneself_alone(
    served: Served, context: BrowserContext, mine: Tab
) -> None:
    served.mention("nova", author="rex")
    other = tab(served, context, mine.user).live()
    expect(mine.live().row("rex")).to_be_visible()
    mine.page.get_by_role("button", name="Notification settings").click()
    mine.page.get_by_label("Only mentions of me").check()
    mine.page.get_by_role("button", name="Save").click()
    for each in (mine, other):
        expect(each.rows).to_have_count(0, timeout=SLOW)
    assert served.left_out("nova", "overall_off", within=60)  # `mute_effective_s`
    served.mention("nova", author="una")
    served.mention(mine.user, author="vic")
    for each in (mine, other):
        expect(each.row("vic")).to_be_visible(timeout=SLOW)
    assert served.texts(mine.user) == ["vic mentioned you"]


def test_offline_and_back_loses_nothing_and_doubles_nothing(served: Served, context: BrowserContext, mine: Tab) -> None:
    mine.live()
    context.set_offline(True)
    expect(mine.page.get_by_text("You’re offline.")).to_be_visible()
    before = mine.rows.count()
    for author in ("una", "tom", "sky"):
        served.mention("nova", author=author)
    context.set_offline(False)
    expect(mine.page.get_by_text("You’re offline.")).to_be_hidden()
    expect(mine.rows).to_have_count(before + 3)
    served.mention("nova", author="ray")
    expect(mine.row("ray")).to_be_visible()
    assert mine.texts == served.texts(mine.user)


def test_a_killed_api_is_replaced_and_the_stream_goes_on_where_it_was(served: Served, mine: Tab) -> None:
    mine.live()
    mine.page.evaluate(SOON)
    served.mention("nova", author="pia")
    expect(mine.row("pia")).to_be_visible()  # so the stream has an id to go on from
    served.mention("nova", author="oda")
    gone = served.kill("api")
    mine.until(lambda: served.ready.pids["api"] != gone)
    expect(mine.row("oda")).to_be_visible()
    mine.until(lambda: len(mine.streams) > 1)
    assert "last-event-id" in mine.streams[-1].headers
    served.mention("nova", author="ned")
    expect(mine.row("ned")).to_be_visible()
    assert mine.texts == served.texts(mine.user)


def test_the_keyboard_alone_opens_and_marks(served: Served, mine: Tab) -> None:
    for author in ("moe", "lea", "kim"):
        mentioned(served, mine, author)
    page, press = mine.page, mine.page.keyboard.press
    page.goto(mine.address)
    press("Tab")
    page.keyboard.type(served.token(mine.user))
    press("Enter")
    expect(mine.row("kim")).to_be_visible()
    expect(mine.badge).to_be_hidden()
    press("Tab")
    expect(page.get_by_role("button", name="Notification settings")).to_be_focused()
    press("Tab")
    expect(mine.burst(0)).to_be_focused()
    press("j")
    press("ArrowDown")
    expect(mine.row("moe").locator(".open")).to_be_focused()
    press("u")
    unread(mine, "moe")
    press("Enter")
    read(mine, "moe")
    served.mention("nova", author="jim")
    expect(mine.pill).to_have_text("1 new")
    press("Shift+Tab")
    expect(mine.pill).to_be_focused()
    press("Enter")
    expect(mine.row("jim").locator(".open")).to_be_focused()
    press("End")
    press("Home")
    expect(mine.row("jim").locator(".open")).to_be_focused()


def test_the_keyboard_alone_hides_by_the_menu_and_takes_it_back(served: Served, mine: Tab) -> None:
    mentioned(served, mine, "ivo")
    page, press = mine.page, mine.page.keyboard.press
    more = mine.live().row("ivo").locator(".more")
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
    expect(mine.row("ivo")).to_have_count(0)
    _tab_to(page, "Undo")
    press("Enter")
    expect(mine.row("ivo").locator(".open")).to_be_focused()


def _tab_to(page: Page, name: str) -> None:
    """The Tab key gets there, within the steps that a person has patience for."""
    wanted = page.get_by_role("button", name=name, exact=True)
    for _ in range(6):
        page.keyboard.press("Tab")
        if wanted.evaluate("one => one.getRootNode().activeElement === one"):
            return
    raise AssertionError(f"the Tab key never gets to {name}")


def test_a_phone_in_the_dark(served: Served, browser: Browser) -> None:
    looks = {"viewport": {"width": 390, "height": 760}, "device_scale_factor": 2, "color_scheme": "dark"}
    context = browser.new_context(**looks, has_touch=True, is_mobile=True, locale="en-GB")  # type: ignore[arg-type] # a mapping of several types
    context.set_default_timeout(SLOW)
    mine = tab(served, context, next(PEOPLE))
    for author in ("ines", "hugo", "gina"):
        served.mention("nova", author=author)
    served.mention(mine.user, author="finn")
    mine.live()
    expect(mine.row("finn")).to_contain_text("finn mentioned you")
    mine.row("hugo").locator(".more").tap()
    mine.page.get_by_role("menuitem", name="Mark as unread").tap()
    unread(mine, "hugo")
    assert mine.inside("getComputedStyle(root.host).backgroundColor") == "rgb(20, 22, 27)"
    assert violations(mine.page) == []
    mine.row("hugo").locator(".open").tap()
    read(mine, "hugo")
    mine.row("gina").locator(".more").tap()
    mine.page.get_by_role("menuitem", name="Hide").tap()
    expect(mine.row("gina")).to_have_count(0)
    assert violations(mine.page) == []
    mine.page.get_by_role("button", name="Undo").tap()
    expect(mine.row("gina")).to_be_visible()
    assert mine.inside("root.querySelector('.scroller').scrollWidth") == 390
    assert mine.inside("Math.min(...[...root.querySelectorAll('.row')].map((row) => row.offsetHeight))") >= 44
    assert mine.inside("Math.min(...[...root.querySelectorAll('.more')].map((more) => more.offsetHeight))") >= 24
    context.close()


AT_ONCE = 40
"""Fewer than a stream holds before it gives up a client as too slow."""
ON_THEIR_WAY = Size(nodes=1_000, listeners=150, heap=400_000)
"""A batch of rows, which are 20 nodes and 3 listeners each. Kept rows would be eight times that."""


@pytest.mark.usefixtures("alone")
def test_a_page_that_is_open_all_day_does_not_grow(served: Served, mine: Tab) -> None:
    """Rows of a day in some seconds, and then the hours of half a day on the page's own clock."""
    mine.page.clock.install()
    mine.live()
    told = count()

    def arrive(rows: int) -> None:
        for number in islice(told, rows // AT_ONCE):
            served.mention(*[mine.user] * AT_ONCE, author=f"a{number}")
            expect(mine.rows.first).to_contain_text(f"a{number} mentioned you")

    arrive(240)  # more than the document keeps
    expect(mine.rows).to_have_count(200)
    before = size(mine.page)
    arrive(400)
    expect(mine.rows).to_have_count(200)
    not_larger(mine.page, before, by=ON_THEIR_WAY)
    for _ in range(12):
        mine.page.clock.run_for(3_600_000)
    expect(mine.rows.first).to_be_visible()
    not_larger(mine.page, before, by=ON_THEIR_WAY)
