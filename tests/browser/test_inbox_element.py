"""`<notifier-inbox>` in a real browser, against a server that a test plays on."""

import re

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.accessibility import violations
from tests.browser.fake_inbox import CLOSE, Inbox, item, items
from tests.browser.opened import Opened

POLLING_SOON = "import('/static/notifier-inbox/pace.js').then(({ PACE }) => Object.assign(PACE, %s))"
HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "evil\u202egnp.exe",
    "Z" + "\u0351" * 90 + "algo",
    "x" * 10_000,
    "\u0000\u0007bell",
    "نورا",
]


def test_rows_show_what_the_server_says(opened: Opened, inbox: Inbox) -> None:
    text = "ada and others, 413 mentions of @nova"
    inbox.items[0].update(names=["ada", "bob", "eve"], more=True, count=413, text=text, unread=True)
    opened.live()
    row = opened.rows.first
    expect(row.locator(".text")).to_have_text(text)
    expect(row.locator(".names")).to_have_text("ada, bob, eve, and others")
    expect(row).to_have_class(re.compile("unread"))
    expect(row.locator("time")).to_have_attribute("datetime", inbox.items[0]["opened_at"])
    expect(row.locator("time")).to_have_text("5 min. ago")
    expect(opened.badge).to_have_text("1")


def test_times_are_told_in_the_language_of_the_page(opened: Opened) -> None:
    opened.open(before="document.documentElement.lang = 'de'")
    expect(opened.rows.first.locator("time")).to_have_text("vor 5 Min.")


def test_a_row_that_grows_changes_its_text_and_keeps_its_place(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    inbox.say("group", inbox.items[2] | {"count": 9, "text": "ada and others, 9 mentions of @nova"})
    expect(opened.rows.nth(2).locator(".text")).to_have_text("ada and others, 9 mentions of @nova")
    expect(opened.rows).to_have_count(5)


def test_a_new_row_slides_in_when_nobody_is_reading(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    inbox.arrive(item(1000, text="eve mentioned @nova", unread=True))
    expect(opened.rows).to_have_count(6)
    expect(opened.burst(0)).to_have_text("Unread: eve mentioned @nova")
    expect(opened.pill).to_be_hidden()


def test_new_rows_wait_behind_the_pill_while_somebody_reads(opened: Opened, inbox: Inbox) -> None:
    inbox.items = items(20)
    opened.live().scroll(300)
    for number in (1000, 1001, 1002):
        inbox.arrive(item(number, unread=True))
    expect(opened.pill).to_have_text("3 new")
    expect(opened.rows).to_have_count(20)
    assert opened.inside("root.querySelector('.scroller').scrollTop") == 300
    opened.pill.click()
    expect(opened.rows).to_have_count(23)
    expect(opened.burst(0)).to_be_focused()
    assert opened.inside("root.querySelector('.scroller').scrollTop") == 0


def test_rows_wait_for_whoever_has_the_keyboard_in_the_list(opened: Opened, inbox: Inbox) -> None:
    opened.live().burst(0).focus()
    inbox.arrive(item(1000))
    expect(opened.pill).to_have_text("1 new")


def test_new_rows_are_announced_together_and_growth_is_not(opened: Opened, inbox: Inbox) -> None:
    opened.live().burst(0).focus()
    said = opened.page.get_by_role("status")
    inbox.say("group", inbox.items[0] | {"count": 2, "text": "grown"})
    expect(opened.rows.first.locator(".text")).to_have_text("grown")
    expect(said).to_have_text("")
    for number in (1000, 1001, 1002):
        inbox.arrive(item(number))
    expect(said).to_have_text("3 new notifications")


def test_what_was_looked_at_becomes_seen(opened: Opened, inbox: Inbox) -> None:
    inbox.items[1]["unread"] = True
    opened.live()
    expect(opened.rows.nth(1)).to_have_class("row fresh")
    assert len(inbox.calls("PUT /v1/inbox/seen")) == 1
    expect(opened.badge).to_be_hidden()


def test_rows_behind_the_pill_are_not_seen(opened: Opened, inbox: Inbox) -> None:
    inbox.items[1]["unread"] = True
    opened.live().burst(0).focus()
    inbox.arrive(item(1000, unread=True))
    expect(opened.rows.nth(1)).to_have_class("row fresh")
    assert inbox.items[0]["unread"]
    expect(opened.badge).to_have_text("1")
    opened.pill.click()
    opened.until(lambda: not inbox.items[0]["unread"])


def test_a_tab_in_the_background_sees_nothing(opened: Opened, inbox: Inbox) -> None:
    inbox.items[0]["unread"] = True
    opened.open(before="Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true })")
    expect(opened.rows.first).to_have_class(re.compile("unread"))
    opened.page.wait_for_timeout(1_300)  # longer than a look takes
    assert inbox.calls("PUT /v1/inbox/seen") == []
    opened.turn("visible")
    opened.until(lambda: inbox.calls("PUT /v1/inbox/seen"))


def test_opening_tells_the_page_and_marks_as_read(opened: Opened, inbox: Inbox) -> None:
    inbox.items[0]["unread"] = True
    opened.live()
    opened.page.evaluate("document.addEventListener('open', ({ detail }) => (window.went = detail.tweet))")
    opened.burst(0).click()
    assert opened.page.evaluate("window.went") == "t999"
    opened.until(lambda: {"bursts": ["b999"], "mark": "read"} in inbox.calls("PUT /v1/inbox/marks"))
    expect(opened.rows.first).to_have_class("row")


def test_a_page_may_cancel_opening(opened: Opened, inbox: Inbox) -> None:
    inbox.items[0]["unread"] = True
    opened.live()
    opened.page.evaluate("document.addEventListener('open', (event) => event.preventDefault())")
    opened.burst(0).click()
    expect(opened.rows.first).to_have_class("row fresh")  # by looking, not by opening
    assert inbox.calls("PUT /v1/inbox/marks") == []


def test_the_keyboard_does_everything(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    press = opened.page.keyboard.press
    opened.burst(0).focus()
    press("ArrowDown")
    press("j")
    expect(opened.burst(2)).to_be_focused()
    press("k")
    expect(opened.burst(1)).to_be_focused()
    press("u")
    expect(opened.rows.nth(1)).to_have_class("row unread")
    press("Delete")
    expect(opened.rows).to_have_count(4)
    expect(opened.burst(1)).to_be_focused()
    press("z")
    expect(opened.rows).to_have_count(5)
    expect(opened.burst(1)).to_be_focused()
    press("End")
    expect(opened.burst(4)).to_be_focused()
    marks = [(call["bursts"], call["mark"]) for call in inbox.calls("PUT /v1/inbox/marks")]
    assert marks == [(["b998"], "unread"), (["b998"], "hidden"), (["b998"], "unread")]


def test_only_one_row_is_a_stop_of_the_tab_key(opened: Opened) -> None:
    opened.live().burst(2).focus()
    assert opened.inside("root.querySelectorAll('.row [tabindex=\"0\"]').length") == 2
    opened.page.keyboard.press("Tab")
    expect(opened.rows.nth(2).locator(".more")).to_be_focused()


def test_the_menu_hides_a_row_and_takes_it_back(opened: Opened, inbox: Inbox) -> None:
    opened.live().rows.nth(1).hover()
    opened.rows.nth(1).locator(".more").click()
    expect(opened.page.get_by_role("menuitem").first).to_be_focused()
    opened.page.keyboard.press("Escape")
    expect(opened.rows.nth(1).locator(".more")).to_be_focused()
    opened.page.keyboard.press("Enter")
    opened.page.get_by_role("menuitem", name="Hide").click()
    expect(opened.rows).to_have_count(4)
    opened.page.get_by_role("button", name="Undo").click()
    expect(opened.rows).to_have_count(5)


def test_a_mark_that_the_server_refuses_is_taken_back(opened: Opened, inbox: Inbox) -> None:
    inbox.marks_status = 503
    opened.live().burst(1).focus()
    opened.page.keyboard.press("Delete")
    expect(opened.page.locator("notifier-inbox .toast")).to_contain_text("Nothing was changed")
    expect(opened.rows).to_have_count(5)


def test_older_rows_load_on_the_way_down_to_the_end(opened: Opened, inbox: Inbox) -> None:
    inbox.items = items(45)
    opened.live().scroll(100_000)
    expect(opened.rows).to_have_count(45)
    expect(opened.page.get_by_text("That’s all")).to_be_attached()


def test_older_rows_that_fail_wait_for_a_click(opened: Opened, inbox: Inbox) -> None:
    inbox.items, inbox.older_status = items(45), 503
    opened.live().scroll(100_000)
    again = opened.page.get_by_role("button", name="Older ones didn’t load")
    expect(again).to_be_visible()
    inbox.older_status = 200
    again.click()
    expect(opened.rows).to_have_count(45)


def test_the_document_stays_bounded_on_the_way_down(opened: Opened, inbox: Inbox) -> None:
    inbox.items = items(420)
    opened.live()
    last = opened.page.locator("notifier-inbox .end")

    def down() -> bool:
        opened.scroll(1_000_000)
        return last.is_visible()

    opened.until(down)
    expect(opened.rows).to_have_count(200)
    opened.pill.click()
    expect(opened.rows).to_have_count(20)
    expect(opened.rows.first.locator("time")).to_have_attribute("datetime", inbox.items[0]["opened_at"])


def test_the_document_stays_bounded_through_a_busy_day(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    for number in range(1000, 1300):
        inbox.arrive(item(number))
    expect(opened.rows.first.locator("time")).to_have_attribute("datetime", inbox.items[0]["opened_at"])
    expect(opened.rows).to_have_count(200)
    opened.scroll(1_000_000)
    expect(opened.rows.last.locator("time")).not_to_have_attribute("datetime", inbox.items[199]["opened_at"])
    assert opened.rows.count() <= 200


@pytest.mark.parametrize("name", HOSTILE, ids=["markup", "override", "zalgo", "long", "control", "right to left"])
def test_a_hostile_name_is_only_a_name(opened: Opened, inbox: Inbox, name: str) -> None:
    inbox.items[0].update(
        names=[name, "bob", "eve"], more=True, count=9, text=f"{name} and others, 9 mentions of @nova"
    )
    opened.live()
    expect(opened.rows.first.locator(".text")).to_contain_text("and others, 9 mentions of @nova")
    expect(opened.rows.first.locator(".text bdi").first).to_be_visible()
    text = opened.rows.first.inner_text()
    assert not re.search("[\u0000-\u0009\u202a-\u202e]|\u0351{4}", text)
    assert opened.inside("root.querySelectorAll('img').length") == 0
    assert opened.rows.first.bounding_box()["height"] < 130  # type: ignore[index] # it is visible


def test_nothing_here_says_so(opened: Opened, inbox: Inbox) -> None:
    inbox.items = []
    opened.open()
    expect(opened.page.get_by_text("Nothing here yet")).to_be_visible()
    inbox.arrive(item(1000))
    expect(opened.rows).to_have_count(1)


def test_a_failure_offers_another_try(opened: Opened, inbox: Inbox) -> None:
    inbox.status = 503
    opened.open()
    expect(opened.page.get_by_text("Notifications didn’t load").first).to_be_visible()
    inbox.status = 200
    opened.page.get_by_role("button", name="Try again").click()
    expect(opened.rows).to_have_count(5)


def test_offline_shows_what_it_has(opened: Opened, context: BrowserContext, inbox: Inbox) -> None:
    opened.live()
    context.set_offline(True)
    expect(opened.page.get_by_text("You’re offline.")).to_be_visible()
    expect(opened.rows).to_have_count(5)
    inbox.items.insert(0, item(1000))
    context.set_offline(False)
    expect(opened.page.get_by_text("You’re offline.")).to_be_hidden()
    expect(opened.rows).to_have_count(6)


def test_a_partial_page_says_that_something_may_be_missing(opened: Opened, inbox: Inbox) -> None:
    inbox.partial = True
    opened.open()
    expect(opened.page.get_by_text("Some notifications may be missing.")).to_be_visible()
    inbox.partial = False
    opened.page.get_by_role("button", name="Try again").click()
    expect(opened.page.get_by_text("Some notifications may be missing.")).to_be_hidden()


def test_a_token_that_ran_out_is_renewed_once(opened: Opened, inbox: Inbox) -> None:
    opened.open(before="document.querySelector('notifier-inbox').getToken = async () => 'good'", token="old")
    expect(opened.rows).to_have_count(5)


def test_without_another_token_the_session_has_ended(opened: Opened) -> None:
    opened.open(token="old")
    expect(opened.page.get_by_text("Your session has ended").first).to_be_visible()


def test_rows_stay_when_the_session_ends_under_them(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    inbox.token = "other"
    inbox.say("reset")
    expect(opened.page.get_by_text("Your session has ended")).to_be_visible()
    expect(opened.rows).to_have_count(5)


def test_another_token_drops_what_was_shown(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    inbox.token, inbox.items = "other", [item(7, text="for somebody else")]
    opened.page.evaluate("document.querySelector('notifier-inbox').token = 'other'")
    expect(opened.rows).to_have_count(1)
    expect(opened.burst(0)).to_have_text("for somebody else")


def test_no_token_stands_in_an_address(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    assert [call for call, _ in inbox.asked if inbox.token in call] == []
    assert inbox.calls("GET /v1/inbox/stream")[0]["Authorization"] == "Bearer good"


def test_a_stream_that_was_cut_goes_on_where_it_was(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    inbox.raw("retry: 100\n\n")
    inbox.arrive(item(1000))
    expect(opened.rows).to_have_count(6)
    inbox.raw(CLOSE)
    opened.until(lambda: len(inbox.calls("GET /v1/inbox/stream")) == 2)
    assert inbox.calls("GET /v1/inbox/stream")[1]["Last-Event-ID"] == f"as-of-{inbox.issued}"


def test_a_silent_stream_is_given_up(opened: Opened, inbox: Inbox) -> None:
    opened.open(before=POLLING_SOON % "{ silence: 300, backoff: 100 }")
    opened.until(lambda: len(inbox.calls("GET /v1/inbox/stream")) >= 2)


def test_where_there_is_no_stream_it_polls_with_the_tag(opened: Opened, inbox: Inbox) -> None:
    inbox.stream_status = 404
    opened.open()
    expect(opened.rows).to_have_count(5)
    opened.until(lambda: len(inbox.calls("GET /v1/inbox")) >= 2)
    assert "If-None-Match" in inbox.calls("GET /v1/inbox")[1]
    inbox.items.insert(0, item(1000))
    expect(opened.rows).to_have_count(6)
    assert len(inbox.calls("GET /v1/inbox/stream")) == 1


def test_a_reset_loads_the_first_page_again(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    del inbox.items[1]
    inbox.say("reset")
    expect(opened.rows).to_have_count(4)


def test_two_tabs_of_one_person_agree(opened: Opened, context: BrowserContext, address: str, inbox: Inbox) -> None:
    opened.live()
    other = Opened(page=context.new_page(), address=address, inbox=inbox).live()
    opened.until(lambda: len(inbox.lines) == 2)
    other.burst(0).focus()
    other.page.keyboard.press("u")
    expect(opened.rows.first).to_have_class(re.compile("unread"))
    expect(opened.badge).to_have_text("1")
    opened.page.wait_for_timeout(3_000)  # longer than it takes to look, to be told otherwise and to look again
    expect(opened.rows.first).to_have_class(re.compile("unread"))
    assert len(inbox.calls("PUT /v1/inbox/seen")) <= 2  # one of each tab


def test_events_are_read_however_they_were_cut(page: Page, address: str) -> None:
    page.goto(address)
    found = page.evaluate(
        """async () => {
          const { reader } = await import('/static/notifier-inbox/sse.js');
          const text = ': beat\\r\\nevent: row\\r\\ndata: {"a":\\r\\ndata: 1}\\r\\nid: 7\\r\\n\\r\\n'
            + 'retry: 20\\rdata: x\\r\\rdata:y\\n\\n';
          return Array.from({ length: text.length }, (_, cut) => {
            const told = [];
            const feed = reader((event) => told.push([event.type, event.data ?? event.retry, event.id].join('|')));
            [text.slice(0, cut), text.slice(cut)].forEach(feed);
            return told.join(' ');
          });
        }"""
    )
    assert set(found) == {'row|{"a":\n1}|7 retry|20| message|x| message|y|'}


def test_removing_the_element_leaves_nothing_running(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    opened.page.evaluate("window.old = document.querySelector('notifier-inbox'); window.old.remove()")

    def left() -> bool:
        inbox.raw(": anybody?\n\n")
        return not inbox.lines

    opened.until(left)
    asked = len(inbox.asked)
    opened.turn("visible")
    opened.page.evaluate("window.dispatchEvent(new Event('online'))")
    opened.page.wait_for_timeout(300)
    assert len(inbox.asked) == asked
    opened.page.evaluate("document.querySelector('main').append(window.old)")
    expect(opened.rows).to_have_count(5)


@pytest.mark.parametrize(("width", "side"), [(320, "ltr"), (360, "rtl")])
def test_nothing_sticks_out_of_a_phone(opened: Opened, inbox: Inbox, width: int, side: str) -> None:
    inbox.items[0].update(
        names=["x" * 500, "y" * 500], more=True, text="x" * 500 + " and others, 12890 mentions of @nova"
    )
    opened.page.set_viewport_size({"width": width, "height": 600})
    opened.open(before=f"document.documentElement.dir = '{side}'")
    expect(opened.rows).to_have_count(5)
    assert opened.inside("root.querySelector('.scroller').scrollWidth") == width
    dot, avatar = (opened.rows.first.locator(part).bounding_box() for part in (".dot", ".avatars"))
    assert dot
    assert avatar
    assert (dot["x"] < avatar["x"]) == (side == "ltr")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_any_state(opened: Opened, context: BrowserContext, inbox: Inbox, scheme: str) -> None:
    opened.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    found: dict[str, list[str]] = {}

    def check(state: str, shown: str) -> None:
        expect(opened.page.get_by_text(shown).first).to_be_visible()
        rules = violations(opened.page)
        found.update({state: rules} if rules else {})

    inbox.gate.clear()
    opened.open()
    check("loading", "Notifications")
    inbox.items = items(30)
    inbox.items[0].update(unread=True, names=["ada", "bob"], more=True)
    inbox.gate.set()
    check("rows", "ada mentioned")
    opened.burst(0).focus()
    inbox.arrive(item(1000))
    check("pill", "1 new")
    opened.rows.nth(1).locator(".more").click()
    check("menu", "Hide")
    opened.page.get_by_role("menuitem", name="Hide").click()
    check("undo", "Notification hidden")
    context.set_offline(True)
    check("offline", "You’re offline")
    context.set_offline(False)
    inbox.partial = True
    opened.open()
    check("partial", "may be missing")
    inbox.partial, inbox.status = False, 503
    opened.open()
    check("failed", "Notifications didn’t load")
    inbox.status, inbox.items = 200, []
    opened.open()
    check("empty", "Nothing here yet")
    opened.open(token="old")
    check("expired", "Your session has ended")
    assert found == {}
