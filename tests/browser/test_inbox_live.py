"""`<notifier-inbox>` with live events: new rows, seen state and broken streams."""

import re

from playwright.sync_api import BrowserContext, Page, expect

from tests.support.browser.fake_inbox import CLOSE, Inbox, item, items
from tests.support.browser.inbox_page import FakeInboxPage

SET_TIMING = "import('/static/notifier-inbox/delays-and-limits.js').then(({ TIMING }) => Object.assign(TIMING, %s))"


def wait_until_closed(inbox_page: FakeInboxPage) -> None:
    """Return when the page has closed its stream: the server notices it when it writes."""

    def is_closed() -> bool:
        inbox_page.inbox.raw(": anybody?\n\n")
        return not inbox_page.inbox.streams

    inbox_page.until(is_closed)


def test_growing_row_changes_text_and_keeps_position(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    inbox.send("group", inbox.items[2] | {"count": 9, "text": "ada and others, 9 mentions of @nova"})
    expect(inbox_page.rows.nth(2).locator(".text")).to_have_text("ada and others, 9 mentions of @nova")
    expect(inbox_page.rows).to_have_count(5)


def test_new_row_appears_when_list_is_idle(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    inbox.arrive(item(1000, text="eve mentioned @nova", unread=True))
    expect(inbox_page.rows).to_have_count(6)
    expect(inbox_page.burst(0)).to_have_text("Unread: eve mentioned @nova")
    expect(inbox_page.pill).to_be_hidden()


def test_new_rows_wait_behind_pill_while_list_is_scrolled(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items = items(20)
    inbox_page.live().scroll(300)
    for number in (1000, 1001, 1002):
        inbox.arrive(item(number, unread=True))
    expect(inbox_page.pill).to_have_text("3 new")
    expect(inbox_page.rows).to_have_count(20)
    assert inbox_page.inside("root.querySelector('.scroller').scrollTop") == 300
    inbox_page.pill.click()
    expect(inbox_page.rows).to_have_count(23)
    expect(inbox_page.burst(0)).to_be_focused()
    assert inbox_page.inside("root.querySelector('.scroller').scrollTop") == 0


def test_new_rows_wait_while_list_has_keyboard_focus(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live().burst(0).focus()
    inbox.arrive(item(1000))
    expect(inbox_page.pill).to_have_text("1 new")


def test_new_rows_are_announced_together_and_growth_is_not(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live().burst(0).focus()
    status = inbox_page.page.get_by_role("status")
    inbox.send("group", inbox.items[0] | {"count": 2, "text": "grown"})
    expect(inbox_page.rows.first.locator(".text")).to_have_text("grown")
    expect(status).to_have_text("")
    for number in (1000, 1001, 1002):
        inbox.arrive(item(number))
    expect(status).to_have_text("3 new notifications")


def test_visible_rows_become_seen(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items[1]["unread"] = True
    inbox_page.live()
    expect(inbox_page.rows.nth(1)).to_have_class("row highlighted")
    inbox_page.until(lambda: len(inbox.calls("PUT /v1/inbox/seen")) == 1)
    expect(inbox_page.badge).to_be_hidden()


def test_rows_behind_pill_are_not_seen(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items[1]["unread"] = True
    inbox_page.live().burst(0).focus()
    inbox.arrive(item(1000, unread=True))
    expect(inbox_page.rows.nth(1)).to_have_class("row highlighted")
    inbox_page.until(lambda: not inbox.items[2]["unread"])
    assert inbox.items[0]["unread"]
    expect(inbox_page.badge).to_have_text("1")
    inbox_page.pill.click()
    inbox_page.until(lambda: not inbox.items[0]["unread"])


def test_background_tab_marks_nothing_as_seen(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items[0]["unread"] = True
    inbox_page.open(
        before="Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true })"
    )
    expect(inbox_page.rows.first).to_have_class(re.compile("unread"))
    inbox_page.page.wait_for_timeout(1_300)  # longer than the time until rows count as seen
    assert inbox.calls("PUT /v1/inbox/seen") == []
    inbox_page.turn("visible")
    inbox_page.until(lambda: inbox.calls("PUT /v1/inbox/seen"))


def test_interrupted_stream_resumes_at_last_event(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    inbox.raw("retry: 100\n\n")
    inbox.arrive(item(1000))
    expect(inbox_page.rows).to_have_count(6)
    inbox.raw(CLOSE)
    inbox_page.until(lambda: len(inbox.calls("GET /v1/inbox/stream")) == 2)
    assert inbox.calls("GET /v1/inbox/stream")[1]["Last-Event-ID"] == f"as-of-{inbox.token_count}"


def test_silent_stream_is_reconnected(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.open(before=SET_TIMING % "{ silence: 300, minBackoff: 100 }")
    inbox_page.until(lambda: len(inbox.calls("GET /v1/inbox/stream")) >= 2)


def test_page_polls_with_etag_without_a_stream(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.stream_status = 404
    inbox_page.open()
    expect(inbox_page.rows).to_have_count(5)
    inbox_page.until(lambda: len(inbox.calls("GET /v1/inbox")) >= 2)
    assert "If-None-Match" in inbox.calls("GET /v1/inbox")[1]
    inbox.items.insert(0, item(1000))
    expect(inbox_page.rows).to_have_count(6)
    assert len(inbox.calls("GET /v1/inbox/stream")) == 1


def test_reset_reloads_first_page(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    del inbox.items[1]
    inbox.send("reset")
    expect(inbox_page.rows).to_have_count(4)


def test_two_tabs_of_one_user_agree(
    inbox_page: FakeInboxPage, context: BrowserContext, address: str, inbox: Inbox
) -> None:
    inbox_page.live()
    second = FakeInboxPage(page=context.new_page(), address=address, inbox=inbox).live()
    inbox_page.until(lambda: len(inbox.streams) == 2)
    second.burst(0).focus()
    second.page.keyboard.press("u")
    expect(inbox_page.rows.first).to_have_class(re.compile("unread"))
    expect(inbox_page.badge).to_have_text("1")
    inbox_page.page.wait_for_timeout(3_000)  # longer than a seen mark, its change and a second one take
    expect(inbox_page.rows.first).to_have_class(re.compile("unread"))
    assert len(inbox.calls("PUT /v1/inbox/seen")) <= 2  # one from each tab


def test_events_between_page_and_slow_stream_are_not_missed(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.badge = {"count": 100, "more": True}  # stays the same, so that it gives nothing away
    inbox.stream_gate.clear()
    inbox_page.open()
    expect(inbox_page.rows).to_have_count(5)
    inbox.items[2] |= {"count": 2, "text": "ada and bob, 2 mentions of @nova"}
    inbox.send("group", inbox.items[2])
    inbox.arrive(item(1000, unread=True))
    inbox.stream_gate.set()
    expect(inbox_page.rows).to_have_count(6)
    expect(inbox_page.rows.nth(3).locator(".text")).to_have_text("ada and bob, 2 mentions of @nova")


def test_events_while_tab_was_hidden_are_not_missed(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.open(before=SET_TIMING % "{ hiddenTab: 50 }")
    inbox_page.until(lambda: bool(inbox.streams))
    inbox_page.turn("hidden")
    wait_until_closed(inbox_page)
    inbox.items[2] |= {"count": 2, "text": "grown"}
    inbox.send("group", inbox.items[2])
    inbox_page.page.route("**/v1/inbox?*", lambda route: route.abort())  # and the page request fails
    inbox_page.turn("visible")
    expect(inbox_page.rows.nth(2).locator(".text")).to_have_text("grown")


def test_tab_opened_in_background_closes_its_stream(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    hidden = "Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true });"
    inbox_page.open(before=f"{hidden} {SET_TIMING % '{ hiddenTab: 50 }'}")
    inbox_page.until(lambda: bool(inbox.streams))
    wait_until_closed(inbox_page)
    inbox.arrive(item(1000))
    inbox_page.turn("visible")
    expect(inbox_page.rows).to_have_count(6)


def test_page_older_than_stream_events_reverts_nothing(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    pages = len(inbox.calls("GET /v1/inbox"))
    inbox.stale = True
    inbox.page_gate.clear()
    inbox_page.page.evaluate("window.dispatchEvent(new Event('online'))")
    inbox_page.until(lambda: len(inbox.calls("GET /v1/inbox")) > pages)
    inbox.items = [*inbox.items[:2], inbox.items[2] | {"count": 2, "text": "grown"}, *inbox.items[3:]]
    inbox.send("group", inbox.items[2])
    inbox.arrive(item(1000))
    expect(inbox_page.rows).to_have_count(6)
    inbox.page_gate.set()
    inbox_page.page.wait_for_timeout(500)  # longer than the page needs to load
    expect(inbox_page.rows).to_have_count(6)
    expect(inbox_page.rows.nth(3).locator(".text")).to_have_text("grown")


def test_hide_and_undo_apply_to_both_tabs(
    inbox_page: FakeInboxPage, context: BrowserContext, address: str, inbox: Inbox
) -> None:
    inbox_page.live()
    second = FakeInboxPage(page=context.new_page(), address=address, inbox=inbox).live()
    inbox_page.until(lambda: len(inbox.streams) == 2)
    second.burst(1).focus()
    second.page.keyboard.press("Delete")
    expect(inbox_page.rows).to_have_count(4)
    second.page.keyboard.press("z")
    expect(inbox_page.rows).to_have_count(5)
    expect(second.rows).to_have_count(5)
    inbox_page.burst(1).focus()
    inbox_page.page.keyboard.press("Delete")
    expect(second.rows).to_have_count(4)
    inbox.mark(["b998"], "read")  # undone on a third device
    expect(inbox_page.rows).to_have_count(5)


def test_undoing_hide_leaves_no_mark(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items[1]["unread"] = True
    inbox_page.page.add_init_script(SET_TIMING % "{ seen: 60_000 }")
    inbox_page.live().burst(1).focus()
    inbox_page.page.keyboard.press("Delete")
    expect(inbox_page.rows).to_have_count(4)
    inbox_page.page.keyboard.press("z")
    inbox_page.until(lambda: len(inbox.calls("PUT /v1/inbox/marks")) == 2)
    assert [mark["mark"] for mark in inbox.calls("PUT /v1/inbox/marks")] == ["hidden", "none"]
    expect(inbox_page.rows.nth(1)).to_have_class(re.compile("unread"))


def test_quick_undo_is_not_overtaken_by_the_hide(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.delayed_change = "hidden"
    inbox_page.live().burst(1).focus()
    inbox_page.page.keyboard.press("Delete")
    expect(inbox_page.rows).to_have_count(4)
    inbox_page.page.keyboard.press("z")
    inbox_page.until(lambda: len(inbox.marked) == 2)
    assert inbox.marked == ["hidden", "read"]
    expect(inbox_page.rows).to_have_count(5)


def test_row_restored_elsewhere_returns_with_next_page(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live().burst(1).focus()
    with inbox_page.page.expect_response("**/v1/inbox/marks"):
        inbox_page.page.keyboard.press("Delete")
    expect(inbox_page.rows).to_have_count(4)
    inbox.items.insert(1, inbox.hidden.pop("b998"))
    inbox.send("reset")
    expect(inbox_page.rows).to_have_count(5)


def test_stream_resumes_before_reset_until_page_is_loaded(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    before = inbox.token_count
    inbox_page.page.route("**/v1/inbox?*", lambda route: route.abort())
    inbox.raw("retry: 100\n\n")
    inbox.send("reset")
    inbox.send("count", inbox.count())
    inbox.raw(CLOSE)
    inbox_page.until(lambda: len(inbox.calls("GET /v1/inbox/stream")) == 2)
    assert int(inbox.calls("GET /v1/inbox/stream")[1]["Last-Event-ID"].removeprefix("as-of-")) <= before


def test_events_cut_at_any_place_are_parsed(page: Page, address: str) -> None:
    page.goto(address)
    results = page.evaluate(
        """async () => {
          const { eventParser } = await import('/static/notifier-inbox/event-stream-parser.js');
          const text = ': beat\\r\\nevent: row\\r\\ndata: {"a":\\r\\ndata: 1}\\r\\nid: 7\\r\\n\\r\\n'
            + 'retry: 20\\rdata: x\\r\\rdata:y\\n\\n';
          return Array.from({ length: text.length }, (_, cut) => {
            const events = [];
            const feed = eventParser(({ type, data, retry, id }) => events.push([type, data ?? retry, id].join('|')));
            [text.slice(0, cut), text.slice(cut)].forEach(feed);
            return events.join(' ');
          });
        }"""
    )
    assert set(results) == {'row|{"a":\n1}|7 retry|20| message|x| message|y|'}


def test_removed_element_sends_no_request(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    inbox_page.page.evaluate("window.old = document.querySelector('notifier-inbox'); window.old.remove()")
    wait_until_closed(inbox_page)
    requests = len(inbox.requests)
    inbox_page.turn("visible")
    inbox_page.page.evaluate("window.dispatchEvent(new Event('online'))")
    inbox_page.page.wait_for_timeout(300)  # longer than a request takes
    assert len(inbox.requests) == requests
    inbox_page.page.evaluate("document.querySelector('main').append(window.old)")
    expect(inbox_page.rows).to_have_count(5)
