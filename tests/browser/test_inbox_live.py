"""`<notifier-inbox>` while things happen: new rows, what counts as seen, and a stream that breaks."""

import re

from playwright.sync_api import BrowserContext, Page, expect

from tests.support.browser.fake_inbox import CLOSE, Inbox, item, items
from tests.support.browser.page import Opened

POLLING_SOON = "import('/static/notifier-inbox/pace.js').then(({ PACE }) => Object.assign(PACE, %s))"


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
    opened.until(lambda: len(inbox.calls("PUT /v1/inbox/seen")) == 1)
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


def test_what_came_between_page_and_a_slow_stream_is_not_missed(opened: Opened, inbox: Inbox) -> None:
    inbox.badge = {"count": 100, "more": True}  # which doesn't change, and so tells nothing
    inbox.line_gate.clear()
    opened.open()
    expect(opened.rows).to_have_count(5)
    inbox.items[2] |= {"count": 2, "text": "ada and bob, 2 mentions of @nova"}
    inbox.say("group", inbox.items[2])
    inbox.arrive(item(1000, unread=True))
    inbox.line_gate.set()
    expect(opened.rows).to_have_count(6)
    expect(opened.rows.nth(3).locator(".text")).to_have_text("ada and bob, 2 mentions of @nova")


def test_what_came_while_the_tab_rested_in_the_back_is_not_missed(opened: Opened, inbox: Inbox) -> None:
    opened.open(before=POLLING_SOON % "{ hidden: 50 }")
    opened.until(lambda: bool(inbox.lines))
    opened.turn("hidden")
    opened.page.wait_for_timeout(100)
    inbox.raw(": anybody?\n\n")

    def left() -> bool:
        inbox.raw(": anybody?\n\n")
        return not inbox.lines

    opened.until(left)
    inbox.items[2] |= {"count": 2, "text": "grown"}
    inbox.say("group", inbox.items[2])
    opened.page.route("**/v1/inbox?*", lambda route: route.abort())  # and the page doesn't come
    opened.turn("visible")
    expect(opened.rows.nth(2).locator(".text")).to_have_text("grown")


def test_a_tab_that_was_opened_in_the_back_gives_its_connection_back_too(opened: Opened, inbox: Inbox) -> None:
    hidden = "Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true });"
    opened.open(before=f"{hidden} {POLLING_SOON % '{ hidden: 50 }'}")
    opened.until(lambda: bool(inbox.calls("GET /v1/inbox/stream")))

    def left() -> bool:
        inbox.raw(": anybody?\n\n")
        return not inbox.lines

    opened.until(left)
    inbox.arrive(item(1000))
    opened.turn("visible")
    expect(opened.rows).to_have_count(6)


def test_a_page_that_is_older_than_what_the_stream_told_takes_nothing_back(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    inbox.stale = True
    inbox.gate.clear()
    opened.page.evaluate("window.dispatchEvent(new Event('online'))")
    opened.until(lambda: len(inbox.calls("GET /v1/inbox")) == 2)
    inbox.items = [*inbox.items[:2], inbox.items[2] | {"count": 2, "text": "grown"}, *inbox.items[3:]]
    inbox.say("group", inbox.items[2])
    inbox.arrive(item(1000))
    expect(opened.rows).to_have_count(6)
    inbox.gate.set()
    opened.page.wait_for_timeout(500)  # longer than the page takes
    expect(opened.rows).to_have_count(6)
    expect(opened.rows.nth(3).locator(".text")).to_have_text("grown")


def test_a_row_that_was_hidden_in_one_tab_goes_from_the_other_and_comes_back(
    opened: Opened, context: BrowserContext, address: str, inbox: Inbox
) -> None:
    opened.live()
    other = Opened(page=context.new_page(), address=address, inbox=inbox).live()
    opened.until(lambda: len(inbox.lines) == 2)
    other.burst(1).focus()
    other.page.keyboard.press("Delete")
    expect(opened.rows).to_have_count(4)
    other.page.keyboard.press("z")
    expect(opened.rows).to_have_count(5)
    expect(other.rows).to_have_count(5)
    opened.burst(1).focus()
    opened.page.keyboard.press("Delete")
    expect(other.rows).to_have_count(4)
    inbox.mark(["b998"], "read")  # taken back on a third device
    expect(opened.rows).to_have_count(5)


def test_taking_back_a_hide_leaves_no_mark_that_outlasts_being_seen(opened: Opened, inbox: Inbox) -> None:
    inbox.items[1]["unread"] = True
    opened.page.add_init_script(POLLING_SOON % "{ looked: 60_000 }")
    opened.live().burst(1).focus()
    opened.page.keyboard.press("Delete")
    expect(opened.rows).to_have_count(4)
    opened.page.keyboard.press("z")
    opened.until(lambda: len(inbox.calls("PUT /v1/inbox/marks")) == 2)
    assert [mark["mark"] for mark in inbox.calls("PUT /v1/inbox/marks")] == ["hidden", "none"]
    expect(opened.rows.nth(1)).to_have_class(re.compile("unread"))


def test_who_changes_their_mind_at_once_is_not_overtaken_by_their_first_mark(opened: Opened, inbox: Inbox) -> None:
    inbox.slow = "hidden"
    opened.live().burst(1).focus()
    opened.page.keyboard.press("Delete")
    expect(opened.rows).to_have_count(4)
    opened.page.keyboard.press("z")
    opened.until(lambda: len(inbox.marked) == 2)
    assert inbox.marked == ["hidden", "read"]
    expect(opened.rows).to_have_count(5)


def test_a_row_that_was_taken_back_elsewhere_meanwhile_is_back_with_the_page(opened: Opened, inbox: Inbox) -> None:
    opened.live().burst(1).focus()
    opened.page.keyboard.press("Delete")
    expect(opened.rows).to_have_count(4)
    opened.until(lambda: bool(inbox.gone))
    opened.page.wait_for_timeout(100)  # the answer comes
    inbox.items.insert(1, inbox.gone.pop("b998"))
    inbox.say("reset")
    expect(opened.rows).to_have_count(5)


def test_until_a_page_made_up_for_a_reset_the_stream_goes_on_from_before_it(opened: Opened, inbox: Inbox) -> None:
    opened.live()
    before = inbox.issued
    opened.page.route("**/v1/inbox?*", lambda route: route.abort())
    inbox.raw("retry: 100\n\n")
    inbox.say("reset")
    inbox.say("count", inbox.count())
    inbox.raw(CLOSE)
    opened.until(lambda: len(inbox.calls("GET /v1/inbox/stream")) == 2)
    assert int(inbox.calls("GET /v1/inbox/stream")[1]["Last-Event-ID"].removeprefix("as-of-")) <= before


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
