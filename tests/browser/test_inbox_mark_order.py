"""Marks on several devices: never an older state after a newer one."""

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.browser.fake_inbox import Inbox, items
from tests.support.browser.inbox_page import FakeInboxPage

SET_TIMING = "import('/static/notifier-inbox/delays-and-limits.js').then(({ TIMING }) => Object.assign(TIMING, %s))"
NEVER_SEEN = SET_TIMING % "{ seen: 36_000_000 }"
LOG = """() => {
  const root = document.querySelector('notifier-inbox').shadowRoot;
  const row = root.querySelectorAll('.row')[1];
  const badge = root.querySelector('.badge');
  const state = () => [row.isConnected && row.classList.contains('unread'), badge.firstChild?.textContent];
  window.states = [state()];
  const log = () => JSON.stringify(state()) === JSON.stringify(window.states.at(-1)) || window.states.push(state());
  new MutationObserver(log).observe(root, { subtree: true, childList: true, characterData: true, attributes: true });
}"""
"""Logs each state of the second row and the badge."""
MARKS, PAGE = "PUT /v1/inbox/marks", "GET /v1/inbox"

pytestmark = pytest.mark.timeout(120)


def log(inbox_page: FakeInboxPage) -> None:
    inbox_page.page.evaluate(LOG)


def unread_states(inbox_page: FakeInboxPage) -> list[bool]:
    states: list[Any] = inbox_page.page.evaluate("window.states")
    unread = [state[0] for state in states]
    return [state for index, state in enumerate(unread) if index == 0 or state != unread[index - 1]]


def badges(inbox_page: FakeInboxPage) -> list[str]:
    states: list[Any] = inbox_page.page.evaluate("window.states")
    counts = [state[1] for state in states]
    return [count for index, count in enumerate(counts) if index == 0 or count != counts[index - 1]]


def sync(inbox_page: FakeInboxPage) -> None:
    """Return when the page has handled every earlier stream event."""
    text = f"sync {inbox_page.inbox.token_count}"
    inbox_page.inbox.send("group", inbox_page.inbox.items[0] | {"text": text})
    expect(inbox_page.rows.first.locator(".text")).to_have_text(text)


def mark(inbox_page: FakeInboxPage, key: str) -> None:
    """Mark the second row by a key."""
    count = len(inbox_page.inbox.calls(MARKS))
    inbox_page.burst(1).focus()
    inbox_page.page.keyboard.press(key)
    inbox_page.until(lambda: len(inbox_page.inbox.calls(MARKS)) > count)


def hold_page_response(inbox_page: FakeInboxPage) -> None:
    """Request the page as it is now, and hold the response."""
    count = len(inbox_page.inbox.calls(PAGE))
    inbox_page.inbox.stale = True
    inbox_page.inbox.page_gate.clear()
    inbox_page.page.evaluate("window.dispatchEvent(new Event('online'))")
    inbox_page.until(lambda: len(inbox_page.inbox.calls(PAGE)) > count)


def release_page_response(inbox_page: FakeInboxPage) -> None:
    """Release the held response, and return when it is drawn: the next page is requested only after that."""
    count = len(inbox_page.inbox.calls(PAGE))
    inbox_page.inbox.page_gate.set()
    inbox_page.inbox.page_gate.clear()
    inbox_page.page.evaluate("window.dispatchEvent(new Event('online'))")
    inbox_page.until(lambda: len(inbox_page.inbox.calls(PAGE)) > count)
    inbox_page.page.evaluate("new Promise((resolve) => setTimeout(resolve, 100))")  # after the timer that draws
    inbox_page.inbox.page_gate.set()


def test_own_mark_is_not_undone_by_an_older_event(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    older = dict(inbox.items[1])
    log(inbox_page)
    inbox.mark_gate.clear()
    mark(inbox_page, "u")
    inbox.send("marked", older)
    inbox.send("count", {"count": 0, "more": False})
    sync(inbox_page)
    expect(inbox_page.badge).to_have_text("1")
    inbox.mark_gate.set()
    inbox_page.until(lambda: inbox.marked == ["unread"])
    sync(inbox_page)
    inbox_page.page.wait_for_timeout(1_200)  # longer than events are delayed
    assert unread_states(inbox_page) == [False, True]
    assert badges(inbox_page)[-1] == "1"
    assert len(badges(inbox_page)) == 2


def test_own_hide_is_not_undone_by_an_older_event(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    older = dict(inbox.items[1])
    inbox.mark_gate.clear()
    mark(inbox_page, "Delete")
    inbox.send("marked", older)
    sync(inbox_page)
    assert inbox_page.rows.count() == 4
    inbox.mark_gate.set()
    inbox_page.until(lambda: inbox.marked == ["hidden"])
    sync(inbox_page)
    inbox_page.page.wait_for_timeout(1_200)  # longer than events are delayed
    assert inbox_page.rows.count() == 4


def test_own_mark_is_not_undone_by_an_older_page(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    log(inbox_page)
    hold_page_response(inbox_page)
    mark(inbox_page, "u")
    release_page_response(inbox_page)
    sync(inbox_page)
    assert unread_states(inbox_page) == [False, True]


def test_own_mark_is_not_undone_by_older_page_without_stream(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.stream_status = 404
    inbox_page.open()
    expect(inbox_page.rows).to_have_count(5)
    log(inbox_page)
    inbox.items[4]["count"] = 2  # otherwise the page would be a 304
    hold_page_response(inbox_page)
    mark(inbox_page, "u")
    release_page_response(inbox_page)
    inbox_page.until(lambda: inbox.marked == ["unread"])
    polls = len(inbox.calls(PAGE))
    inbox_page.until(lambda: len(inbox.calls(PAGE)) > polls + 1)
    assert unread_states(inbox_page) == [False, True]


def test_page_requested_during_a_mark_does_not_undo_it(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    log(inbox_page)
    inbox.mark_gate.clear()
    mark(inbox_page, "u")
    hold_page_response(inbox_page)
    release_page_response(inbox_page)
    inbox.mark_gate.set()
    inbox_page.until(lambda: inbox.marked == ["unread"])
    sync(inbox_page)
    assert unread_states(inbox_page) == [False, True]


def test_undone_hide_is_not_hidden_again_by_an_older_page(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    mark(inbox_page, "Delete")
    inbox_page.until(lambda: inbox.marked == ["hidden"])
    hold_page_response(inbox_page)
    inbox_page.page.keyboard.press("z")
    expect(inbox_page.rows).to_have_count(5)
    inbox_page.until(lambda: len(inbox.marked) == 2)
    counting = "new MutationObserver(() => window.counts.add(root.querySelectorAll('.row').length))"
    inbox_page.page.evaluate("window.counts = new Set()")
    inbox_page.inside(f"{counting}.observe(root, {{ subtree: true, childList: true }})")
    release_page_response(inbox_page)
    sync(inbox_page)
    assert set(inbox_page.page.evaluate("[...window.counts]")) <= {5}


def test_refused_mark_stays_reverted_after_an_older_page(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    hold_page_response(inbox_page)
    inbox.marks_status = 503
    mark(inbox_page, "u")
    expect(inbox_page.rows.nth(1)).not_to_have_class(re.compile("unread"))
    release_page_response(inbox_page)
    sync(inbox_page)
    expect(inbox_page.rows.nth(1)).not_to_have_class(re.compile("unread"))


def test_older_page_does_not_make_seen_rows_unread(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items[1]["unread"] = True
    inbox_page.open(before=NEVER_SEEN)
    inbox_page.until(lambda: bool(inbox.streams))
    expect(inbox_page.rows.nth(1)).to_have_class(re.compile("unread"))
    log(inbox_page)
    hold_page_response(inbox_page)
    inbox_page.page.evaluate(SET_TIMING % "{ seen: 10 }")
    inbox_page.turn("visible")
    inbox_page.until(lambda: inbox.calls("PUT /v1/inbox/seen"))
    expect(inbox_page.badge).to_be_hidden()
    release_page_response(inbox_page)
    sync(inbox_page)
    assert unread_states(inbox_page) == [True, False]
    expect(inbox_page.badge).to_be_hidden()


def test_growth_does_not_make_a_read_row_unread(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    log(inbox_page)
    inbox.send("group", inbox.items[1] | {"count": 2, "text": "grown", "unread": True})
    inbox.send("row", inbox.items[1] | {"count": 3, "text": "grown again", "unread": True})
    expect(inbox_page.rows.nth(1).locator(".text")).to_have_text("grown again")
    assert unread_states(inbox_page) == [False]


def test_older_rows_include_recent_stream_events(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox.items = items(45)
    inbox_page.live()
    inbox.stale = True
    inbox.page_gate.clear()
    inbox_page.scroll(100_000)
    inbox_page.until(lambda: any("cursor=" in call for call, _ in inbox.requests))
    inbox.items = [*inbox.items[:30], inbox.items[30] | {"unread": True}, *inbox.items[31:]]
    inbox.send("marked", inbox.items[30])
    sync(inbox_page)
    inbox.page_gate.set()
    expect(inbox_page.rows).to_have_count(45)
    expect(inbox_page.rows.nth(30)).to_have_class(re.compile("unread"))


def test_concurrent_marks_of_two_devices_end_as_on_the_server(inbox_page: FakeInboxPage, inbox: Inbox) -> None:
    inbox_page.live()
    mark(inbox_page, "u")
    inbox_page.until(lambda: inbox.marked == ["unread"])
    inbox.mark(["b998"], "read")  # on another device, while the page still holds back events of its own mark
    expect(inbox_page.rows.nth(1)).not_to_have_class(re.compile("unread"))
    expect(inbox_page.badge).to_be_hidden()
